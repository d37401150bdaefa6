"""The memory of a process: its allocator, its huge pages, and the NUMA nodes that it is on.

Huge pages are requested by environment variables, forbidden by prctl and counted in /proc; nothing here changes the
system's setting in ``/sys/kernel/mm/transparent_hugepage``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import linux
from modelzoo.machine.linux import FILESYSTEM_ROOT
from modelzoo.records.machine import NodeMemory, Placement

PR_SET_THP_DISABLE, PR_GET_THP_DISABLE = 41, 42
"""Source: prctl(2)."""
REQUESTS: Mapping[str, str] = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_CONF": "thp:always",
    "THP_MEM_ALLOC_ENABLE": "1",
}
"""Variables with which glibc, jemalloc and torch ask the kernel for huge pages (``madvise``). gperftools' tcmalloc has
none."""
GLIBC_WITH_TUNABLE = (2, 35)
"""The first version with ``glibc.malloc.hugetlb`` (source: its NEWS)."""


def system_mode(root: Path = FILESYSTEM_ROOT) -> str | None:
    """Return the system's setting: ``always``, ``madvise`` or ``never``; ``None`` if the kernel has no huge pages."""
    text = linux.read_text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""  # always [madvise] never
    return text.partition("[")[2].partition("]")[0] or None


def huge_pages_problem(mode: str | None, allocator: str | None, libc: tuple[str, str] | None = None) -> str | None:
    """Return why a process that uses ``allocator`` cannot have huge pages if it asks for them; ``None`` if it can.

    Args:
        mode: see ``system_mode``.
        allocator: as ``modelzoo.machine.memory`` names it.
        libc: name and version of the C library, by default this process's.
    """
    if mode not in ("always", "madvise"):
        state = "off on this machine" if mode == "never" else "not supported by this kernel"
        return (
            f"transparent huge pages are {state}; an administrator can allow them with 'echo madvise | sudo tee "
            "/sys/kernel/mm/transparent_hugepage/enabled', or leave thp=on out"
        )
    name, version = platform.libc_ver() if libc is None else libc
    needs_tunable = mode == "madvise" and allocator == "glibc" and name == "glibc"
    if needs_tunable and tuple(map(int, version.split(".")[:2])) < GLIBC_WITH_TUNABLE:
        return (
            f"this machine has glibc {version}, which cannot request huge pages (2.35 and newer can); use "
            "malloc=jemalloc, or leave thp=on out"
        )
    return None


def set_allowed(allowed: bool) -> None:
    """Allow or forbid huge pages in this process, for memory that it allocates from now on.

    Raises:
        EnvironmentProblem: this system cannot do that.
    """
    if _prctl(PR_SET_THP_DISABLE, int(not allowed)) != 0 or _prctl(PR_GET_THP_DISABLE, 0) != int(not allowed):
        raise EnvironmentProblem(
            f"thp={'on' if allowed else 'off'}: this system has no switch for the huge pages of one process "
            "(PR_SET_THP_DISABLE); leave thp out"
        )


def _prctl(operation: int, value: int) -> int:
    """Call prctl; -1 if it fails or does not exist."""
    arguments = [ctypes.c_ulong(each) for each in (value, 0, 0, 0)]
    try:
        return int(ctypes.CDLL(None).prctl(operation, *arguments))
    except AttributeError:  # not Linux
        return -1


def huge_page_bytes(root: Path = FILESYSTEM_ROOT) -> int | None:
    """Return how much anonymous memory of this process is in huge pages; ``None`` if the kernel does not say."""
    text = linux.read_text(root / "proc/self/smaps_rollup") or ""
    found = re.search(r"^AnonHugePages:\s+(\d+) kB$", text, re.MULTILINE)
    return None if found is None else 1024 * int(found.group(1))


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
    found = (Counter[int](), Counter[int]())
    for line in text.splitlines():
        size = _PAGE_SIZE.search(line)
        for node, pages in _PAGES.findall(line):
            found[" file=" in line][int(node)] += int(pages) * (int(size[1]) if size else 4) * 1024
    return tuple(NodeMemory(node, found[False][node], found[True][node]) for node in sorted({*found[0], *found[1]}))


def nodes_of(cpus: frozenset[int], root: Path = FILESYSTEM_ROOT) -> tuple[int, ...]:
    """Return the NUMA nodes that ``cpus`` belong to; empty if the system does not say."""
    return tuple(node for node, own in linux.read_numa_nodes(root).items() if cpus & own)


def read_placement(
    cpus: frozenset[int],
    preferred_node: int | None = None,
    policy_problem: str | None = None,
    root: Path = FILESYSTEM_ROOT,
) -> Placement:
    """Say where this process runs and where its memory is. Takes some milliseconds per GB.

    Args:
        cpus: its affinity mask before libraries were loaded, which may bind threads.
        preferred_node: what ``prefer_own_node`` returned …
        policy_problem: … and the error with which it failed.
        root: the directory that stands for ``/``.
    """
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


_REPLACEMENTS = ("tcmalloc", "jemalloc", "mimalloc", "snmalloc", "libhoard", "tbbmalloc_proxy")


LIBRARIES = {
    "tcmalloc": (("tcmalloc_minimal", "tcmalloc"), "libtcmalloc-minimal4"),
    "jemalloc": (("jemalloc",), "libjemalloc2"),
}
"""By the allocator's name in a setting: its libraries, the preferred first, and the package of Debian and Ubuntu."""


def identify_allocator(maps: str, address: int | None = None) -> str | None:
    """Return the name of the ``malloc`` in use, or ``None`` if it is unknown.

    Args:
        maps: the text of ``/proc/self/maps``.
        address: of the process's global ``malloc``. It decides, because a mapped library need not have replaced
            ``malloc``. Without it, the first mapped replacement counts.
    """
    names: list[str] = []
    for line in maps.splitlines():
        words = line.split(maxsplit=5)
        if len(words) < 6 or not words[5].startswith("/"):
            continue
        first, _, end = words[0].partition("-")
        names.append(Path(words[5]).name)
        if address is not None and int(first, 16) <= address < int(end, 16):
            names = names[-1:]
            break
    replacement = next(filter(None, map(replacement_name, names)), None)
    if replacement is None and any(re.match(r"libc(\.so\.6|-[\d.]+\.so)$", name) for name in names):
        return "glibc"
    return replacement or ("musl" if any("musl" in name for name in names) else None)


def replacement_name(file: str) -> str | None:
    """Return the name of the allocator that the library ``file`` (a name or path) provides, or ``None``."""
    return next((known for known in _REPLACEMENTS if known in Path(file).name), None)


def current_allocator() -> str | None:
    """Return the name of this process's allocator, or ``None`` if it is unknown."""
    return identify_allocator(linux.read_text(Path("/proc/self/maps")) or "", malloc_address())


def malloc_address() -> int | None:
    """Return the address of this process's global ``malloc``."""
    return ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value


def locate_library(name: str) -> str | None:
    """Return the library of allocator ``name`` as LD_PRELOAD takes it; ``None`` if there is none.

    It is a file of this Python's environment, such as conda's, or the name of one that the dynamic linker finds.
    """
    from ctypes.util import find_library as linked  # it loads subprocess and more

    for stem in LIBRARIES[name][0]:
        own = sorted(map(str, Path(sys.prefix, "lib").glob(f"lib{stem}.so.*")))
        if found := own[0] if own else linked(stem):
            return found
    return None


def missing_library(name: str) -> str:
    """Say that the library of allocator ``name`` is missing, and what to do."""
    stems, package = LIBRARIES[name]
    return (
        f"lib{stems[0]} was not found on this machine; install it (Debian and Ubuntu: apt-get install {package}), or "
        "leave this allocator out"
    )


def find_library(name: str) -> str:
    """Return what ``locate_library`` returns.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    found = locate_library(name)
    if found is None:
        raise EnvironmentProblem(f"malloc={name}: {missing_library(name)}")
    return found
