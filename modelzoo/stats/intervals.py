"""Intervals of one setting: of one process's median, and of the level of several processes.

The level of a setting is the geometric mean of the medians of its processes, and its interval is Student's t on
their logarithms. The spread between processes already contains the error of each median, so this error is not added
again. If the logarithms of processes are normal, the interval covers 95 %; with a skewness of 1 it covers 94 %
(benchmarks/verdicts_speed.py). Nothing is trimmed: a process that is far off is reported (``odd_process``). All this
holds within one session; another session of the same machine may run at another level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Optional

from modelzoo.stats.distribution import student_t

CONFIDENCE = 0.95
BATCHES = 20
"""Batches of neighbouring samples per process; 10 to 30 are enough (Schmeiser, "Batch size effects in the analysis of
simulation output", Operations Research 30, 1982)."""
STOPPED = 0.75
"""An interval at which sampling stopped because it was narrow enough is widened by 1 + this / processes. Sampling stops
sooner if the spread happens to look small, so without it such 95 % intervals cover 93 %; with it, 94 to 96 % (Starr,
"The performance of a sequential procedure for the fixed-width interval estimation of the mean", Annals of Mathematical
Statistics 37, 1966, tabulates the effect; tests/stats/test_intervals.py simulates both for 8 to 64 processes)."""
ODD_FROM = 5
"""Processes that it takes to call one of them odd."""
ODD_SIGNIFICANCE = 0.01
"""How often a process is called odd although all are alike."""


@dataclass(frozen=True)
class Interval:
    """A value with its confidence interval, of 95 % unless its function was asked for another confidence."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Distance from the value to the farther bound, relative to the value."""
        return max(self.high - self.value, self.value - self.low) / self.value if self.value else math.inf


def geometric_mean(values: Sequence[float]) -> float:
    """Compute the geometric mean of positive ``values``.

    ``statistics.geometric_mean`` of several equal values differs from them in the last digit; this does not.
    """
    return values[0] if min(values) == max(values) else math.exp(fmean(math.log(value) for value in values))


def level_interval(medians: Sequence[float], confidence: float = CONFIDENCE, *, by_precision: bool = False) -> Interval:
    """Compute the geometric mean of the processes' ``medians`` and its interval: Student's t on their logarithms.

    One process says nothing about the next one: its interval is unbounded.

    Args:
        medians: of each process, in seconds.
        confidence: coverage of the interval.
        by_precision: whether sampling stopped, or is to stop, because this interval is narrow enough.

    Raises:
        ValueError: there are no medians.
    """
    if not medians:
        raise ValueError("there are no processes")
    centre, count = geometric_mean(medians), len(medians)
    if count == 1:
        return Interval(centre, 0.0, math.inf)
    error = stdev([math.log(each) for each in medians]) / math.sqrt(count)
    widened = 1 + STOPPED / count if by_precision else 1.0
    return scaled(centre, student_t((1 + confidence) / 2, count - 1) * error * widened)


def scaled(value: float, log_half_width: float) -> Interval:
    """The interval that is symmetric about ``value`` in logarithms."""
    return Interval(value, value * math.exp(-log_half_width), value * math.exp(log_half_width))


def setting_interval(processes: Sequence[Sequence[float]], *, by_precision: bool = False) -> Interval:
    """Compute the level of a setting from the samples of each of its processes.

    With several processes it is ``level_interval`` of their medians. A single process has only its own interval
    (``process_interval``), which covers that process's median and says nothing about the next process; the summary
    warns about that. For ``by_precision`` see ``level_interval``.

    Raises:
        ValueError: there are no processes, or one has no samples.
    """
    if len(processes) == 1:
        return process_interval(processes[0])
    return level_interval([median(samples) for samples in processes], by_precision=by_precision)


def process_interval(samples: Sequence[float]) -> Interval:
    """Compute the median of one process's samples and its interval by the method of batch means.

    The samples are divided into up to 20 batches of neighbours. The spread of the batches' medians gives the standard
    error; its square is multiplied by (1 + r) / (1 - r), where r is the remaining lag-1 correlation of the batches, as
    for an autoregressive series (Law, "Simulation Modeling and Analysis", section 9.5). With fewer than four samples
    the interval is unbounded, so no stopping rule can take it for precise.

    Raises:
        ValueError: there are no samples.
    """
    centre = median(samples)
    count = len(samples)
    if count < 4:
        return Interval(centre, 0.0, math.inf)
    batches = min(BATCHES, max(4, min(8, count), count // 5))
    edges = [round(i * count / batches) for i in range(batches + 1)]
    levels = [median(samples[a:b]) for a, b in zip(edges, edges[1:])]
    mean = fmean(levels)
    squares = sum((x - mean) ** 2 for x in levels)
    # Constant samples keep a trace of variance from rounding; nothing can be estimated from it.
    if squares <= (1e-12 * abs(mean)) ** 2 * batches:
        return Interval(centre, centre, centre)
    lag = sum((a - mean) * (b - mean) for a, b in zip(levels, levels[1:])) / squares
    lag = min(max(lag, 0.0), 0.8)
    error = math.sqrt(squares / (batches - 1) / batches * (1 + lag) / (1 - lag))
    width = student_t((1 + CONFIDENCE) / 2, batches - 1) * error
    return Interval(centre, centre - width, centre + width)


def odd_process(medians: Sequence[float]) -> Optional[int]:
    """Return the index of the process whose median is far off the others', or ``None``.

    Grubbs' test on the logarithms, at 1 % and from 5 processes on (Grubbs, "Procedures for detecting outlying
    observations in samples", Technometrics 11, 1969; NIST/SEMATECH e-Handbook, section 1.3.5.17.1). Rules based on
    the median absolute deviation, such as 3.5 modified z-scores, find an odd process in 13 to 21 % of sets of 5 to 8
    that are all alike.
    """
    count = len(medians)
    if count < ODD_FROM:
        return None
    logs = [math.log(each) for each in medians]
    mean, spread = fmean(logs), stdev(logs)
    distances = [abs(each - mean) for each in logs]
    farthest = max(distances)
    quantile = student_t(1 - ODD_SIGNIFICANCE / (2 * count), count - 2)
    critical = (count - 1) / math.sqrt(count) * math.sqrt(quantile**2 / (count - 2 + quantile**2))
    return distances.index(farthest) if farthest > critical * spread else None
