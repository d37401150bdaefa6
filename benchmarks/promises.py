"""What the verdicts of the commands promise, and whether a replay on simulated data contradicts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from binomial import clopper_pearson

CONFIDENCE = 0.998
"""Of the two-sided interval, so that each of its ends is a bound at 99.9 %: a promise that holds is called
contradicted once in a thousand rows."""
COVERAGE = 0.95
"""What an interval promises. Whatever is promised to happen with just this probability or more counts as one."""
WIDE = 0.975
"""Intervals that promise ``COVERAGE`` and cover more than this need their width and a reason."""


class Bound(Enum):
    """In which direction a promise can be broken."""

    AT_MOST = "at most"
    AT_LEAST = "at least"


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


@dataclass(frozen=True)
class Promise:
    """One thing that a command promises.

    Attributes:
        command: the command that gives the verdict.
        case: the simulated truth.
        event: what is counted.
        bound: whether the event may happen at most or must happen at least as often as promised.
        promised: the probability, 0 to 1.
        replay: simulates as many repetitions as it is told with the project's own functions.
        repetitions: 10,000, or 1,000 where each repetition contains a bootstrap.
        why: for an interval that covers more than ``WIDE``, the reason.
    """

    command: str
    case: str
    event: str
    bound: Bound
    promised: float
    replay: Callable[[np.random.Generator, int], Counted]
    repetitions: int = 10_000
    why: str = ""

    @property
    def is_interval(self) -> bool:
        """Whether it is the coverage of a 95 % interval."""
        return self.bound is Bound.AT_LEAST and self.promised == COVERAGE


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
    def holds(self) -> bool:
        """Whether the data do not contradict the promise."""
        low, high = self.interval
        promise = self.promise
        return low <= promise.promised if promise.bound is Bound.AT_MOST else high >= promise.promised

    @property
    def is_wide(self) -> bool:
        """Whether it is an interval that surely covers more than ``WIDE``, and therefore wider than it need be."""
        return self.promise.is_interval and self.interval[0] > WIDE

    @property
    def is_explained(self) -> bool:
        """Whether an interval that is too wide has its width and a reason; others need none."""
        return not self.is_wide or (self.counted.width is not None and bool(self.promise.why))
