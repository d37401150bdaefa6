"""benchmarks/binomial.py: the exact interval of a proportion."""

from __future__ import annotations

import math

import binomial
import pytest

from modelzoo.validity.bounds import binomial_tail


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(0, 100, 0.0, 0.0362), (5, 100, 0.0164, 0.1128), (50, 100, 0.3983, 0.6017), (100, 100, 0.9638, 1.0)],
)
def test_clopper_pearson(hits: int, trials: int, low: float, high: float) -> None:
    """Values from published tables."""
    assert binomial.clopper_pearson(hits, trials) == pytest.approx((low, high), abs=1e-4)


def test_tail_of_the_binomial() -> None:
    """Compared with the sum of all terms; large numbers of trials do not underflow."""
    for hits in range(12):
        exact = sum(math.comb(10, k) * 0.3**k * 0.7 ** (10 - k) for k in range(hits, 11))
        assert binomial_tail(hits, 10, 0.3) == pytest.approx(exact)
    low, high = binomial.clopper_pearson(45_600, 48_000)
    assert 0.947 < low < 0.95 < high < 0.953
