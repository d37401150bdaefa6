"""How busy the CPUs were, with our own work and with that of others."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

import msgspec

from modelzoo.machine import linux
from modelzoo.machine.linux import FILESYSTEM_ROOT, read_throttling
from modelzoo.machine.memory import huge_page_bytes
from modelzoo.records.machine import ClockFrequency, CpuUsage


def parse_stat(text: str, cpus: frozenset[int]) -> tuple[int, int] | None:
    """Return the clock ticks that ``cpus`` were busy (user, nice, system, interrupts), and that were stolen from them.

    ``None`` if ``text``, that of ``/proc/stat``, has none of them. User time includes guest time (source:
    proc_stat(5)).
    """
    busy = stolen = lines = 0
    for line in text.splitlines():
        name, *rest = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _iowait, irq, softirq, steal = (int(value) for value in (rest + ["0"] * 8)[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
            lines += 1
    return (busy, stolen) if lines else None


class _Snapshot(msgspec.Struct, frozen=True):
    """Counters at one time; those of the system are ``None`` where it does not have them."""

    clock: float
    own_seconds: float
    faults: int
    switches: int
    busy: int | None = None
    stolen: int | None = None
    throttled: float | None = None


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
        starts = [before, *(end for _, end in self._gaps)]
        ends = [*(start for start, _ in self._gaps), after]

        def spent(name: str) -> float | None:
            """How far a counter went between the gaps."""
            pairs = [(getattr(start, name), getattr(end, name)) for start, end in zip(starts, ends)]
            known = [second - first for first, second in pairs if first is not None and second is not None]
            return sum(known) if known else None

        seconds, own = max(spent("clock") or 0.0, 1e-9), max(0.0, spent("own_seconds") or 0.0)
        tick = 1 / os.sysconf("SC_CLK_TCK")
        busy, stolen, other, steal = spent("busy"), spent("stolen"), None, None
        if busy is not None and stolen is not None:
            other = max(0.0, busy * tick - own) / seconds
            steal = 100 * stolen / (busy + stolen) if busy + stolen > 0 else 0.0
        samples = self._mhz_before + linux.current_mhz(self._cpus, self._root)
        return CpuUsage(
            seconds=seconds,
            own_cores=own / seconds,
            other_cores=other,
            steal_percent=steal,
            # The ends of the pieces are rounded independently of each other.
            resolution=tick * len(self._cpus) * len(starts) ** 0.5 / seconds,
            minor_faults=int(spent("faults") or 0),
            involuntary_switches=int(spent("switches") or 0),
            throttled_seconds=spent("throttled"),
            waited_seconds=waited,
            frequency=ClockFrequency(fmean(samples), min(samples), max(samples)) if samples else None,
            huge_pages=huge_page_bytes(self._root),
        )

    def _snapshot(self) -> _Snapshot:
        usage, throttled = resource.getrusage(resource.RUSAGE_SELF), read_throttling(self._root)
        busy, stolen = parse_stat(linux.read_text(self._root / "proc/stat") or "", self._cpus) or (None, None)
        return _Snapshot(
            time.perf_counter(),
            process_tree_seconds(self._pid),
            usage.ru_minflt,
            usage.ru_nivcsw,
            busy,
            stolen,
            None if throttled is None else throttled.seconds,
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
        # macOS does not report the times of ended children.
        total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total
