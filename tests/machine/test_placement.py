"""Where the memory of a process is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelzoo.machine.memory import nodes_of, parse_numa_maps, prefer_own_node, read_placement, resident_memory
from modelzoo.records.topology import NodeMemory

# Lines as a server with several nodes prints them (numa(7)), and one of a mapping in explicit huge pages.
NUMA_MAPS = """\
00400000 default file=/usr/bin/python3.11 mapped=50 mapmax=2 N0=50 kernelpagesize_kB=4
01362000 default heap anon=300 dirty=300 N1=290 N3=10 kernelpagesize_kB=4
7f0000000000 prefer:1 anon=1024 dirty=1024 N1=1024 kernelpagesize_kB=4
7f1000000000 default huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048
7f2000000000 default file=/lib/libtorch.so anon=4 dirty=4 mapped=104 N0=80 N12=24 kernelpagesize_kB=4
7ffd00000000 default stack anon=3 dirty=3 N1=3 kernelpagesize_kB=4
7ffd00002000 default
"""


def tree(root: Path, nodes: dict[int, str], numa_maps: str | None = NUMA_MAPS) -> Path:
    """The files of a machine with these nodes."""
    for node, cpus in nodes.items():
        folder = root / f"sys/devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n")
    if numa_maps is not None:
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/numa_maps").write_text(numa_maps)
    return root


def test_memory_is_added_up_by_node() -> None:
    """Private pages apart from those of files, huge pages by their size, node numbers of any length."""
    assert parse_numa_maps(NUMA_MAPS) == (
        NodeMemory(0, 0, 130 * 4096),
        NodeMemory(1, (290 + 1024 + 3) * 4096 + 2 * 2048 * 1024, 0),
        NodeMemory(3, 10 * 4096, 0),
        NodeMemory(12, 0, 24 * 4096),
    )


def test_a_process_whose_memory_is_on_its_own_node_is_proven(tmp_path: Path) -> None:
    """The libraries that it shares with others may be anywhere."""
    root = tree(tmp_path, {0: "0-3", 1: "4-7", 3: "12-15", 12: ""})
    found = read_placement(frozenset({4, 5}), root=root)
    assert (found.cpus, found.nodes, found.problem) == ((4, 5), (1,), None)
    assert found.local_share == pytest.approx(1 - 40960 / sum(each.private for each in found.memory))
    assert found.is_proven
    elsewhere = read_placement(frozenset({0, 1}), root=root)
    assert elsewhere.local_share == 0
    assert not elsewhere.is_proven
    both = read_placement(frozenset({3, 4}), root=root)
    assert both.nodes == (0, 1)
    assert not both.is_proven, "on two nodes no memory is near to all CPUs"


def test_what_cannot_be_read_leaves_the_placement_unproven(tmp_path: Path) -> None:
    """With the reason; kernels without NUMA have no such file."""
    found = read_placement(frozenset({0}), root=tree(tmp_path / "a", {0: "0-3"}, numa_maps=None))
    assert found.problem == "/proc/self/numa_maps cannot be read: No such file or directory"
    assert found.local_share is None
    assert not found.is_proven
    found = read_placement(frozenset({0}), root=tree(tmp_path / "b", {}))
    assert (found.problem, found.nodes, found.local_share) == (None, (), None)
    found = read_placement(frozenset({0}), root=tree(tmp_path / "c", {0: "0"}, numa_maps="00400000 default\n"))
    assert (found.problem, found.nodes, found.memory, found.local_share) == (None, (0,), (), None)


def test_the_policy_holds_in_the_process_that_sets_it() -> None:
    """What is allocated afterwards has it, or the system's reason is given; in a process of its own."""
    cpus = frozenset(os.sched_getaffinity(0))
    if len(nodes_of(cpus)) != 1:
        pytest.skip("the CPUs of this process are on several NUMA nodes, or the system names none")
    code = (
        "import os, mmap\n"
        "from modelzoo.machine.memory import prefer_own_node\n"
        "print(*prefer_own_node(frozenset(os.sched_getaffinity(0))), sep='|')\n"
        "block = mmap.mmap(-1, 1 << 24); block.write(b'x' * (1 << 24))\n"
        "print('prefer' in open('/proc/self/numa_maps').read())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    policy, seen = done.stdout.splitlines()
    if policy.startswith("None"):
        pytest.skip(f"this system refuses the policy: {policy}")
    assert policy == f"{nodes_of(cpus)[0]}|None"
    assert seen == "True"


def test_no_policy_is_set_for_an_unknown_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of the system call differs between architectures."""
    monkeypatch.setattr("platform.machine", lambda: "vax")
    assert prefer_own_node(frozenset({0})) == (None, None)


def test_resident_memory_is_read_in_bytes(tmp_path: Path) -> None:
    """The second number of statm is in pages."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/statm").write_text("1000 25 10 1 0 50 0\n")
    assert resident_memory(tmp_path) == 25 * os.sysconf("SC_PAGE_SIZE")
    assert resident_memory(tmp_path / "nothing") is None
