"""How busy the CPUs were, with our own work and with that of others."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from modelzoo.machine import linux
from modelzoo.machine.cgroups import read_throttled_seconds
from modelzoo.machine.huge_pages import huge_page_bytes
from modelzoo.machine.linux import FILESYSTEM_ROOT
from modelzoo.records.machine import CpuUsage


@dataclass(frozen=True)
class CpuTicks:
    """Clock ticks that a set of CPUs spent busy (user, nice, system, interrupts), and that were stolen from it."""

    busy: int
    stolen: int


def parse_stat(text: str, cpus: frozenset[int]) -> CpuTicks | None:
    """Add up the lines of ``/proc/stat`` for ``cpus``; ``None`` if it has none of them.

    User time includes guest time (source: proc_stat(5)).
    """
    busy = stolen = lines = 0
    for line in text.splitlines():
        name, *rest = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _iowait, irq, softirq, steal = (int(value) for value in (rest + ["0"] * 8)[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
            lines += 1
    return CpuTicks(busy, stolen) if lines else None


@dataclass(frozen=True)
class _Snapshot:
    clock: float
    ticks: CpuTicks | None
    own_seconds: float
    faults: int
    switches: int
    throttled: float | None


class CpuUsageMonitor:
    """Measure the CPU usage between ``start`` and ``stop``.

    Each takes well under a millisecond, or up to 0.3 s on old x86 kernels that report frequencies slowly.

    Args:
        pid: the process whose tree counts as our own work, by default this one. A worker passes its parent's id, so
            that the parent does not count as other load.
        root: the directory that stands for ``/``.
    """

    def __init__(self, pid: int | None = None, root: Path = FILESYSTEM_ROOT) -> None:
        self._pid = os.getpid() if pid is None else pid
        self._root = root
        self._cpus = linux.allowed_cpus()
        self._before: _Snapshot | None = None
        self._mhz_before: list[float] = []

    def start(self) -> CpuUsageMonitor:
        """Start a period; a second call restarts it."""
        self._mhz_before = linux.current_mhz(self._cpus, self._root)
        self._before = self._snapshot()
        return self

    def stop(self, waited: float = 0.0) -> CpuUsage:
        """Return the usage since ``start``; may be called several times.

        Args:
            waited: seconds of the period in which this process waited for its turn.

        Raises:
            RuntimeError: ``start`` was not called.
        """
        before, after = self._before, self._snapshot()
        if before is None:
            raise RuntimeError("CpuUsageMonitor.stop before start")
        seconds = max(after.clock - before.clock, 1e-9)
        own = max(0.0, after.own_seconds - before.own_seconds)
        tick = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
        other = steal = None
        if before.ticks is not None and after.ticks is not None:
            busy = (after.ticks.busy - before.ticks.busy) * tick
            stolen = (after.ticks.stolen - before.ticks.stolen) * tick
            other = max(0.0, busy - own) / seconds
            steal = 100 * stolen / (busy + stolen) if busy + stolen > 0 else 0.0
        throttled = None
        if before.throttled is not None and after.throttled is not None:
            throttled = after.throttled - before.throttled
        return CpuUsage(
            seconds=seconds,
            own_cores=own / seconds,
            other_cores=other,
            steal_percent=steal,
            resolution=tick * len(self._cpus) / seconds,
            minor_faults=after.faults - before.faults,
            involuntary_switches=after.switches - before.switches,
            throttled_seconds=throttled,
            waited_seconds=waited,
            frequency=linux.summarize_frequency(self._mhz_before + linux.current_mhz(self._cpus, self._root)),
            huge_pages=huge_page_bytes(self._root),
        )

    def _snapshot(self) -> _Snapshot:
        faults = switches = 0
        try:
            import resource
        except ImportError:  # not Unix
            pass
        else:
            usage = resource.getrusage(resource.RUSAGE_SELF)
            faults, switches = usage.ru_minflt, usage.ru_nivcsw
        return _Snapshot(
            clock=time.perf_counter(),
            ticks=parse_stat(linux.read_text(self._root / "proc/stat") or "", self._cpus),
            own_seconds=process_tree_seconds(self._pid),
            faults=faults,
            switches=switches,
            throttled=read_throttled_seconds(self._root),
        )


def process_tree_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, its living descendants, and those that have ended and been waited for."""
    import psutil

    try:
        parent = psutil.Process(pid)
        members = [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return 0.0
    total = 0.0
    for process in members:
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has ended meanwhile
            continue
        total += times.user + times.system
        # macOS and Windows do not report the times of ended children.
        total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total
