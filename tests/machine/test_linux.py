"""Parsers of /proc and /sys, on planted trees."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from planted import CGROUP_V1_CPU_MOUNT, CGROUP_V2_MOUNT, plant

from modelzoo.machine import linux
from modelzoo.machine.linux import cgroup_memory, cpu_quota, read_throttling
from modelzoo.records.machine import Throttling


@given(st.frozensets(st.integers(0, 300)))
def test_cpu_lists_are_formatted_as_the_kernel_does(cpus: frozenset[int]) -> None:
    """A formatted list is parsed to the same CPUs."""
    assert linux.parse_cpu_list(linux.format_cpu_list(cpus)) == cpus
    assert linux.format_cpu_list({0, 1, 2, 3, 8}) == "0-3,8"


def test_frequencies_are_read(tmp_path: Path) -> None:
    """Of many CPUs a spread of 16 is read, in MHz; without cpufreq there is nothing."""
    files = {
        f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq": str(1_000_000 + 1000 * cpu) for cpu in range(128)
    }
    samples = linux.current_mhz(frozenset(range(128)), plant(tmp_path, files))
    assert samples[:3] == [1000.0, 1008.0, 1016.0]
    assert len(samples) == 16
    assert linux.current_mhz(frozenset({200}), tmp_path) == []


def test_cgroup_version_1(tmp_path: Path) -> None:
    """Version 1 has other files; a huge number means no limit, and -1 no quota."""
    root = plant(
        tmp_path,
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc",
            "proc/self/mountinfo": CGROUP_V1_CPU_MOUNT
            + "\n33 31 0:30 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "200000",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.stat": "nr_throttled 3\nthrottled_time 2500000000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    assert (cpu_quota(root), cgroup_memory(root)) == (2.0, None)
    assert read_throttling(root) == Throttling(3, 2.5)


def test_a_path_outside_the_container_falls_back_to_the_mount(tmp_path: Path) -> None:
    """Without a cgroup namespace the path names a group that the container cannot see."""
    root = plant(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../../system.slice/docker-1.scope",
            "proc/self/mountinfo": CGROUP_V2_MOUNT,
            "sys/fs/cgroup/cpu.max": "100000 100000",
        },
    )
    assert cpu_quota(root) == 1.0


def test_stops_by_the_quotas_of_a_group_and_its_parents_are_added_up(tmp_path: Path) -> None:
    """The quota of a pod stops its containers as well; without any quota the time is unknown, not 0."""
    files = {
        "proc/self/cgroup": "0::/pod/app",
        "proc/self/mountinfo": CGROUP_V2_MOUNT,
        "sys/fs/cgroup/pod/app/cpu.max": "400000 100000",
        "sys/fs/cgroup/pod/app/cpu.stat": "usage_usec 9\nnr_periods 20\nnr_throttled 4\nthrottled_usec 1500000",
        "sys/fs/cgroup/pod/cpu.max": "200000 100000",
        "sys/fs/cgroup/pod/cpu.stat": "nr_throttled 7\nthrottled_usec 300000",
    }
    found = read_throttling(plant(tmp_path, files))
    assert found == Throttling(11, 1.8)
    assert found.since(Throttling(6, 0.25)).periods == 5
    unlimited = dict.fromkeys((name for name in files if name.endswith("cpu.max")), "max 100000")
    assert read_throttling(plant(tmp_path, unlimited)) is None
