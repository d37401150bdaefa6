"""Student's t: published quantiles, and probabilities that fit them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
