"""The threads and the memory that a process may use, from planted trees."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted import CGROUP_V2_MOUNT, plant, topology

from modelzoo.machine.cpu import memory_limit, physical_memory, usable_threads


def test_threads_count_cores_not_siblings(tmp_path: Path) -> None:
    """Four logical CPUs on two cores give two threads, and a mask over one core gives one."""
    root = plant(tmp_path, topology(["0,2", "1,3", "0,2", "1,3"]))
    assert usable_threads(root, frozenset({0, 1, 2, 3})).count == 2
    one = usable_threads(root, frozenset({0, 2}))
    assert (one.count, one.physical_cores, one.affinity) == (1, 1, 2)
    assert one.cpus_allowed == "0,2"


@pytest.mark.parametrize(("quota", "count"), [("150000 100000", 1), ("50000 100000", 1), ("300000 100000", 3)])
def test_a_quota_is_rounded_down_to_at_least_one(tmp_path: Path, quota: str, count: int) -> None:
    """cgroup v2: 1.5 CPUs give one thread, half a CPU one, three CPUs three."""
    root = plant(
        tmp_path,
        {
            **topology(["0", "1", "2", "3"]),
            "proc/self/cgroup": "0::/pod/app",
            "proc/self/mountinfo": CGROUP_V2_MOUNT,
            "sys/fs/cgroup/pod/app/cpu.max": quota,
        },
    )
    found = usable_threads(root, frozenset(range(4)))
    assert found.count == count


def test_the_tightest_parent_group_decides(tmp_path: Path) -> None:
    """A limit of the pod applies to the container inside it, for CPU time and for memory."""
    root = plant(
        tmp_path,
        {
            **topology(["0", "1", "2", "3"]),
            "proc/self/cgroup": "0::/pod/app",
            "proc/self/mountinfo": CGROUP_V2_MOUNT,
            "proc/meminfo": "MemTotal: 8388608 kB",
            "sys/fs/cgroup/pod/app/cpu.max": "max 100000",
            "sys/fs/cgroup/pod/app/memory.max": "max",
            "sys/fs/cgroup/pod/cpu.max": "200000 100000",
            "sys/fs/cgroup/pod/memory.max": str(2**30),
        },
    )
    assert usable_threads(root, frozenset(range(4))).count == 2
    assert memory_limit(root) == 2**30


def test_without_limits_the_whole_memory_may_be_used(tmp_path: Path) -> None:
    """The physical memory is the limit; an empty tree gives None."""
    assert memory_limit(plant(tmp_path / "a", {"proc/meminfo": "MemTotal: 8388608 kB"})) == 8 * 2**30
    assert memory_limit(tmp_path) is None


def test_the_real_memory_is_known() -> None:
    """On this machine the memory can be read."""
    assert (physical_memory() or 0) >= (memory_limit() or 0) > 0
