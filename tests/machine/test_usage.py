"""CPU usage, from planted counters and on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from planted import plant

from modelzoo.machine.usage import CpuUsageMonitor, parse_stat
from modelzoo.records.machine import ClockFrequency

FREQUENCY = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
STAT = """\
cpu  300 0 100 5000 0 0 0 30 0 0
cpu0 100 10 50 2500 5 1 2 10 7 0
cpu1 200 0 50 2500 0 0 0 20 0 0
intr 1
"""


def test_parse_stat_adds_the_cpus_asked_for() -> None:
    """Idle, waiting and guest time do not count as busy; stolen time is separate."""
    assert parse_stat(STAT, frozenset({0})) == (100 + 10 + 50 + 1 + 2, 10)
    assert parse_stat(STAT, frozenset({0, 1})) == (163 + 250, 30)
    assert parse_stat("", frozenset({0})) is None


def monitored(
    root: Path, monkeypatch: pytest.MonkeyPatch, cpus: set[int], clock: list[float], own: list[float]
) -> CpuUsageMonitor:
    """A started monitor of a machine whose clock shows these times, and this process these CPU seconds."""
    monkeypatch.setattr("modelzoo.machine.usage.linux.allowed_cpus", lambda: frozenset(cpus))
    for name, values in (("time.perf_counter", iter(clock)), ("process_tree_seconds", iter(own))):
        monkeypatch.setattr(f"modelzoo.machine.usage.{name}", lambda *pid, values=values: next(values))
    return CpuUsageMonitor(root=root).start()


def test_own_work_is_told_from_other_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy ticks minus our own are other usage; stolen ticks count relative to all demanded."""
    ticks = os.sysconf("SC_CLK_TCK")
    plant(tmp_path, {"proc/stat": "cpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0", FREQUENCY: "2000000"})
    monitor = monitored(tmp_path, monkeypatch, {0, 1}, [100.0, 110.0], [1.0, 6.0])
    plant(
        tmp_path,
        {
            "proc/stat": f"cpu0 {6 * ticks} 0 0 0 0 0 0 {2 * ticks}\ncpu1 {2 * ticks} 0 0 0 0 0 0 0",
            FREQUENCY: "3000000",
        },
    )
    usage = monitor.stop()
    assert usage.seconds == 10
    assert usage.own_cores == pytest.approx(0.5)
    assert usage.other_cores == pytest.approx(0.3)
    assert usage.steal_percent == pytest.approx(20)
    assert usage.throttled_seconds is None
    assert usage.frequency == ClockFrequency(2500.0, 2000.0, 3000.0)
    assert usage.huge_pages is None


def test_what_is_left_out_is_no_part_of_the_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that cannot see the others of its call counts its own turns only."""
    ticks = os.sysconf("SC_CLK_TCK")

    def busy(seconds: float) -> None:
        plant(tmp_path, {"proc/stat": f"cpu0 {round(seconds * ticks)} 0 0 0 0 0 0 0"})

    busy(0)
    monitor = monitored(tmp_path, monkeypatch, {0}, [100.0, 102.0, 110.0, 112.0], [1.0, 2.0, 2.0, 3.0])
    busy(1.2)
    with monitor.left_out():
        busy(9)
    busy(10.2)
    usage = monitor.stop()
    assert (usage.seconds, usage.own_cores) == (4, 0.5)
    assert usage.other_cores == pytest.approx(0.1)
    assert usage.resolution == pytest.approx(2**0.5 / ticks / 4)
