"""Changes of a level are found where they are, and rarely where they are not."""

from __future__ import annotations

import math
import random

import pytest

from modelzoo.stats import trend

pytestmark = pytest.mark.skipif(not trend.can_find_changes(), reason="the package ruptures is not installed")


def series(seed: int, *segments: tuple[int, float], noise: float = 0.01) -> list[float]:
    """Levels with normal noise about the value of each segment of (length, value)."""
    numbers = random.Random(seed)
    return [value * math.exp(numbers.gauss(0, noise)) for length, value in segments for _ in range(length)]


def test_a_change_by_ten_standard_deviations_is_found_at_its_place() -> None:
    """Up and down again."""
    for seed in range(20):
        assert trend.find_changes(series(seed, (8, 1.0), (8, 1.1), (8, 1.0))) == (8, 16)


def test_noise_alone_has_few_changes() -> None:
    """Fewer than 5 % of 200 series."""
    found = sum(bool(trend.find_changes(series(seed, (12, 1.0)))) for seed in range(200))
    assert found < 10


def test_one_slow_session_is_no_change() -> None:
    """A new level takes three."""
    levels = series(1, (20, 1.0))
    levels[10] *= 1.3
    assert trend.find_changes(levels) == ()


def test_short_and_constant_series_have_no_changes() -> None:
    """Below the minimum nothing is searched."""
    assert trend.find_changes(series(1, (4, 1.0), (5, 2.0))) == ()
    assert trend.find_changes([1.0] * 20) == ()
