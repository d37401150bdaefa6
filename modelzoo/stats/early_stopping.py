"""How many queries it takes to say that a percentile of the latency meets a bound: MLPerf's early stopping.

Each query is an independent trial that is over the bound with an unknown probability. The percentile p meets the bound
if this probability is at most 1 - p. A run with ``over`` queries over the bound shows it with confidence c if so few
would be over the bound with a probability of less than 1 - c, should the true probability be 1 - p:

    I_p(queries - over, over + 1) < 1 - c

where I is the regularized incomplete beta function, the distribution function of the binomial distribution. This is
the criterion of LoadGen (``early_stopping.cc`` and ``PerformanceSummary::EarlyStopping`` in ``results.cc``,
https://github.com/mlcommons/inference/tree/master/loadgen), with its confidence of 99 % and its tolerance of 0. It
replaced the fixed numbers of queries of MLPerf Inference 0.5 (``inference_rules.adoc``, "Scenarios",
https://github.com/mlcommons/inference_policies), for example 270,336 for p99.

Latencies of neighbouring requests are correlated, because they waited in the same queue, so the criterion promises more
than it can hold for one run. Repeated runs show by how much (``modelzoo.results.load``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from modelzoo.stats.distribution import incomplete_beta

CONFIDENCE = 0.99


def shows(queries: int, over: int, fraction: float, confidence: float = CONFIDENCE) -> bool:
    """Whether a run with ``over`` of ``queries`` over the bound shows that the percentile meets it.

    Args:
        queries: all queries of the run.
        over: how many of them took longer than the bound.
        fraction: the percentile as a fraction: 0.99 for p99.
        confidence: of the statement.
    """
    return over < queries and incomplete_beta(fraction, queries - over, over + 1) < 1 - confidence


def most_over(queries: int, fraction: float, confidence: float = CONFIDENCE) -> Optional[int]:
    """Return how many of ``queries`` may be over the bound; ``None`` if there are too few queries even for none."""
    if not shows(queries, 0, fraction, confidence):
        return None
    low, high = 0, queries
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if shows(queries, middle, fraction, confidence) else (low, middle)
    return low


def queries_for(over: int, fraction: float, confidence: float = CONFIDENCE) -> int:
    """Return how many queries it takes at least if ``over`` of them may be over the bound.

    >>> queries_for(0, 0.99), queries_for(1, 0.99), queries_for(1, 0.9)
    (459, 662, 64)
    """
    low, high = over, over + 1
    while not shows(high, over, fraction, confidence):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle, over, fraction, confidence) else (middle, high)
    return high


def upper_estimate(ordered: Sequence[float], fraction: float, confidence: float = CONFIDENCE) -> Optional[float]:
    """Return the latency that the percentile does not exceed with this confidence, from one run.

    As LoadGen does for SingleStream: with the largest t for which t queries may be over the bound, it is the t-th
    largest latency. ``None`` if there are fewer than ``queries_for(1, fraction)`` queries.

    Args:
        ordered: the latencies, ascending.
        fraction: the percentile as a fraction.
        confidence: of the statement.
    """
    over = most_over(len(ordered), fraction, confidence)
    return ordered[len(ordered) - over] if over else None
