"""What the samples of a process show: percentiles, outliers, whether a warm-up is over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Optional

OUTLIER = 1.5
"""A sample above this multiple of its process's median is reported as an outlier. None is dropped."""


def percentile(samples: Sequence[float], percent: float) -> Optional[float]:
    """Compute a percentile by nearest rank; ``None`` unless there are more than 1 / (1 - p) samples.

    Of any samples there is a median.

    Args:
        samples: in any order.
        percent: 99 for p99.
    """
    if not samples or (percent > 50 and len(samples) * (100 - percent) <= 100):
        return None
    # The difference is for percentages like 99.9, which are not exact.
    rank = math.ceil(len(samples) * percent / 100 - 1e-9)
    return sorted(samples)[max(1, rank) - 1]


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """Compute p50, p90, p95 and p99, those that there are; see ``percentile``."""
    ordered = sorted(samples)
    found = {f"p{percent}": percentile(ordered, percent) for percent in (50, 90, 95, 99)}
    return {name: value for name, value in found.items() if value is not None}


def outliers(samples: Sequence[float]) -> int:
    """Count the samples above 1.5 times the median."""
    limit = OUTLIER * median(samples)
    return sum(sample > limit for sample in samples)


def is_settled(samples: Sequence[float], window: int) -> bool:
    """Whether timings have stabilised: the medians of the last two windows agree.

    They agree if they differ by at most 2 %, or by at most what their noise explains: the interquartile range of the
    two windows together, divided by the square root of the window's length.
    """
    if len(samples) < 2 * window:
        return False
    before, after = samples[-2 * window : -window], samples[-window:]
    first, second = median(before), median(after)
    ordered = sorted([*before, *after])
    spread = ordered[(3 * len(ordered)) // 4] - ordered[len(ordered) // 4]
    return abs(second - first) <= max(0.02 * second, spread / math.sqrt(window))
