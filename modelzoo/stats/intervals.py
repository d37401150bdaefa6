"""What samples show of a setting: percentiles of a process, the interval of its median, the level of several processes.

The level of a setting is the geometric mean of the medians of its processes, and its interval is Student's t on
their logarithms. The spread between processes already contains the error of each median, so this error is not added
again. If the logarithms of processes are normal, the interval covers 95 %; with a skewness of 1 it covers 94 %
(benchmarks/verdicts_speed.py). Nothing is trimmed: a process that is far off is reported (``odd_process``). All this
holds within one session; another session of the same machine may run at another level.

Below them are Student's t, for any number of degrees of freedom, whole or not, finite or not, and the log of a ratio
with its standard error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import NormalDist, fmean, median, stdev

import msgspec

Centre = Callable[[Sequence[float]], float]
"""What stands for the samples of a process: ``statistics.median`` or ``statistics.fmean``."""
OUTLIER = 1.5
"""A sample above this multiple of its process's median is reported as an outlier. None is dropped."""
ACCURACY = 1e-14
"""The continued fraction ends when a step changes it by less than this fraction."""
NORMAL_FROM = 1e6
"""Degrees of freedom from which it is the normal distribution: 95 % quantiles then differ by about a millionth."""
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


def percentile(samples: Sequence[float], percent: float) -> float | None:
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
    values = {f"p{percent}": percentile(ordered, percent) for percent in (50, 90, 95, 99)}
    return {name: value for name, value in values.items() if value is not None}


def outliers(samples: Sequence[float]) -> int:
    """Count the samples above 1.5 times the median."""
    limit = OUTLIER * median(samples)
    return sum(sample > limit for sample in samples)


def is_settled(samples: Sequence[float], window: int) -> bool:
    """Whether timings have stabilized: the medians of the last two windows agree.

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


@lru_cache(maxsize=4096)
def student_t(probability: float, freedom: float) -> float:
    """Quantile of Student's t distribution with ``freedom`` degrees of freedom; infinite below one.

    The distribution function is inverted by Newton's method over the angle atan(t / sqrt(freedom)), which is bounded,
    and by bisection where a step would leave the bounds.
    """
    if probability < 0.5:
        return -student_t(1 - probability, freedom)
    if freedom < 1:
        return math.inf
    if freedom > NORMAL_FROM:
        return NormalDist().inv_cdf(probability)
    log_density = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi) / 2
    low, high, angle = 0.0, math.pi / 2, math.atan(NormalDist().inv_cdf(probability) / math.sqrt(freedom))
    for _ in range(60):
        excess = two_sided_p(math.sqrt(freedom) * math.tan(angle), freedom) - 2 * (1 - probability)
        low, high = (angle, high) if excess > 0 else (low, angle)
        step = excess / (2 * math.exp(log_density + (freedom - 1) * math.log(math.cos(angle))))
        moved = angle + step if low < angle + step < high else (low + high) / 2
        if abs(moved - angle) <= 1e-15 * angle:
            break
        angle = moved
    return math.sqrt(freedom) * math.tan(angle)


def two_sided_p(t: float, freedom: float) -> float:
    """Probability that a t statistic is farther from 0 than ``t``; 1 below one degree of freedom.

    By the incomplete beta function, as in Abramowitz & Stegun 26.7.1 and 26.5.27.
    """
    if freedom < 1:
        return 1.0
    if math.isinf(t):
        return 0.0
    if freedom > NORMAL_FROM:
        return math.erfc(t / math.sqrt(2))
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Compute the regularized incomplete beta function I_x(a, b) (https://dlmf.nist.gov/8.17)."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    # The continued fraction converges quickly only on this side of the mean.
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    log_scale = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_scale) / a * _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """1 / (1 + d1 / (1 + d2 / …)) of https://dlmf.nist.gov/8.17.E22, by Lentz's method (Press et al., "Numerical
    Recipes", section 5.2)."""
    tiny = 1e-300  # in place of a zero
    numerator, denominator = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    value = denominator
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1 / ((1 + term * denominator) or tiny)
            numerator = (1 + term / numerator) or tiny
            value *= numerator * denominator
        if abs(numerator * denominator - 1) < ACCURACY:
            break
    return value


class Interval(msgspec.Struct, frozen=True):
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


def level_interval(medians: Sequence[float], *, by_precision: bool = False) -> Interval:
    """Compute the geometric mean of the processes' ``medians`` and its interval: Student's t on their logarithms.

    One process says nothing about the next one: its interval is unbounded.

    Args:
        medians: of each process, in seconds.
        by_precision: whether sampling stopped, or is to stop, because this interval is narrow enough.

    Raises:
        ValueError: there are no medians.
    """
    centre, count = geometric_mean(medians), len(medians)
    if count == 1:
        return Interval(centre, 0.0, math.inf)
    error = stdev([math.log(each) for each in medians]) / math.sqrt(count)
    widened = 1 + STOPPED / count if by_precision else 1.0
    return scaled(centre, student_t((1 + CONFIDENCE) / 2, count - 1) * error * widened)


def scaled(value: float, log_half_width: float) -> Interval:
    """The interval that is symmetric about ``value`` in logarithms."""
    return Interval(value, value * math.exp(-log_half_width), value * math.exp(log_half_width))


def inverse(interval: Interval, numerator: float) -> Interval:
    """Return ``numerator`` divided by an interval of positive values; 0 becomes infinity, and the other way round."""
    low, high = interval.low, interval.high
    return Interval(numerator / interval.value, numerator / high, numerator / low if low > 0 else math.inf)


def setting_interval(
    processes: Sequence[Sequence[float]], *, by_precision: bool = False, centre: Centre = median
) -> Interval:
    """Compute the level of a setting from the samples of each of its processes.

    With several processes it is ``level_interval`` of their medians (or of another ``centre``). A single process has
    only its own interval (``process_interval``), which covers that process's median and says nothing about the next
    process; the summary warns about that. For ``by_precision`` see ``level_interval``.

    Raises:
        ValueError: there are no processes, or one has no samples.
    """
    if len(processes) == 1:
        return process_interval(processes[0], centre)
    return level_interval([centre(samples) for samples in processes], by_precision=by_precision)


def process_interval(samples: Sequence[float], centre: Centre = median) -> Interval:
    """Compute the median of one process's samples and its interval by the method of batch means.

    The samples are divided into up to 20 batches of neighbours. The spread of the batches' medians (or of another
    ``centre``) gives the standard
    error; its square is multiplied by (1 + r) / (1 - r), where r is the remaining lag-1 correlation of the batches, as
    for an autoregressive series (Law, "Simulation Modeling and Analysis", section 9.5). With fewer than four samples
    the interval is unbounded, so no stopping rule can take it for precise.

    Raises:
        ValueError: there are no samples.
    """
    level = centre(samples)
    count = len(samples)
    if count < 4:
        return Interval(level, 0.0, math.inf)
    batches = min(BATCHES, max(4, min(8, count), count // 5))
    edges = [round(i * count / batches) for i in range(batches + 1)]
    levels = [centre(samples[a:b]) for a, b in itertools.pairwise(edges)]
    mean = fmean(levels)
    squares = sum((x - mean) ** 2 for x in levels)
    # Constant samples keep a trace of variance from rounding; nothing can be estimated from it.
    if squares <= (1e-12 * abs(mean)) ** 2 * batches:
        return Interval(level, level, level)
    lag = sum((a - mean) * (b - mean) for a, b in itertools.pairwise(levels)) / squares
    lag = min(max(lag, 0.0), 0.8)
    error = math.sqrt(squares / (batches - 1) / batches * (1 + lag) / (1 - lag))
    width = student_t((1 + CONFIDENCE) / 2, batches - 1) * error
    return Interval(level, level - width, level + width)


def odd_process(medians: Sequence[float]) -> int | None:
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


class Variance(msgspec.Struct, frozen=True):
    """A squared standard error.

    Attributes:
        value: in squared log units.
        freedom: its degrees of freedom; infinite if it is not estimated from data.
    """

    value: float
    freedom: float

    def times(self, factor: float) -> Variance:
        """The variance of a value that is sqrt(``factor``) times as large."""
        return Variance(factor * self.value, self.freedom)


class LogRatio(msgspec.Struct, frozen=True):
    """The log of a ratio with its standard error and degrees of freedom."""

    value: float
    error: float
    freedom: float

    @property
    def p_value(self) -> float:
        """Two-sided, of the hypothesis that the ratio is 1."""
        return self.p_of(0.0)

    def p_of(self, log_ratio: float) -> float:
        """Two-sided p-value of the hypothesis that the log of the ratio is ``log_ratio``."""
        distance = abs(self.value - log_ratio)
        if self.freedom < 1 or not distance:
            return 1.0
        return two_sided_p(distance / self.error, self.freedom) if self.error else 0.0

    def p_outside(self, low: float, high: float) -> float:
        """One-sided p-value of the hypothesis that the log of the ratio does not lie between ``low`` and ``high``.

        It is at most alpha if the whole interval of 1 - 2 alpha confidence lies between the two (Schuirmann, "A
        comparison of the two one-sided tests procedure and the power approach for assessing the equivalence of average
        bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).
        """
        if not low < self.value < high:
            return 1.0
        return self.p_of(low if self.value - low < high - self.value else high) / 2

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """The ratio with its interval; unbounded below one degree of freedom."""
        value = math.exp(self.value)
        if self.freedom < 1:
            return Interval(value, 0.0, math.inf)
        return scaled(value, student_t((1 + confidence) / 2, self.freedom) * self.error)


def total(variances: Sequence[Variance]) -> Variance:
    """The sum of independent variances, with the degrees of freedom of Welch and Satterthwaite.

    (Σ v)² / Σ (v² / f) for variances v with f degrees of freedom (Satterthwaite, "An approximate distribution of
    estimates of variance components", Biometrics Bulletin 2, 1946; Welch, "The generalization of 'Student's' problem
    when several different population variances are involved", Biometrika 34, 1947). If all of them are 0, the degrees
    of freedom are the smallest.

    Raises:
        ValueError: there are none.
    """
    value = sum(each.value for each in variances)
    # Relative to the sum, so that the square of a very small variance does not vanish.
    parts = sum((each.value / value) ** 2 / each.freedom for each in variances) if value else 0.0
    if parts:
        return Variance(value, 1 / parts)
    return Variance(value, min(each.freedom for each in variances if each.value or not value))
