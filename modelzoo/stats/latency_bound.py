"""Whether a percentile of the latency meets a bound: what one run shows, and what rounds of new processes show.

Of a run: MLPerf's early stopping. Each query is an independent trial that is over the bound with an unknown
probability. The percentile p meets the bound if this probability is at most 1 - p. A run with ``over`` queries over the
bound shows it with confidence c if so few would be over the bound with a probability of less than 1 - c, should the
true probability be 1 - p:

    I_p(queries - over, over + 1) < 1 - c

where I is the regularized incomplete beta function, the distribution function of the binomial distribution. This is
the criterion of LoadGen (``early_stopping.cc`` and ``PerformanceSummary::EarlyStopping`` in ``results.cc``,
https://github.com/mlcommons/inference/tree/master/loadgen), with its confidence of 99 % and its tolerance of 0. It
replaced the fixed numbers of queries of MLPerf Inference 0.5 (``inference_rules.adoc``, "Scenarios",
https://github.com/mlcommons/inference_policies), for example 270,336 for p99.

The criterion counts trials that are independent, and requests are not: neighbours waited in the same queue, in the same
process, at the same speed of the machine. At a rate at which the percentile is exactly the bound, the criterion alone
is fooled in 6 % of the runs at 30 % utilization and in 40 to 75 % of those at 70 to 85 % (M/G/1,
benchmarks/verdicts_serving.py). So ``dependence`` estimates how many neighbouring requests say as much as one
independent request, and every count is divided by it.

Of rounds, which ran back to back in new processes: processes differ from each other by more than the samples within
one, so the unit is the round: the level of the percentile is the geometric mean of those of the rounds, and the bound
is met if it is over the upper end of Student's t interval of that level, on logarithms. Samples within a round are
correlated as well. Few independent samples rarely reach the percentile, so the one of a round is read at a higher rank
than that of n independent samples would be: at the rank that has the percentile for its mean if ``clustering``
neighbours count as one. For "not met" it is read at the rank below.

A pooled percentile of all rounds, or an order statistic of all samples that takes them for independent, calls a bound
met that is not in up to half of all cases (benchmarks/verdicts_serving.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from statistics import fmean, stdev, variance
from typing import Literal

import msgspec

from modelzoo.stats.intervals import incomplete_beta, student_t

CONFIDENCE = 0.99
"""Of the criterion. With the dependence, which is estimated, a bound that is not met is shown in at most 2 % of the
runs. Of rounds, it is one-sided, of "met" and of "not met": if the percentile is exactly the bound, each of them is
wrong in at most 1 % of the cases (benchmarks/verdicts_serving.py)."""
BATCHES = 50
"""Batches of neighbours from whose shares the dependence is estimated; with fewer samples than twice as many, it is not
known."""
TAILS = (1, 2, 5)
"""Exceedances of a bound are too rare to see how they cluster. So exceedances of lower levels, which this many times as
many samples exceed as may exceed the bound, are looked at as well, and the largest dependence counts."""
SAFETY = 1.8
"""Factor on the estimated dependence, because one that is estimated too low shows too much. With 1.8, 1.4 % of 4,000
runs of 1,000 requests at 85 % utilization show a p90 that is exactly the bound; with 1.63 about 2 %, without it 5 %."""
MOST_SHARE = 0.98
"""If more than this share of the requests that may be over the bound are over it, the percentile is so close to the
bound that nobody can say how many more requests would show on which side it is."""


def dependence(samples: Sequence[float], fraction: float) -> float | None:
    """Return how many neighbouring samples say as much about a percentile as one independent sample; at least 1.

    It is the variance of the share of exceedances in batches of neighbours ÷ the variance that independent samples
    would have (batch means; Law, "Simulation Modeling and Analysis", section 9.5), multiplied by (1 + r) / (1 - r) for
    the lag-1 correlation r that is left between the batches, and by ``SAFETY``.

    Args:
        samples: in the order in which they came.
        fraction: the percentile as a fraction.

    Returns:
        ``None`` with fewer than ``2 * BATCHES`` samples.
    """
    if len(samples) < 2 * BATCHES:
        return None
    return SAFETY * clustering(samples, fraction, TAILS)


def clustering(samples: Sequence[float], fraction: float, tails: Sequence[int]) -> float:
    """The dependence as it is estimated from the exceedances of ``tails``, without a margin; at least 1.

    Args:
        samples: at least ``2 * BATCHES``, in the order in which they came.
        fraction: the percentile as a fraction.
        tails: the levels that are looked at; see ``TAILS``.
    """
    count, ordered, found = len(samples), sorted(samples), 1.0
    for tail in tails:
        above = max(1, round(count * tail * (1 - fraction)))
        if above < count:
            found = max(found, _inflation([value >= ordered[count - above] for value in samples]))
    return found


def _inflation(flags: Sequence[bool]) -> float:
    """The variance of the mean of ``flags`` ÷ the one that it would have if they were independent."""
    size = len(flags) // BATCHES
    used = flags[: size * BATCHES]
    share = sum(used) / len(used)
    if share in (0.0, 1.0):
        return 1.0
    shares = [sum(used[start : start + size]) / size for start in range(0, len(used), size)]
    off = [each - fmean(shares) for each in shares]
    squares = sum(each**2 for each in off)
    lag = min(max(sum(a * b for a, b in itertools.pairwise(off)) / squares, 0.0), 0.8) if squares else 0.0
    return size * variance(shares) / (share * (1 - share)) * (1 + lag) / (1 - lag)


def shows(queries: int, over: float, fraction: float, dependence: float = 1.0) -> bool:
    """Whether a run with ``over`` of ``queries`` over the bound shows that the percentile meets it.

    Args:
        queries: all queries of the run.
        over: how many of them took longer than the bound.
        fraction: the percentile as a fraction: 0.99 for p99.
        dependence: how many queries count as one.
    """
    trials, exceeding = queries / dependence, over / dependence
    return exceeding < trials and incomplete_beta(fraction, trials - exceeding, exceeding + 1) < 1 - CONFIDENCE


def most_over(queries: int, fraction: float, dependence: float = 1.0) -> int | None:
    """Return how many of ``queries`` may be over the bound; ``None`` if there are too few queries even for none."""
    if not shows(queries, 0, fraction, dependence):
        return None
    return _first(lambda over: not shows(queries, over, fraction, dependence), 0, 1) - 1


def queries_for(over: int, fraction: float) -> int:
    """Return how many queries it takes at least if ``over`` of them may be over the bound.

    >>> queries_for(0, 0.99), queries_for(1, 0.99), queries_for(1, 0.9)
    (459, 662, 64)
    """
    return _first(lambda queries: shows(queries, over, fraction), over, over + 1)


def queries_to_show(share: float, fraction: float, dependence: float = 1.0) -> int | None:
    """Return how many queries it takes at least if this share of them is over the bound; ``None`` if no number would.

    >>> queries_to_show(0.0, 0.99), queries_to_show(0.005, 0.99), queries_to_show(0.005, 0.99, 10.0)
    (459, 2029, 20289)
    """
    if share >= MOST_SHARE * (1 - fraction):
        return None

    return _first(lambda queries: shows(queries, share * queries, fraction, dependence), 0, 1)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first number from which on ``holds``; ``low`` is one that does not, ``high`` a first guess above it."""
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def upper_estimate(samples: Sequence[float], fraction: float) -> float | None:
    """Return the latency that the percentile does not exceed with a confidence of 99 %, from one run.

    As LoadGen does for SingleStream: with the largest t for which t queries may be over the bound, it is the t-th
    largest latency. ``None`` if there are too few for a t of 1, or for their dependence.

    Args:
        samples: the latencies, in the order in which they came.
        fraction: the percentile as a fraction.
    """
    together = dependence(samples, fraction)
    over = None if together is None else most_over(len(samples), fraction, together)
    return sorted(samples)[len(samples) - over] if over else None


ROUND_TAILS = (1, 2)
"""The levels at which the clustering of a round is looked at; see ``TAILS``."""
MOST_ROUNDS = 1000
"""Larger numbers of rounds are not worth naming."""

Round = Sequence[Sequence[float]]
"""The latencies of each instance, in order."""


BoundOutcome = Literal["met", "not met", "undecided"]
"""What is known of a bound."""


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
        return BoundJudgement("undecided", max(0, short))
    read = [_percentiles(each, percent / 100) for each in rounds]
    lower, upper = ([math.log(pair[side]) - math.log(limit) for pair in read] for side in (0, 1))
    if fmean(upper) + _half_width(stdev(upper), len(rounds)) <= 0:
        return BoundJudgement("met")
    if fmean(lower) - _half_width(stdev(lower), len(rounds)) > 0:
        return BoundJudgement("not met")
    distance, spread = max((-fmean(upper), stdev(upper)), (fmean(lower), stdev(lower)))
    enough = (count for count in range(len(rounds) + 1, MOST_ROUNDS) if _half_width(spread, count) < distance)
    needed = next(enough, None)
    return BoundJudgement("undecided", 0, None if needed is None else needed - len(rounds))


def _half_width(spread: float, count: int) -> float:
    return student_t(CONFIDENCE, count - 1) * spread / math.sqrt(count)


def _percentiles(found: Round, fraction: float) -> tuple[float, float]:
    """The percentile of a round at the rank below and at the rank above."""
    # All instances run at the same time, so the share of an instance's latencies that came before says when one came.
    places = [((number + 0.5) / len(each), value) for each in found for number, value in enumerate(each)]
    samples = [value for _, value in sorted(places, key=lambda place: place[0])]
    ordered, count = sorted(samples), len(samples)
    independent = count / clustering(samples, fraction, ROUND_TAILS)
    # Of n independent samples, the r-th smallest is the r / (n + 1) quantile in the mean.
    rank = (independent + 1) * fraction * count / independent
    return ordered[max(1, min(count, math.floor((count + 1) * fraction))) - 1], ordered[min(count, math.ceil(rank)) - 1]
