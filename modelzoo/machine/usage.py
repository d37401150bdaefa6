"""How busy the CPUs were, with our own work and with that of others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from modelzoo.machine import linux
from modelzoo.machine.linux import FILESYSTEM_ROOT, read_throttling
from modelzoo.machine.memory import huge_page_bytes
from modelzoo.records.machine import CpuUsage, Throttling


class CpuTicks(msgspec.Struct, frozen=True):
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


class _Snapshot(msgspec.Struct, frozen=True):
    clock: float
    ticks: CpuTicks | None
    own_seconds: float
    faults: int
    switches: int
    throttled: Throttling | None


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
        self._gaps: list[tuple[_Snapshot, _Snapshot]] = []
        self._mhz_before: list[float] = []

    def start(self) -> CpuUsageMonitor:
        """Start a period; a second call restarts it."""
        self._mhz_before = linux.current_mhz(self._cpus, self._root)
        self._before = self._snapshot()
        self._gaps = []
        return self

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """What happens meanwhile is no part of the period."""
        begun = self._snapshot()
        try:
            yield
        finally:
            self._gaps.append((begun, self._snapshot()))

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
        pieces = _pieces(before, self._gaps, after)
        seconds = max(sum(end.clock - start.clock for start, end in pieces), 1e-9)
        own = max(0.0, sum(end.own_seconds - start.own_seconds for start, end in pieces))
        tick = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
        other = steal = None
        counted = [
            (start.ticks, end.ticks) for start, end in pieces if start.ticks is not None and end.ticks is not None
        ]
        if counted:
            busy = sum(end.busy - start.busy for start, end in counted) * tick
            stolen = sum(end.stolen - start.stolen for start, end in counted) * tick
            other = max(0.0, busy - own) / seconds
            steal = 100 * stolen / (busy + stolen) if busy + stolen > 0 else 0.0
        limited = [
            end.throttled.since(start.throttled).seconds
            for start, end in pieces
            if start.throttled is not None and end.throttled is not None
        ]
        throttled = sum(limited) if limited else None
        return CpuUsage(
            seconds=seconds,
            own_cores=own / seconds,
            other_cores=other,
            steal_percent=steal,
            # The ends of the pieces are rounded independently of each other.
            resolution=tick * len(self._cpus) * len(pieces) ** 0.5 / seconds,
            minor_faults=sum(end.faults - start.faults for start, end in pieces),
            involuntary_switches=sum(end.switches - start.switches for start, end in pieces),
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
            throttled=read_throttling(self._root),
        )


def _pieces(
    first: _Snapshot, gaps: Sequence[tuple[_Snapshot, _Snapshot]], last: _Snapshot
) -> list[tuple[_Snapshot, _Snapshot]]:
    """The parts of a period between its gaps, each from one snapshot to another."""
    starts = [first, *(end for _, end in gaps)]
    ends = [*(start for start, _ in gaps), last]
    return list(zip(starts, ends))


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
