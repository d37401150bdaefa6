"""What is seen while a call runs: one live block on a terminal, at most a line a minute elsewhere.

The block is drawn once a second, which costs about a millisecond of one core, and is erased at the end.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import msgspec

from modelzoo import stats
from modelzoo.formatting import duration, for_people, percent
from modelzoo.records.protocol import Progress
from modelzoo.records.run import Result, Run
from modelzoo.views.differences import grouped
from modelzoo.views.judgement import judged_so_far

if TYPE_CHECKING:
    from rich.console import Console, Group

REDRAWS_PER_SECOND = 1.0
LINE_SECONDS = 60.0
"""Without a terminal, a line is printed at most this often."""
QUIET_PHASES = ("weights", "load", "load and compile")
"""Until a model is loaded, a failure should be the only line that is printed."""
NAMED_LEVELS = 4
"""The settings of a workload are named one by one up to this many."""
NAMED_WORKLOADS = 8
"""Workloads with a line of their own in the block."""


class ProgressEvent(Protocol):
    """What a worker reports: which setting of which workload, and its message."""

    @property
    def workload(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def message(self) -> Progress: ...


class LevelSoFar(msgspec.Struct, frozen=True):
    """What is known of one setting.

    Attributes:
        processes: number of processes that have been measured.
        half_width: relative half width of the interval; ``None`` if there are too few processes.
    """

    workload: str
    label: str
    processes: int
    half_width: float | None = None


class ProgressState(msgspec.Struct, frozen=True):
    """What is running now, what is known so far, and how long it may take.

    Attributes:
        process: number of the process of this setting, from 1; 0 while its predictions are judged.
        processes: number of processes per setting; ``None`` if the data decide.
        phase: of the process, for example ``warm-up`` or ``steady``.
        calls: calls in this phase so far.
        levels: every setting of the call, in the order of the table.
        elapsed: seconds since the call began.
        remaining: seconds that the rest is expected to take; ``None`` if unknown.
    """

    workload: str
    label: str
    process: int
    processes: int | None
    phase: str
    calls: int = 0
    levels: tuple[LevelSoFar, ...] = ()
    elapsed: float = 0.0
    remaining: float | None = None


class LiveProgress:
    """Shows the progress of a call, as a context manager.

    Args:
        out: where to.
        result: the result of the call before anything has run: it names the settings.
        clock: seconds, for tests.
    """

    def __init__(self, out: Console, result: Result, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.live import Live

        self._out, self._clock = out, clock
        self._names: list[tuple[str, str]] = []
        self.take_settings(result)
        self._medians: dict[int, list[float]] = {}
        self._ended: Counter[int] = Counter()
        self._unsaid: dict[int, str] = {}
        self._silent: set[tuple[str, str, str]] = set()
        self._started = self._shown_at = clock()
        self._printed_at = -math.inf
        self._seconds: float | None = None
        self._spent = 0.0
        self._processes: int | None = None
        self._state: ProgressState | None = None
        self._live = Live(
            console=out,
            get_renderable=self._block,
            refresh_per_second=REDRAWS_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveProgress:
        if self._out.is_terminal:
            self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def begin(self, seconds: float | None, processes: int | None = None, spent: float = 0.0) -> None:
        """Take note that the measurement begins.

        Args:
            seconds: how long it takes at most; ``None`` if there is no limit.
            processes: number of processes per setting if it is fixed. The time that is left then follows from it.
            spent: how much of ``seconds`` the call has taken already.
        """
        self._started = self._clock() - spent
        self._seconds, self._processes, self._spent = seconds, processes, spent

    def take_settings(self, result: Result) -> None:
        """Take note of the settings of ``result``: a search adds some while it runs, which may change all labels."""
        self._names = [(requested.workload, result.label(group)) for group, requested in enumerate(result.requested)]

    def update(self, event: ProgressEvent) -> None:
        """Show what a worker does that times a setting."""
        if self._says_silence(event):
            return
        name = event.workload, event.label
        self._show(event, 1 + (self._ended[self._names.index(name)] if name in self._names else 0))

    def judging(self, event: ProgressEvent) -> None:
        """Show what a worker does that judges the predictions of a setting."""
        if not self._says_silence(event):
            self._show(event, 0)

    def _says_silence(self, event: ProgressEvent) -> bool:
        """Whether the event is a call that does not return, which is said once for each phase of a setting."""
        if event.message.silence is None:
            return False
        phase = event.workload, event.label, event.message.phase
        if phase not in self._silent:
            self._silent.add(phase)
            self.say(silence_line(event))
        return True

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._out.print(for_people(text), soft_wrap=True)

    def finished(self, run: Run) -> None:
        """Take note of a run that has ended."""
        self._ended[run.group] += 1
        if run.steady:
            self._medians.setdefault(run.group, []).append(median(run.steady))

    def name_failure(self, run: Run) -> None:
        """Say that the setting of ``run`` failed in its first process, as soon as another setting is timed.

        The user may want to start again rather than wait for the rest. If nothing is timed, the error is all that the
        call prints. Call it before ``finished``.
        """
        if run.error is not None and not self._ended[run.group]:
            self._unsaid[run.group] = run.error

    def _show(self, event: ProgressEvent, process: int) -> None:
        message, elapsed = event.message, self._clock() - self._started
        levels = []
        for group, (workload, label) in enumerate(self._names if self._medians else ()):
            medians = self._medians.get(group, [])
            half_width = stats.level_interval(medians).half_width if len(medians) > 1 else None
            levels.append(LevelSoFar(workload, label, len(medians), half_width))
        self.show(
            ProgressState(
                workload=event.workload,
                label=event.label,
                process=process,
                processes=self._processes,
                phase=message.phase if message.judged is None else judged_so_far(message.judged),
                calls=message.count,
                levels=tuple(levels),
                elapsed=elapsed,
                remaining=self._remaining(elapsed),
            )
        )

    def _remaining(self, elapsed: float) -> float | None:
        """Seconds that are left: of the limit, or as many as the processes that are left take like those before.

        Unknown after the limit: what has been started by then is finished.
        """
        left = [] if self._seconds is None else [self._seconds - elapsed]
        done = sum(self._ended.values())
        if self._processes is not None and done:
            left.append((elapsed - self._spent) * (self._processes * len(self._names) / done - 1))
        found = min(left, default=0.0)
        return found if found > 0 else None

    def show(self, state: ProgressState) -> None:
        """Show ``state``."""
        self._state, self._shown_at = state, self._clock()
        if state.phase not in QUIET_PHASES:
            for group, error in self._unsaid.items():
                self.say(f"failed: {' '.join(self._names[group])}: {error} (the other settings are timed)")
            self._unsaid = {}
        now = self._shown_at
        if self._out.is_terminal or state.phase in QUIET_PHASES or now - self._printed_at < LINE_SECONDS:
            return
        self._printed_at = now
        self._out.print(f"{doing(state)}; {times(state.elapsed, state.remaining)}", soft_wrap=True)

    def _block(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        lines = ["starting"] if self._state is None else block_lines(self._state, self._clock() - self._shown_at)
        return Group(*(Text(for_people(line), no_wrap=True, overflow="ellipsis") for line in lines))


def silence_line(event: ProgressEvent) -> str:
    """``toy fp16, cold: no answer for 1 min: Conv1d 'conv', …/conv.py:375 in _conv_forward: …``."""
    found = event.message.silence
    assert found is not None
    said = f"no answer for {duration(found.seconds)}: {found.where}"
    return f"{event.workload} {event.label}, {event.message.phase}: {said}"


def block_lines(state: ProgressState, since: float = 0.0) -> list[str]:
    """Return the lines of the block, ``since`` seconds after ``state`` was reported."""
    remaining = None if state.remaining is None else state.remaining - since
    return [doing(state), *level_lines(state.levels), times(state.elapsed + since, remaining)]


def doing(state: ProgressState) -> str:
    """``bert fp32, process 3 of 8: steady, 120 calls``, or ``bert bf16, judging: 12 of 42: fp32``."""
    # The baseline of several blocks has more processes than were asked for.
    of = f" of {state.processes}" if state.processes and state.process <= state.processes else ""
    process = f"process {state.process}{of}" if state.process else "judging"
    calls = f", {state.calls} calls" if state.calls else ""
    return f"{state.workload} {state.label}, {process}: {state.phase}{calls}"


def level_lines(levels: Sequence[LevelSoFar]) -> list[str]:
    """One line per workload: the interval of each setting so far, or the range of many."""
    workloads = grouped((level.workload, level) for level in levels)
    width = max(map(len, workloads), default=0)
    lines = [f"  {name:{width}}  {_levels(found)}" for name, found in list(workloads.items())[:NAMED_WORKLOADS]]
    more = len(workloads) - NAMED_WORKLOADS
    return [*lines, f"  and {more} more workloads"] if more > 0 else lines


def _levels(found: Sequence[LevelSoFar]) -> str:
    if len(found) <= NAMED_LEVELS:
        return ", ".join(f"{level.label} {_level(level)}" for level in found)
    known = [level.half_width for level in found if level.half_width is not None and level.half_width < 1]
    widths = f", ±{percent(min(known))} to ±{percent(max(known))}" if known else ""
    counts = sorted({level.processes for level in found})
    processes = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{len(found)} settings, {processes} processes each{widths}"


def _level(level: LevelSoFar) -> str:
    """The interval; the number of processes as long as it is wider than its value, which says nothing."""
    if level.half_width is not None and level.half_width < 1:
        return f"±{percent(level.half_width)}"
    return f"{level.processes} done" if level.processes else "…"


def times(elapsed: float, remaining: float | None) -> str:
    """``2 min 5 s elapsed, about 7 min 30 s left``; without the latter if nothing or less is left."""
    left = "" if remaining is None or remaining < 1 else f", about {duration(remaining)} left"
    return f"{duration(elapsed)} elapsed{left}"
