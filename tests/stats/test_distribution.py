"""Student's t and log ratios: published quantiles and formulas, and what is known without data."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.stats import LogRatio, Variance, total
from modelzoo.stats.intervals import student_t, two_sided_p


@pytest.mark.parametrize(
    ("probability", "freedom", "table"),
    [
        (0.975, 1, 12.706),
        (0.975, 4, 2.776),
        (0.975, 19, 2.093),
        (0.995, 30, 2.750),
        (0.975, 120, 1.980),
        (0.9995, 1, 636.619),
        (0.9995, 8, 5.041),
    ],
)
def test_student_t_matches_the_printed_table(probability: float, freedom: int, table: float) -> None:
    """Quantiles agree with the printed table to its three decimals."""
    assert student_t(probability, freedom) == pytest.approx(table, abs=6e-4)


def test_infinite_freedom_is_the_normal_distribution() -> None:
    """Its quantiles are the printed ones, and many degrees of freedom come near them."""
    assert student_t(0.975, math.inf) == pytest.approx(1.959964)
    assert student_t(0.025, math.inf) == pytest.approx(-1.959964)
    for freedom in (1e6, 1e7, 1e33):
        assert student_t(0.975, freedom) == pytest.approx(1.959964, rel=1e-5)
        assert two_sided_p(1.959964, freedom) == pytest.approx(0.05, rel=1e-5)
    assert two_sided_p(1.959964, math.inf) == pytest.approx(0.05)
    assert two_sided_p(math.inf, math.inf) == 0


@given(st.floats(0.51, 0.99999), st.floats(1, 500))
def test_probabilities_and_quantiles_are_inverse(probability: float, freedom: float) -> None:
    """For any degrees of freedom, whole or not."""
    assert two_sided_p(student_t(probability, freedom), freedom) == pytest.approx(2 * (1 - probability), rel=1e-6)


@pytest.mark.parametrize(("t", "p"), [(0.0, 1.0), (1.0, 0.5), (math.inf, 0.0), (1e9, 2e-9 / math.pi)])
def test_probabilities_of_the_cauchy_distribution(t: float, p: float) -> None:
    """One degree of freedom has a closed form, which holds far out, too."""
    assert two_sided_p(t, 1) == pytest.approx(p, rel=1e-9, abs=1e-30)


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
