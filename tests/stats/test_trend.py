"""Trends of values over time."""

from __future__ import annotations

import random

import pytest

from modelzoo.stats.trend import FEWEST, linear_trend


def test_a_line_is_found_exactly() -> None:
    """Without noise the interval is the slope."""
    found = linear_trend(range(10), [3 + 2 * time for time in range(10)])
    assert found is not None
    assert (found.slope, found.low, found.high) == (pytest.approx(2), pytest.approx(2), pytest.approx(2))
    assert found.is_proven


@pytest.mark.parametrize("count", [12, 60])
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_the_interval_covers_the_slope_as_often_as_it_says(correlation: float, count: int) -> None:
    """At most 5 % of series without a trend seem to have one, correlated ones and short ones too: 70 of 1,000 are more
    than chance."""
    source = random.Random(1)
    wrong, trials = 0, 1000
    for _ in range(trials):
        value, values = source.gauss(0, 1), []
        for _ in range(count):
            value = correlation * value + source.gauss(0, (1 - correlation**2) ** 0.5)
            values.append(value)
        found = linear_trend(range(count), values)
        assert found is not None
        wrong += found.is_proven
    assert wrong / trials < 0.07


def test_a_drift_within_noise_is_found() -> None:
    """5 % over the whole time, in noise of 1 %."""
    source = random.Random(2)
    found = linear_trend(range(60), [1 + 0.05 * time / 60 + source.gauss(0, 0.01) for time in range(60)])
    assert found is not None
    assert found.is_proven
    assert found.low < 0.05 / 60 < found.high


def test_little_has_no_trend() -> None:
    """Few values, or all at one time; different numbers are a mistake."""
    assert linear_trend(range(FEWEST - 1), [1.0] * (FEWEST - 1)) is None
    assert linear_trend([5.0] * 20, [1.0] * 20) is None
    assert linear_trend([], []) is None
    with pytest.raises(ValueError, match="3 times and 2 values"):
        linear_trend([1, 2, 3], [1, 2])


def test_a_slow_wander_proves_nothing() -> None:
    """Half of one slow swing looks like a trend, but its residuals follow each other."""
    found = linear_trend(range(40), [(time // 20) * 1.0 + 0.001 * (time % 2) for time in range(40)])
    assert found is not None
    assert found.high - found.low > 0.02
