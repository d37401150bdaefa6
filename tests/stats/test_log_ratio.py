"""Log ratios and sums of variances: published formulas, and what is known without data."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from modelzoo.stats import LogRatio, Variance, total

@pytest.mark.parametrize(
    ("variances", "expected"),
    [
        ([Variance(2, 4), Variance(1, 8)], Variance(3, pytest.approx(8))),  # (2 + 1)² / (2²/4 + 1²/8)
        ([Variance(1, 4), Variance(1, math.inf)], Variance(2, pytest.approx(16))),
        ([Variance(1, math.inf), Variance(2, math.inf)], Variance(3, math.inf)),
        ([Variance(0, 4), Variance(0, 8)], Variance(0, 4)),
    ],
)
def test_degrees_of_freedom_of_a_sum_by_hand(variances: list[Variance], expected: Variance) -> None:
    """A variance that is not estimated adds freedom; where nothing was seen to vary, nothing is weighted."""
    assert total(variances) == expected


def test_the_interval_and_the_p_value_fit_together() -> None:
    """The hypothesis of the interval's bound has p = 0.05; that of the value itself has p = 1.

    Without freedom the interval is unbounded and every hypothesis holds.
    """
    ratio, unknown = LogRatio(0.1, 0.03, 7), LogRatio(1.0, 0.1, 0)
    assert ratio.p_of(math.log(ratio.interval().low)) == pytest.approx(0.05)
    assert ratio.p_of(0.1) == 1
    assert ratio.p_value == ratio.p_of(0) < 0.05
    assert (unknown.interval().low, unknown.interval().high, unknown.p_value) == (0, math.inf, 1)


def test_a_known_error_is_that_of_the_normal_distribution() -> None:
    """With infinite freedom, 1.96 standard errors are 95 %."""
    ratio = LogRatio(0.2, 0.1, math.inf)
    assert math.log(ratio.interval().high) == pytest.approx(0.2 + 0.1 * NormalDist().inv_cdf(0.975))
    assert ratio.p_value == pytest.approx(2 * NormalDist().cdf(-2))
