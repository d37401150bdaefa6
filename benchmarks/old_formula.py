"""The interval of a latency as the suite computed it before Student's t, to compare with.

It resampled the processes and moved each drawn one by a normal error of its own, which the spread between processes
already contains; that made it too wide. (The interval of a ratio was that of a trimmed mean, which trims nothing off
three rounds and then equals Student's t.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, stdev

from modelzoo import stats

RESAMPLES = 4000


def standard_error(samples: Sequence[float]) -> float:
    """Relative standard error of one process's median; 0 if its interval is unbounded."""
    own = stats.process_interval(samples)
    if math.isinf(own.high) or not own.value:
        return 0.0
    return (own.high - own.value) / own.value / NormalDist().inv_cdf((1 + stats.CONFIDENCE) / 2)


def half_width(levels: Sequence[float], errors: Sequence[float]) -> float:
    """Relative half width of the interval of a setting.

    Args:
        levels: log medians of its processes.
        errors: their standard errors.
    """
    import numpy as np

    generator = np.random.default_rng(0)
    chosen = generator.integers(0, len(levels), (RESAMPLES, len(levels)))
    moved = np.asarray(levels)[chosen] + np.asarray(errors)[chosen] * generator.standard_normal(chosen.shape)
    error = stdev(float(x) for x in np.median(moved, axis=1))
    quantile = stats.student_t((1 + stats.CONFIDENCE) / 2, len(levels) - 1)
    return math.expm1(quantile * math.sqrt(len(levels) / (len(levels) - 1)) * error)
