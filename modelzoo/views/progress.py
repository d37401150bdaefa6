"""What is seen while a call runs: one live block on a terminal, at most a line a minute elsewhere.

The block is drawn once a second, which costs about a millisecond of one core, and is erased at the end.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from statistics import median
from types import TracebackType
from typing import TYPE_CHECKING

from modelzoo import stats
from modelzoo.formatting import duration, for_people, percent
from modelzoo.records.run import Result, Run
from modelzoo.views.differences import grouped
from modelzoo.views.judgement import judged_so_far

if TYPE_CHECKING:
    from rich.console import Console, Group

    from modelzoo.measure.jobs import Event

REDRAWS_PER_SECOND = 1.0
LINE_SECONDS = 60.0
"""Without a terminal, a line is printed at most this often."""
QUIET_PHASES = ("weights", "load", "load and compile")
"""Until a model is loaded, a failure should be the only line that is printed."""
NAMED_LEVELS = 4
"""The settings of a workload are named one by one up to this many."""
NAMED_WORKLOADS = 8
"""Workloads with a line of their own in the block."""


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
        self._started = clock()
        self._printed_at = -math.inf
        self._seconds: float | None = None
        self._spent = 0.0
        self._processes: int | None = None
        self._doing = ""
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

    def update(self, event: Event) -> None:
        """Show what a worker does that times a setting."""
        name = event.workload, event.label
        process = 1 + (self._ended[self._names.index(name)] if name in self._names else 0)
        # The baseline of several blocks has more processes than were asked for.
        of = f" of {self._processes}" if self._processes and process <= self._processes else ""
        self._show(event, f"process {process}{of}")

    def judging(self, event: Event) -> None:
        """Show what a worker does that judges the predictions of a setting."""
        self._show(event, "judging")

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

    def _show(self, event: Event, process: str) -> None:
        message = event.message
        if message.silence is not None:  # the call does not return, which is said once for each phase of a setting
            silent = event.workload, event.label, message.phase
            if silent not in self._silent:
                self._silent.add(silent)
                self.say(silence_line(event))
            return
        calls = f", {message.count} calls" if message.count else ""
        phase = message.phase if message.judged is None else judged_so_far(message.judged)
        self._doing = f"{event.workload} {event.label}, {process}: {phase}{calls}"
        if phase in QUIET_PHASES:
            return
        for group, error in self._unsaid.items():
            self.say(f"failed: {' '.join(self._names[group])}: {error} (the other settings are timed)")
        self._unsaid = {}
        now = self._clock()
        if not self._out.is_terminal and now - self._printed_at >= LINE_SECONDS:
            self._printed_at = now
            self._out.print(f"{self._doing}; {self._times()}", soft_wrap=True)

    def _times(self) -> str:
        """``2 min 5 s elapsed, about 7 min 30 s left``: of the limit, or what processes take like those before.

        Without the latter if nothing is left: what has been started by then is finished.
        """
        elapsed, done = self._clock() - self._started, sum(self._ended.values())
        left = [] if self._seconds is None else [self._seconds - elapsed]
        if self._processes is not None and done:
            left.append((elapsed - self._spent) * (self._processes * len(self._names) / done - 1))
        remaining = min(left, default=0.0)
        return f"{duration(elapsed)} elapsed" + (f", about {duration(remaining)} left" if remaining >= 1 else "")

    def _block(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        lines = [self._doing, *self._levels(), self._times()] if self._doing else ["starting"]
        return Group(*(Text(for_people(line), no_wrap=True, overflow="ellipsis") for line in lines))

    def _levels(self) -> Iterator[str]:
        """A line for each workload: the interval of each setting so far, or the range of many."""
        workloads = grouped((name[0], group) for group, name in enumerate(self._names if self._medians else ()))
        width = max(map(len, workloads), default=0)
        for name, groups in list(workloads.items())[:NAMED_WORKLOADS]:
            medians = [self._medians.get(group, []) for group in groups]
            # An interval that is wider than its value says nothing.
            widths = [stats.level_interval(each).half_width if len(each) > 1 else math.inf for each in medians]
            known, counts = [each for each in widths if each < 1], sorted(map(len, medians))
            said = ", ".join(
                f"{self._names[group][1]} {f'±{percent(own)}' if own < 1 else f'{len(each)} done' if each else '…'}"
                for group, own, each in zip(groups, widths, medians)
            )
            if len(groups) > NAMED_LEVELS:
                processes = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
                said = f"{len(groups)} settings, {processes} processes each"
                said += f", ±{percent(min(known))} to ±{percent(max(known))}" if known else ""
            yield f"  {name:{width}}  {said}"
        more = len(workloads) - NAMED_WORKLOADS
        if more > 0:
            yield f"  and {more} more workloads"


def silence_line(event: Event) -> str:
    """``toy fp16, cold: no answer for 1 min: Conv1d 'conv', …/conv.py:375 in _conv_forward: …``."""
    found = event.message.silence
    assert found is not None
    said = f"no answer for {duration(found.seconds)}: {found.where}"
    return f"{event.workload} {event.label}, {event.message.phase}: {said}"
