"""Statistics of paired items: both models process the same items, so the differences item by item are the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Optional

SEES = NormalDist().inv_cdf(0.95) + NormalDist().inv_cdf(0.80)
"""Standard errors that a difference must have to be found in four sets of five, by a one-sided test at 5 %: 2.49."""
RULE_OF_THREE = 3.0


def standard_error(differences: Sequence[float], sizes: Optional[Sequence[float]] = None) -> float:
    """Compute the standard error of sum(differences) ÷ sum(sizes) over two or more independent clusters of items.

    With sizes it is that of a ratio (Cochran, "Sampling Techniques", 1977, section 2.11); without, that of a mean.
    """
    count = len(differences)
    weights = [1.0] * count if sizes is None else sizes
    total = sum(weights)
    ratio = sum(differences) / total
    squares = math.fsum((difference - ratio * size) ** 2 for difference, size in zip(differences, weights))
    return math.sqrt(squares * count / (count - 1)) / total


def detectable_loss(error: float, count: float) -> float:
    """Compute the smallest loss that a set of ``count`` independent items shows: smaller ones cannot be told from none.

    This is the minimum detectable effect, 2.49 standard errors: a one-sided test at 5 % finds it with a power of 80 %
    (Bloom, "Minimum detectable effects", Evaluation Review 19, 1995). But at least 3 ÷ count: a fault that ruins a
    smaller fraction of all items may have hit none of these, with a probability of over 5 % (Hanley & Lippman-Hand,
    "If nothing goes wrong, is everything all right?", JAMA 249, 1983). This also covers a set in which no item
    changed, whose standard error is 0.
    """
    return max(SEES * error, RULE_OF_THREE / count)


def mcnemar(worse: int, better: int) -> float:
    """Return the two-sided p-value of McNemar's exact test: do as many items get better as get worse?

    If the models are equally good, each of the items on which one is right and the other wrong falls to either side
    with probability ½ (McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12, 1947).
    """
    return min(1.0, 2 * binomial_tail(max(worse, better), worse + better, 0.5))


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    """Return the probability of ``successes`` or more in ``trials``."""
    if successes <= 0 or probability >= 1:
        return 1.0
    if successes > trials or probability <= 0:
        return 0.0
    if successes <= trials * probability:  # sum the shorter side, so that the terms only get smaller
        return 1.0 - binomial_tail(trials - successes + 1, trials, 1 - probability)
    total, term, k = 0.0, _binomial(successes, trials, probability), successes
    while k <= trials and term > total * 1e-17:
        total += term
        term *= (trials - k) / (k + 1) * probability / (1 - probability)
        k += 1
    return total


def _binomial(successes: int, trials: int, probability: float) -> float:
    """The probability of exactly ``successes``; ``probability`` is neither 0 nor 1."""
    ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    return math.exp(ways + successes * math.log(probability) + (trials - successes) * math.log1p(-probability))


def lower_bound(successes: int, trials: int, significance: float) -> float:
    """Return the one-sided lower bound of a probability (Clopper & Pearson, Biometrika 26, 1934).

    It is the probability at which ``successes`` or more have a chance of ``significance``; 0 without successes.
    """
    if successes <= 0:
        return 0.0
    low, high = 0.0, successes / trials
    for _ in range(50):
        middle = (low + high) / 2
        if binomial_tail(successes, trials, middle) < significance:
            low = middle
        else:
            high = middle
    return low
