"""What the samples of a process show: percentiles, outliers, whether a warm-up is over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

OUTLIER = 1.5
"""A sample above this multiple of its process's median is reported as an outlier. None is dropped."""


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """Compute p50, p90, p95 and p99 by nearest rank, each only if there are more than 1 / (1 - p) samples."""
    ordered = sorted(samples)
    found = {}
    for percent in (50, 90, 95, 99):
        if len(ordered) * (100 - percent) > 100 or (percent == 50 and ordered):
            found[f"p{percent}"] = ordered[min(len(ordered) - 1, math.ceil(len(ordered) * percent / 100) - 1)]
    return found


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
