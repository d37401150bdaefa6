"""Where this process's memory is: /proc/self/numa_maps, and the policy that decides where new memory comes from."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from pathlib import Path

from modelzoo.machine.linux import FILESYSTEM_ROOT, allowed_cpus, parse_cpu_list, read_text
from modelzoo.records.placement import NodeMemory, Placement

SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237}
"""Number of the system call (source: the kernel's syscall tables)."""
PREFERRED = 1
"""MPOL_PREFERRED: memory comes from this node, and from others only if it has none left (source: set_mempolicy(2))."""
_PAGES = re.compile(r" N(\d+)=(\d+)")
_PAGE_SIZE = re.compile(r" kernelpagesize_kB=(\d+)")


def parse_numa_maps(text: str) -> tuple[NodeMemory, ...]:
    """Add up the pages of every mapping by node (source: numa(7)).

    Pages of mapped files count as files, all others as private. Huge pages that the kernel made transparently are
    counted in pages of the mapping's size.
    """
    private: dict[int, int] = {}
    files: dict[int, int] = {}
    for line in text.splitlines():
        size = _PAGE_SIZE.search(line)
        found = files if " file=" in line else private
        for node, pages in _PAGES.findall(line):
            found[int(node)] = found.get(int(node), 0) + int(pages) * (int(size[1]) if size else 4) * 1024
    return tuple(NodeMemory(node, private.get(node, 0), files.get(node, 0)) for node in sorted({*private, *files}))


def nodes_of(cpus: frozenset[int], root: Path = FILESYSTEM_ROOT) -> tuple[int, ...]:
    """Return the NUMA nodes that ``cpus`` belong to; empty if the system does not say."""
    found = []
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        if cpus & parse_cpu_list(read_text(folder / "cpulist") or ""):
            found.append(int(folder.name[len("node") :]))
    return tuple(sorted(found))


def read_placement(
    cpus: frozenset[int] | None = None,
    preferred_node: int | None = None,
    policy_problem: str | None = None,
    root: Path = FILESYSTEM_ROOT,
) -> Placement:
    """Say where this process runs and where its memory is. Takes some milliseconds per GB.

    Args:
        cpus: its affinity mask before libraries were loaded, which may bind threads; by default that of now.
        preferred_node: what ``prefer_own_node`` returned …
        policy_problem: … and the error with which it failed.
        root: the directory that stands for ``/``.
    """
    cpus = allowed_cpus() if cpus is None else cpus
    problem = None
    try:
        memory = parse_numa_maps((root / "proc/self/numa_maps").read_text(errors="replace"))
    except OSError as error:
        memory, problem = (), f"/proc/self/numa_maps cannot be read: {error.strerror}"
    return Placement(tuple(sorted(cpus)), nodes_of(cpus, root), memory, problem, preferred_node, policy_problem)


def prefer_own_node(cpus: frozenset[int]) -> tuple[int | None, str | None]:
    """Have the memory that this thread, and those that it starts, allocate from now on come from the node of ``cpus``.

    Without it the kernel takes memory from the node of the CPU that touches it first, which is the same as long as that
    node has memory left; the policy makes it independent of what else the system or the user has set.

    Returns:
        The node, and the system's error if there is one. Nothing is set, and there is no error, if there is not exactly
        one node, or if the number of the system call is not known.
    """
    nodes = nodes_of(cpus)
    number = SET_MEMPOLICY.get(platform.machine())
    if len(nodes) != 1 or number is None:
        return None, None
    bits = 64 * (nodes[0] // 64 + 1)
    mask = (ctypes.c_uint64 * (bits // 64))()
    mask[nodes[0] // 64] = 1 << nodes[0] % 64
    library = ctypes.CDLL(None, use_errno=True)
    # The kernel looks at one bit less than it is told (source: the notes of set_mempolicy(2)).
    if library.syscall(number, PREFERRED, ctypes.byref(mask), ctypes.c_ulong(bits + 1)):
        return None, f"set_mempolicy failed: {os.strerror(ctypes.get_errno())}"
    return nodes[0], None


def resident_memory(root: Path = FILESYSTEM_ROOT) -> int | None:
    """Return the bytes of memory that this process occupies now; ``None`` if the system does not say."""
    # Source: proc_pid_statm(5): size, resident … in pages.
    words = (read_text(root / "proc/self/statm") or "").split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if len(words) > 1 else None
