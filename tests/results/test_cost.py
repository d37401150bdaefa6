"""What items cost."""

from __future__ import annotations

import math

import pytest

from modelzoo import stats
from modelzoo.results.counting import per_million


def test_the_cost_follows_from_the_price() -> None:
    """3.6 an hour is 0.001 a second, in which there are 20 items; more items cost less."""
    cost = per_million(3.6, stats.Interval(20.0, 16.0, 25.0))
    assert (cost.value, cost.low, cost.high) == pytest.approx((50.0, 40.0, 62.5))


def test_an_unbounded_throughput_has_an_unbounded_cost() -> None:
    """As after a single round."""
    cost = per_million(3.6, stats.Interval(20.0, 0.0, math.inf))
    assert (cost.low, cost.high) == (0.0, math.inf)
