"""The exact interval of a proportion, for benchmarks that count how often something happens."""

from __future__ import annotations

import math


def clopper_pearson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of the probability behind ``hits`` of ``trials`` independent trials.

    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
    Biometrika 26, 1934. Its coverage is never less than ``confidence``.

    Raises:
        ValueError: there are no trials.
    """
    if trials < 1:
        raise ValueError("there are no trials")
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else _probability(hits, trials, tail)
    high = 1.0 if hits == trials else _probability(hits + 1, trials, 1 - tail)
    return low, high


def at_least(hits: int, trials: int, probability: float) -> float:
    """The probability of ``hits`` or more in ``trials``, summed from the largest term on."""
    if hits <= 0:
        return 1.0
    if hits > trials or probability <= 0:
        return 0.0
    if hits < trials * probability:
        return 1 - at_least(trials - hits + 1, trials, 1 - probability)
    if probability >= 1:
        return 1.0
    ways = math.lgamma(trials + 1) - math.lgamma(hits + 1) - math.lgamma(trials - hits + 1)
    term = math.exp(ways + hits * math.log(probability) + (trials - hits) * math.log1p(-probability))
    total, odds = term, probability / (1 - probability)
    for count in range(hits, trials):
        term *= odds * (trials - count) / (count + 1)
        total += term
        if term < 1e-17 * total:
            break
    return total


def _probability(hits: int, trials: int, tail: float) -> float:
    """The probability of one hit at which ``at_least`` equals ``tail``, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if at_least(hits, trials, middle) < tail:
            low = middle
        else:
            high = middle
    return (low + high) / 2
