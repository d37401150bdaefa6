"""Student's t distribution, for any number of degrees of freedom, whole or not, finite or not, and the incomplete beta
function that it is made of."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

ACCURACY = 1e-14
"""The continued fraction ends when a step changes it by less than this fraction."""
NORMAL_FROM = 1e6
"""Degrees of freedom from which it is the normal distribution: 95 % quantiles then differ by about a millionth."""


@lru_cache(maxsize=4096)
def student_t(probability: float, freedom: float) -> float:
    """Quantile of Student's t distribution with ``freedom`` degrees of freedom; infinite below one.

    The distribution function is inverted by Newton's method over the angle atan(t / sqrt(freedom)), which is bounded,
    and by bisection where a step would leave the bounds.
    """
    if probability < 0.5:
        return -student_t(1 - probability, freedom)
    if freedom < 1:
        return math.inf
    if freedom > NORMAL_FROM:
        return NormalDist().inv_cdf(probability)
    log_density = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi) / 2
    low, high, angle = 0.0, math.pi / 2, math.atan(NormalDist().inv_cdf(probability) / math.sqrt(freedom))
    for _ in range(60):
        excess = two_sided_p(math.sqrt(freedom) * math.tan(angle), freedom) - 2 * (1 - probability)
        low, high = (angle, high) if excess > 0 else (low, angle)
        step = excess / (2 * math.exp(log_density + (freedom - 1) * math.log(math.cos(angle))))
        moved = angle + step if low < angle + step < high else (low + high) / 2
        if abs(moved - angle) <= 1e-15 * angle:
            break
        angle = moved
    return math.sqrt(freedom) * math.tan(angle)


def two_sided_p(t: float, freedom: float) -> float:
    """Probability that a t statistic is farther from 0 than ``t``; 1 below one degree of freedom.

    By the incomplete beta function, as in Abramowitz & Stegun 26.7.1 and 26.5.27.
    """
    if freedom < 1:
        return 1.0
    if math.isinf(t):
        return 0.0
    if freedom > NORMAL_FROM:
        return math.erfc(t / math.sqrt(2))
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Compute the regularized incomplete beta function I_x(a, b) (https://dlmf.nist.gov/8.17)."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    # The continued fraction converges quickly only on this side of the mean.
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    log_scale = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_scale) / a * _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """1 / (1 + d1 / (1 + d2 / …)) of https://dlmf.nist.gov/8.17.E22, by Lentz's method (Press et al., "Numerical
    Recipes", section 5.2)."""
    tiny = 1e-300  # in place of a zero
    numerator, denominator = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    value = denominator
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1 / ((1 + term * denominator) or tiny)
            numerator = (1 + term / numerator) or tiny
            value *= numerator * denominator
        if abs(numerator * denominator - 1) < ACCURACY:
            break
    return value
