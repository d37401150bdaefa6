"""Which allocator a process has, its huge pages, and where its memory is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from planted import plant, plant_topology

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import memory
from modelzoo.machine.memory import (
    find_library,
    identify_allocator,
    nodes_of,
    parse_numa_maps,
    read_placement,
)
from modelzoo.records.machine import NodeMemory

SMAPS_ROLLUP = """\
5570dbe60000-7fff34b3d000 ---p 00000000 00:00 0                          [rollup]
Rss:              842180 kB
Pss:              806553 kB
Anonymous:        532096 kB
LazyFree:              0 kB
AnonHugePages:    405504 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:         0 kB
"""
"""Of a process with torch on Linux 6.18, shortened."""
GLIBC, OLD_GLIBC = ("glibc", "2.36"), ("glibc", "2.31")


@pytest.mark.parametrize(
    ("mode", "allocator", "libc", "message"),
    [
        ("madvise", "glibc", GLIBC, None),
        ("madvise", "jemalloc", OLD_GLIBC, None),
        ("madvise", "tcmalloc", OLD_GLIBC, None),
        ("always", "glibc", OLD_GLIBC, None),
        ("always", None, ("", ""), None),
        ("never", "glibc", GLIBC, "transparent huge pages are off on this machine; an administrator"),
        (None, "glibc", GLIBC, "transparent huge pages are not supported by this kernel"),
        ("madvise", "glibc", OLD_GLIBC, "this machine has glibc 2.31, which cannot request huge pages"),
    ],
)
def test_whether_huge_pages_can_be_had(
    mode: str | None, allocator: str | None, libc: tuple[str, str], message: str | None
) -> None:
    """With ``always`` nobody needs to ask for them; otherwise the reason says what to do."""
    problem = memory.huge_pages_problem(mode, allocator, libc)
    assert problem is None if message is None else str(problem).startswith(message)


def test_memory_in_huge_pages_is_counted(tmp_path: Path) -> None:
    """In bytes; kernels before 4.14 do not say."""
    assert memory.huge_page_bytes(tmp_path) is None
    file = tmp_path / "proc/self/smaps_rollup"
    file.parent.mkdir(parents=True)
    file.write_text(SMAPS_ROLLUP)
    assert memory.huge_page_bytes(tmp_path) == 405504 * 1024


ASK = """
import mmap, sys
from modelzoo.machine import memory
memory.set_allowed(sys.argv[1] == "on")
block = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
if hasattr(block, "madvise"):
    block.madvise(mmap.MADV_HUGEPAGE)
for page in range(0, 32 << 20, 4096):
    block[page] = 1
print(memory.huge_page_bytes())
"""


@pytest.mark.skipif(memory.system_mode() not in ("always", "madvise"), reason="this system has no huge pages")
def test_one_process_can_be_without_huge_pages() -> None:
    """The same memory is in huge pages in one process and not in the other, whatever the system's setting."""
    sizes = [
        int(subprocess.run([sys.executable, "-c", ASK, word], capture_output=True, check=True).stdout)
        for word in ("on", "off")
    ]
    assert sizes[0] >= 2 << 20
    assert sizes[1] == 0


def test_a_system_without_the_switch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting it and reading it back must agree."""
    monkeypatch.setattr(memory, "_prctl", lambda operation, value: -1)
    with pytest.raises(EnvironmentProblem, match="thp=off: this system has no switch"):
        memory.set_allowed(False)


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


def tree(root: Path, nodes: dict[int, range], numa_maps: str = NUMA_MAPS) -> Path:
    """The files of a machine with these nodes."""
    return plant(plant_topology(root, nodes), {"proc/self/numa_maps": numa_maps})


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
    root = tree(tmp_path, {0: range(4), 1: range(4, 8)})
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
    found = read_placement(frozenset({0}), root=plant_topology(tmp_path / "a", {0: range(4)}))
    assert found.problem == "/proc/self/numa_maps cannot be read: No such file or directory"
    assert found.local_share is None
    assert not found.is_proven
    found = read_placement(frozenset({0}), root=tree(tmp_path / "b", {}))
    assert (found.problem, found.nodes, found.local_share) == (None, (), None)
    found = read_placement(frozenset({0}), root=tree(tmp_path / "c", {0: range(1)}, "00400000 default"))
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


MAPS = """\
7f0000000000-7f0000100000 r-xp 00000000 fe:00 11 /usr/lib/x86_64-linux-gnu/libc.so.6
7f0000200000-7f0000300000 r-xp 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4
7f0000400000-7f0000500000 rw-p 00000000 00:00 0
7f0000600000-7f0000700000 r-xp 00000000 fe:00 13 /opt/my dir/libjemalloc.so.2
"""


def test_allocator() -> None:
    """The mapping that holds malloc decides; a mapped replacement alone need not be in use."""
    assert identify_allocator(MAPS) == "tcmalloc"
    assert identify_allocator(MAPS, 0x7F0000000010) == "glibc"
    assert identify_allocator(MAPS, 0x7F0000600010) == "jemalloc"
    assert identify_allocator("") is None
    assert identify_allocator("1-2 r-xp 0 0:0 1 /lib/ld-musl-aarch64.so.1") == "musl"


def test_the_library_of_this_pythons_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as conda's; then what the dynamic linker finds, the smaller variant of tcmalloc first."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    asked: list[str] = []
    monkeypatch.setattr("ctypes.util.find_library", lambda stem: asked.append(stem) or f"lib{stem}.so.9")
    assert find_library("tcmalloc") == "libtcmalloc_minimal.so.9"
    own = tmp_path / "lib" / "libjemalloc.so.2"
    own.parent.mkdir()
    own.touch()
    assert (find_library("jemalloc"), asked) == (str(own), ["tcmalloc_minimal"])


@pytest.mark.parametrize(("name", "package"), [("tcmalloc", "libtcmalloc-minimal4"), ("jemalloc", "libjemalloc2")])
def test_a_library_that_is_missing_is_named_with_its_package(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr("ctypes.util.find_library", lambda stem: None)
    with pytest.raises(EnvironmentProblem, match=f"malloc={name}: .* was not found on this machine; .*{package}"):
        find_library(name)


@pytest.mark.parametrize("name", memory.LIBRARIES)
def test_a_preloaded_library_is_the_allocator(name: str) -> None:
    """Found in its own process, by the address of malloc."""
    try:
        preload = find_library(name)
    except EnvironmentProblem as problem:
        pytest.skip(str(problem))
    ask = "from modelzoo.machine.memory import current_allocator; print(current_allocator())"
    environment = {**os.environ, "LD_PRELOAD": str(preload)}
    done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == name
