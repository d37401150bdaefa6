"""Ticks of logarithmic axes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.report.plots.ticks import log_ticks


@given(st.floats(1e-6, 1e6), st.floats(1.001, 1e9), st.floats(100, 1000))
def test_ticks_are_inside_in_order_and_far_enough_apart(low: float, factor: float, length: float) -> None:
    """Whatever the range, there is at least one tick, and two neighbours do not touch."""
    high = low * factor
    ticks = log_ticks(low, high, length, 40)
    assert ticks and all(low * 0.94 <= tick <= high * 1.06 for tick in ticks)
    gaps = [math.log(b / a) / math.log(high / low) * length for a, b in zip(ticks, ticks[1:])]
    assert all(gap >= 40 * (1 - 1e-9) for gap in gaps)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.93, 1.07, [0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06]),
        (0.8, 1.9, [0.8, 1.0, 1.2, 1.4, 1.6, 1.8]),
        (0.2, 6, [0.2, 0.5, 1, 2, 5]),
        (0.01, 1e4, [0.01, 0.1, 1, 10, 100, 1000, 10000]),
        (5, 5, [5]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    """Multiples of one step over a narrow range, 1, 2, 5 over a wide one, then powers of ten."""
    assert log_ticks(low, high, 350, 40) == pytest.approx(expected)
