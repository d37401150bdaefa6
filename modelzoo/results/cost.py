"""What items cost on a machine that has a price. Pure."""

from __future__ import annotations

import math

from modelzoo import stats

MILLION = 1e6
SECONDS_PER_HOUR = 3600.0


def per_million(per_hour: float, rate: stats.Interval) -> stats.Interval:
    """Return what a million items cost: price per hour ÷ 3600 s × 10⁶ ÷ throughput.

    Args:
        per_hour: price of an hour of the whole machine, in any currency.
        rate: items per second of the whole machine.
    """
    numerator = per_hour / SECONDS_PER_HOUR * MILLION
    high = numerator / rate.low if rate.low > 0 else math.inf
    return stats.Interval(numerator / rate.value, numerator / rate.high, high)
