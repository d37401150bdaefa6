"""Where to look for the highest rate that meets a bound: bracketing, then bisection. Pure.

LoadGen's rules describe the same search: "LoadGen will use a binary search to find a candidate value. It will then
verify stability by testing the value 5 times" (``inference_rules.adoc``, "LoadGen Operation",
https://github.com/mlcommons/inference_policies). Here the whole search is repeated with new instances instead, because
processes differ from each other by more than the runs of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Optional

from modelzoo.frozen import replace
from modelzoo.results.load import RESOLUTION

STEP = 1.15
"""Factor between the first rate and the next, while all have passed or all have failed; each further step is twice as
large in logarithms …"""
WIDEST = 4
"""… up to this power of it."""
LOWEST = 0.02
"""Rates below this share of the first one are not tried."""


@dataclass(frozen=True)
class Bracket:
    """What is known of the highest rate.

    Attributes:
        first: the rate to try first, in requests per second.
        low: the highest rate that passed; ``None``: none has.
        high: the lowest rate that failed; ``None``: none has.
        steps: how many rates were tried before both were known.
    """

    first: float
    low: Optional[float] = None
    high: Optional[float] = None
    steps: int = 0

    def next(self) -> Optional[float]:
        """Return the rate to try next; ``None`` if the answer is known, or there is none."""
        if self.low is None and self.high is None:
            return self.first
        if self.low is not None and self.high is not None:
            return None if self.high <= self.low * (1 + RESOLUTION) else math.sqrt(self.low * self.high)
        factor = math.pow(STEP, min(2 ** (self.steps - 1), WIDEST))
        if self.low is not None:
            return self.low * factor
        assert self.high is not None
        rate = self.high / factor
        return rate if rate >= LOWEST * self.first else None

    def tried(self, rate: float, *, passed: bool) -> Bracket:
        """Return what is known after a run at ``rate``."""
        is_open = self.low is None or self.high is None
        found = replace(self, steps=self.steps + is_open)
        return replace(found, low=rate) if passed else replace(found, high=rate)


def highest(first: float, passes: Callable[[float], bool]) -> Optional[float]:
    """Return the highest rate that passes, to within ``RESOLUTION``; ``None`` if none does.

    Args:
        first: the rate to try first.
        passes: whether a rate passes.
    """
    bracket = Bracket(first)
    while (rate := bracket.next()) is not None:
        bracket = bracket.tried(rate, passed=passes(rate))
    return bracket.low
