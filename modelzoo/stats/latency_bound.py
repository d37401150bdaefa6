"""Whether a percentile of the latency meets a bound, from rounds of new processes that ran back to back.

Processes differ from each other by more than the samples within one, so the unit is the round: the level of the
percentile is the geometric mean of those of the rounds, and the bound is met if it is over the upper end of Student's
t interval of that level, on logarithms. Samples within a round are correlated as well. Few independent samples rarely
reach the percentile, so the one of a round is read at a higher rank than that of n independent samples would be: at the
rank that has the percentile for its mean if ``clustering`` neighbours count as one. For "not met" it is read at the
rank below.

A pooled percentile of all rounds, or an order statistic of all samples that takes them for independent, calls a bound
met that is not in up to half of all cases (benchmarks/verdicts_serving.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from statistics import fmean, stdev

import msgspec

from modelzoo.stats.early_stopping import BATCHES, clustering
from modelzoo.stats.intervals import student_t

CONFIDENCE = 0.99
"""One-sided, of "met" and of "not met". If the percentile is exactly the bound, each of them is wrong in at most 1 % of
the cases (benchmarks/verdicts_serving.py)."""
TAILS = (1, 2)
"""The levels at which the clustering of a round is looked at; see ``modelzoo.stats.early_stopping``."""
MOST_ROUNDS = 1000
"""Larger numbers of rounds are not worth naming."""

Round = Sequence[Sequence[float]]
"""The latencies of each instance, in order."""


class BoundOutcome(Enum):
    """What is known of a bound."""

    MET = "met"
    NOT_MET = "not met"
    UNDECIDED = "undecided"


class BoundJudgement(msgspec.Struct, frozen=True):
    """Whether a bound is met.

    Attributes:
        outcome: what is known.
        more_samples: how many more latencies the shortest round needs before it says anything; 0 if it has enough.
        more_rounds: how many more rounds would decide, if they differ as these do; ``None`` if it is decided, if rounds
            are too short, or if that cannot be said.
    """

    outcome: BoundOutcome
    more_samples: int = 0
    more_rounds: int | None = None


def samples_for(percent: float) -> int:
    """Return how many latencies a round needs at least: the rank of the percentile must exist.

    >>> samples_for(90), samples_for(99), samples_for(99.9)
    (100, 100, 1000)
    """
    # The difference is for percentages like 99.9, which are not exact.
    return max(2 * BATCHES, math.ceil(100 / (100 - percent) - 1e-9))


def judge(rounds: Sequence[Round], percent: float, limit: float) -> BoundJudgement:
    """Say whether the level of the percentile is at most ``limit``.

    Args:
        rounds: the latencies of each round, in seconds.
        percent: 99 for p99.
        limit: in seconds.
    """
    short = max((samples_for(percent) - sum(map(len, each)) for each in rounds), default=0)
    if short > 0 or len(rounds) < 2:
        return BoundJudgement(BoundOutcome.UNDECIDED, max(0, short))
    read = [_percentiles(each, percent / 100) for each in rounds]
    lower, upper = ([math.log(pair[side]) - math.log(limit) for pair in read] for side in (0, 1))
    if fmean(upper) + _half_width(stdev(upper), len(rounds)) <= 0:
        return BoundJudgement(BoundOutcome.MET)
    if fmean(lower) - _half_width(stdev(lower), len(rounds)) > 0:
        return BoundJudgement(BoundOutcome.NOT_MET)
    distance, spread = max((-fmean(upper), stdev(upper)), (fmean(lower), stdev(lower)))
    enough = (count for count in range(len(rounds) + 1, MOST_ROUNDS) if _half_width(spread, count) < distance)
    needed = next(enough, None)
    return BoundJudgement(BoundOutcome.UNDECIDED, 0, None if needed is None else needed - len(rounds))


def _half_width(spread: float, count: int) -> float:
    return student_t(CONFIDENCE, count - 1) * spread / math.sqrt(count)


def _percentiles(found: Round, fraction: float) -> tuple[float, float]:
    """The percentile of a round at the rank below and at the rank above."""
    # All instances run at the same time, so the share of an instance's latencies that came before says when one came.
    places = [((number + 0.5) / len(each), value) for each in found for number, value in enumerate(each)]
    samples = [value for _, value in sorted(places, key=lambda place: place[0])]
    ordered, count = sorted(samples), len(samples)
    independent = count / clustering(samples, fraction, TAILS)
    # Of n independent samples, the r-th smallest is the r / (n + 1) quantile in the mean.
    rank = (independent + 1) * fraction * count / independent
    return ordered[max(1, min(count, math.floor((count + 1) * fraction))) - 1], ordered[min(count, math.ceil(rank)) - 1]
