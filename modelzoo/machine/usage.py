"""What else used the CPUs while something was measured."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from modelzoo.machine import linux
from modelzoo.machine.linux import ROOT
from modelzoo.records.machine import CpuUsage


@dataclass(frozen=True)
class CpuTimes:
    """Clock ticks that a set of CPUs spent busy (user, nice, system, interrupts) and stolen."""

    busy: int
    stolen: int


def parse_stat(text: str, cpus: frozenset[int]) -> CpuTimes | None:
    """Add up the lines of ``/proc/stat`` for ``cpus``; ``None`` where none of them is there.

    Guest time is part of user time already (source: proc_stat(5)).
    """
    busy = stolen = lines = 0
    for line in text.splitlines():
        name, *rest = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _iowait, irq, softirq, steal = (int(value) for value in (rest + ["0"] * 8)[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
            lines += 1
    return CpuTimes(busy, stolen) if lines else None


@dataclass(frozen=True)
class _Snapshot:
    clock: float
    times: CpuTimes | None
    own: float
    faults: int
    switches: int
    throttled: float | None


class CpuUsageMonitor:
    """Measure the other load between ``start`` and ``stop``; costs well under a millisecond each.

    Args:
        pid: the process whose tree counts as our own; a worker passes its parent's id, so that the
            parent is not taken for a stranger. By default this process.
        root: the directory that stands for ``/``.
    """

    def __init__(self, pid: int | None = None, root: Path = ROOT) -> None:
        self._pid = os.getpid() if pid is None else pid
        self._root = root
        self._cpus = linux.affinity()
        self._before: _Snapshot | None = None

    def start(self) -> CpuUsageMonitor:
        """Begin; may be called again to begin anew."""
        self._before = self._snapshot()
        return self

    def stop(self, waited: float = 0.0) -> CpuUsage:
        """Return the load since ``start``, of which ``waited`` seconds were no work; may be called several times."""
        before, after = self._before, self._snapshot()
        if before is None:
            raise RuntimeError("CpuUsageMonitor.stop before start")
        seconds = max(after.clock - before.clock, 1e-9)
        own = max(0.0, after.own - before.own)
        tick = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
        other = steal = None
        if before.times is not None and after.times is not None:
            busy = (after.times.busy - before.times.busy) * tick
            stolen = (after.times.stolen - before.times.stolen) * tick
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
            times=parse_stat(linux.read(self._root / "proc/stat") or "", self._cpus),
            own=tree_seconds(self._pid),
            faults=faults,
            switches=switches,
            throttled=linux.throttled_seconds(self._root),
        )


def tree_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, its living descendants and those they have waited for."""
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
        except psutil.Error:  # it ended meanwhile
            continue
        total += times.user + times.system
        # macOS and Windows lack the times of ended children.
        total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total
