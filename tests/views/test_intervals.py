"""Values with their intervals as text."""

from __future__ import annotations

import math

import pytest

from modelzoo.stats import Interval
from modelzoo.views import intervals


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Interval(0.0561, 0.0515, 0.0561), "56 ms ±8.2 %"),
        (Interval(4.0, 2.0, 12.0), "4 s (noisy)"),
        (Interval(1.0, 0.0, math.inf), "1.000 s (no interval)"),
        (None, "–"),
    ],
)
def test_a_time_is_rounded_in_its_unit(found: Interval | None, text: str) -> None:
    """An interval is shown by its larger side, one that is wider than its value by a word, a missing one by a dash."""
    assert intervals.interval(found) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Interval(0.62, 0.6, 0.64), "0.62× [0.60, 0.64]"),
        (Interval(0.62, 0.611, 0.628), "0.620× [0.611, 0.628]"),
        (Interval(0.62, 0.0, math.inf), "0.62× (one process: no interval)"),
        (Interval(0.62, 0.005, 40312.0), "0.62× (noisy)"),
        (None, "–"),
    ],
)
def test_a_ratio_is_shown_with_its_interval(found: Interval | None, text: str) -> None:
    """As many decimals as the interval supports; one whose ends are far apart says nothing and is not shown."""
    assert intervals.ratio(found) == text


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (56.1234, 0.73, "56.1"),
        (264.4, 13.9, "264"),
        (0.0123, 0.0001, "0.01230"),
        (56.0, 700.0, "60"),
        (0.0, 0.1, "0"),
        (12.345, math.inf, "12.35"),
    ],
)
def test_a_number_is_rounded_as_its_interval_allows(value: float, half_width: float, text: str) -> None:
    """Two digits of the half width if it begins with 100 to 354, else one; without an interval, four digits."""
    assert intervals.rounded(value, half_width) == text
