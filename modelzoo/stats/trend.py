"""The linear trend of values over time, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Optional

from modelzoo.stats.distribution import student_t
from modelzoo.stats.intervals import CONFIDENCE

FEWEST = 8
"""Values below which no trend is computed: with so few, the correlation of neighbours cannot be estimated."""


@dataclass(frozen=True)
class Trend:
    """A slope, in values per unit of time, with its confidence interval."""

    slope: float
    low: float
    high: float

    @property
    def is_proven(self) -> bool:
        """Whether the interval excludes a slope of zero."""
        return self.low > 0 or self.high < 0


def linear_trend(times: Sequence[float], values: Sequence[float], confidence: float = CONFIDENCE) -> Optional[Trend]:
    """Fit a line by least squares; ``None`` with fewer than ``FEWEST`` values or if all times are equal.

    Neighbouring values are correlated, so the number of independent ones is taken to be n (1 − r) ÷ (1 + r), where r is
    the lag-1 correlation of the residuals, if that is positive (Santer et al., "Statistical significance of trends and
    trend differences in layer-average atmospheric temperature time series", Journal of Geophysical Research 105, 2000,
    section 4; with Student's t for that many less two).

    Raises:
        ValueError: ``times`` and ``values`` differ in number.
    """
    if len(times) != len(values):
        raise ValueError(f"there are {len(times)} times and {len(values)} values")
    count = len(times)
    middle, mean = fmean(times) if count else 0.0, fmean(values) if count else 0.0
    spread = sum((time - middle) ** 2 for time in times)
    if count < FEWEST or not spread:
        return None
    slope = sum((time - middle) * (value - mean) for time, value in zip(times, values)) / spread
    residuals = [value - mean - slope * (time - middle) for time, value in zip(times, values)]
    squares = sum(each**2 for each in residuals)
    if not squares:
        return Trend(slope, slope, slope)
    lag = min(max(sum(a * b for a, b in zip(residuals, residuals[1:])) / squares, 0.0), 0.95)
    independent = count * (1 - lag) / (1 + lag)
    if independent <= 2:
        return Trend(slope, -math.inf, math.inf)
    error = math.sqrt(squares / (independent - 2) / spread)
    width = student_t((1 + confidence) / 2, independent - 2) * error
    return Trend(slope, slope - width, slope + width)
