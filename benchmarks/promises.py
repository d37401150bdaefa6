"""What the verdicts of the commands promise, and whether a replay on simulated data contradicts it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean

import common  # noqa: F401 - puts the checkout on the path
import numpy as np

from modelzoo import stats
from modelzoo.stats import Interval, Outcome, Verdict
from modelzoo.validity.bounds import lower_bound

CONFIDENCE = 0.998
"""Of the two-sided interval, so that each of its ends is a bound at 99.9 %: a promise that holds is called
contradicted once in a thousand rows."""
COVERAGE = 0.95
"""What an interval promises."""
WIDE = 0.975
"""Intervals that promise ``COVERAGE`` and cover more than this need their width and a reason."""


@dataclass(frozen=True)
class Counted:
    """What a replay counted.

    Attributes:
        hits: how often it happened.
        trials: out of how many independent repetitions.
        width: for an interval, its mean width divided by the ideal one: that of the interval that knows the
            variances of the simulation.
    """

    hits: int
    trials: int
    width: float | None = None


def share(events: Iterable[bool]) -> Counted:
    """Count how often something happened."""
    found = list(events)
    return Counted(sum(found), len(found))


def coverage(found: Iterable[tuple[Interval, float, float]]) -> Counted:
    """Count how often an interval covers the truth, given both and the logarithmic width of the ideal interval."""
    each = list(found)
    hits = sum(interval.low <= truth <= interval.high for interval, truth, _ in each)
    return Counted(hits, len(each), fmean(math.log(i.high / i.low) / ideal for i, _, ideal in each))


def ideal_width(error: float) -> float:
    """Logarithmic width of the 95 % interval of who knows the standard error."""
    return 2 * stats.student_t((1 + stats.CONFIDENCE) / 2, math.inf) * error


def is_called(verdicts: Iterable[Verdict]) -> bool:
    """Whether a row is FASTER or SLOWER."""
    return any(verdict.outcome in (Outcome.FASTER, Outcome.SLOWER) for verdict in verdicts)


Replay = Callable[[np.random.Generator, int], Counted]


@dataclass(frozen=True)
class Promise:
    """One thing that a command promises.

    Attributes:
        command: the command that gives the verdict.
        case: the simulated truth.
        event: what is counted.
        promised: the probability, 0 to 1.
        replay: simulates as many repetitions as it is told with the project's own functions.
        is_least: whether the event must happen at least as often as promised, and not at most.
        repetitions: 10,000, or 1,000 where each repetition contains a bootstrap.
        why: for an interval that covers more than ``WIDE``, the reason.
    """

    command: str
    case: str
    event: str
    promised: float
    replay: Replay
    is_least: bool = False
    repetitions: int = 10_000
    why: str = ""

    @property
    def text(self) -> str:
        """What identifies it."""
        return f"{self.command}: {self.case}: {self.event}"


@dataclass(frozen=True)
class Replayed:
    """A promise and what its replay counted."""

    promise: Promise
    counted: Counted

    @property
    def share(self) -> float:
        """How often the event happened, 0 to 1."""
        return self.counted.hits / self.counted.trials

    @property
    def interval(self) -> tuple[float, float]:
        """The exact interval of the probability of the event; each end is a bound at 99.9 %."""
        return clopper_pearson(self.counted.hits, self.counted.trials, CONFIDENCE)

    @property
    def is_wide(self) -> bool:
        """Whether it is a 95 % interval that surely covers more than ``WIDE``: wider than it need be."""
        promise = self.promise
        return promise.is_least and promise.promised == COVERAGE and self.interval[0] > WIDE

    @property
    def problem(self) -> str:
        """What contradicts the promise, or what is not said of an interval that is too wide; empty if nothing."""
        low, high = self.interval
        promise = self.promise
        if high < promise.promised if promise.is_least else low > promise.promised:
            return "NO: contradicted"
        if self.is_wide and (self.counted.width is None or not promise.why):
            return "NO: wide, without its width or a reason"
        return ""


def clopper_pearson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of the probability behind ``hits`` of ``trials`` independent trials.

    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
    Biometrika 26, 1934. Its coverage is never less than ``confidence``.
    """
    tail = (1 - confidence) / 2
    return lower_bound(hits, trials, tail), 1 - lower_bound(trials - hits, trials, tail)
