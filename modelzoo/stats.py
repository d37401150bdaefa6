"""Statistics of timing samples: pure functions of plain numbers. Times are in seconds.

Two properties of timing samples decide which methods are valid. Neighbouring samples of a process are correlated, so
an interval that treats samples as independent is too narrow: within a process, the unit is a batch of neighbouring
samples. And processes differ from each other by more than the samples within one, so when settings are compared the
unit is the process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from statistics import NormalDist, fmean, median, stdev

CONFIDENCE = 0.95
VERDICT_CONFIDENCE = 0.98
"""FASTER and SLOWER require an interval of this confidence that excludes 1. At 0.95, one comparison of equals in twenty
would be a false alarm (benchmarks/false_alarms.py)."""
BATCHES = 20
"""Batches of neighbouring samples per process; 10 to 30 are enough (Schmeiser, "Batch size effects in the analysis of
simulation output", Operations Research 30, 1982)."""
RESAMPLES = 4000
"""Bootstrap draws."""
EQUIVALENCE = 0.02
"""Two settings are SAME if the whole interval of their ratio lies within 1 ± this fraction. The same binary differs by
about as much from day to day on one server, so smaller differences do not matter."""
TRIM = 0.2
"""Fraction of the rounds that a trimmed mean leaves out at either end; the usual choice (Wilcox)."""
OUTLIER = 1.5
"""A sample above this multiple of its process's median is reported as an outlier. None is dropped."""


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Distance from the value to the farther bound, relative to the value."""
        return max(self.high - self.value, self.value - self.low) / self.value if self.value else math.inf


@cache
def student_t(probability: float, freedom: int) -> float:
    """Quantile of Student's t distribution with ``freedom`` degrees of freedom; infinite for none.

    The exact distribution function (Abramowitz & Stegun 26.7.3 and 26.7.4) is inverted by bisection.
    """
    if freedom < 1:
        return math.inf

    def two_sided(t: float) -> float:
        theta = math.atan(t / math.sqrt(freedom))
        term = math.cos(theta) if freedom % 2 else 1.0
        total = term if freedom > 1 else 0.0
        for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
            term *= (k - 1) / k * math.cos(theta) ** 2
            total += term
        if freedom % 2:
            return 2 / math.pi * (theta + math.sin(theta) * total)
        return math.sin(theta) * total

    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        if two_sided(middle) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return (low + high) / 2


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


def setting_interval(processes: Sequence[Sequence[float]]) -> Interval:
    """Compute the median of the processes' medians and its interval.

    With several processes the unit is the process: a bootstrap of log times resamples the processes and adds to each
    a normal error of its own standard error; ``_small_sample_width`` turns the draws into an interval. A single
    process has only its own interval, which says nothing about the next process; the caller warns about that.
    """
    if len(processes) == 1:
        return process_interval(processes[0])
    centre = median([median(samples) for samples in processes])
    own = [process_interval(samples) for samples in processes]
    draws = _resampled_medians([math.log(i.value) for i in own], [_standard_error(i) for i in own])
    width = _small_sample_width(draws, len(processes))
    return Interval(centre, centre * math.exp(-width), centre * math.exp(width))


def ratio_interval(
    a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], *, paired: bool, confidence: float = CONFIDENCE
) -> Interval:
    """Compute how many times faster B is than A (time of A over time of B) and the interval of this ratio.

    Args:
        a: samples of each of A's processes.
        b: samples of each of B's processes.
        paired: whether ``a[i]`` and ``b[i]`` ran in the same round, sampling in alternating turns. If so, the ratio
            is the trimmed mean of the rounds' log ratios, in which whatever slowed down both sides of a round
            cancels. If not (two stored results, say), it is the difference of the two trimmed means of log time.
        confidence: coverage of the interval.

    Raises:
        ValueError: paired sides have different numbers of processes.
    """
    if paired:
        if len(a) != len(b):
            raise ValueError(f"paired sides must have the same number of rounds, not {len(a)} and {len(b)}")
        found = _trimmed([math.log(median(x) / median(y)) for x, y in zip(a, b)])
    else:
        first, second = (_trimmed([math.log(median(samples)) for samples in side]) for side in (a, b))
        freedom = min(first.freedom, second.freedom)
        found = _TrimmedMean(first.value - second.value, math.hypot(first.error, second.error), freedom)
    if found.freedom < 1:
        return Interval(math.exp(found.value), 0.0, math.inf)
    width = student_t((1 + confidence) / 2, found.freedom) * found.error
    return Interval(math.exp(found.value), math.exp(found.value - width), math.exp(found.value + width))


@dataclass(frozen=True)
class _TrimmedMean:
    """A trimmed mean with its standard error and the degrees of freedom for Student's t."""

    value: float
    error: float
    freedom: int


def _trimmed(levels: Sequence[float]) -> _TrimmedMean:
    """Compute the 20 % trimmed mean of ``levels`` with Yuen's standard error.

    On a shared machine one process in ten is off by several percent. A mean is too sensitive to that, and the median
    of a few values discards most of their information. Source: Yuen, "The two-sample trimmed t for unequal population
    variances", Biometrika 61, 1974; Wilcox, "Introduction to Robust Estimation", section 4.3. The processes' own
    intervals are not used: most of their width is drift of the machine, which both sides of a round share.
    """
    ordered, count = sorted(levels), len(levels)
    cut = int(TRIM * count)
    kept = ordered[cut : count - cut]
    winsorized = [kept[0]] * cut + kept + [kept[-1]] * cut
    mean = sum(winsorized) / count
    squares = sum((x - mean) ** 2 for x in winsorized)
    freedom = len(kept) - 1
    error = math.sqrt(squares / (len(kept) * freedom)) if freedom else math.inf
    return _TrimmedMean(sum(kept) / len(kept), error, freedom)


def _small_sample_width(draws: Sequence[float], processes: int) -> float:
    """Compute half the width of the interval from bootstrap ``draws`` over ``processes`` units.

    For few units the bootstrap underestimates the variance by (n - 1) / n, and a normal quantile is too small. Both
    are corrected as in Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69,
    2015, section 4: the factor sqrt(n / (n - 1)), and Student's t.
    """
    if processes < 2:
        return math.inf
    error = stdev(draws)
    quantile = student_t((1 + CONFIDENCE) / 2, processes - 1)
    return quantile * math.sqrt(processes / (processes - 1)) * error


def _resampled_medians(levels: Sequence[float], errors: Sequence[float]) -> list[float]:
    """Draw bootstrap medians of ``levels``; each drawn level gets a normal error of its own standard error."""
    import numpy as np

    generator = np.random.default_rng(0)
    chosen = generator.integers(0, len(levels), (RESAMPLES, len(levels)))
    moved = np.asarray(levels)[chosen] + np.asarray(errors)[chosen] * generator.standard_normal(chosen.shape)
    return [float(x) for x in np.median(moved, axis=1)]


def _standard_error(interval: Interval) -> float:
    """Relative standard error of a process's median.

    It is 0 if the interval is unbounded: then only the spread between the processes is known.
    """
    if math.isinf(interval.high) or not interval.value:
        return 0.0
    return (interval.high - interval.value) / interval.value / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class SpeedVerdict(str, Enum):
    """Outcome of a comparison of speeds. REFUSED: the two sides are not comparable."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    AMBIGUOUS = "AMBIGUOUS"
    REFUSED = "REFUSED"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison, with a short reason."""

    outcome: SpeedVerdict
    reason: str


def compare(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], *, paired: bool) -> tuple[Interval, Verdict]:
    """Compute the ratio of A's time to B's with its 95 % interval, and the verdict that it supports.

    For ``paired`` see ``ratio_interval``.
    """
    ratio = ratio_interval(a, b, paired=paired)
    return ratio, judge(ratio, ratio_interval(a, b, paired=paired, confidence=VERDICT_CONFIDENCE))


def judge(ratio: Interval, wider: Interval) -> Verdict:
    """Derive the verdict from a speedup (above 1 is faster).

    Args:
        ratio: the speedup with its 95 % interval.
        wider: the speedup with its interval of ``VERDICT_CONFIDENCE``.
    """
    if not math.isfinite(ratio.high):
        return Verdict(SpeedVerdict.AMBIGUOUS, "only one process each, so their spread is unknown")
    if ratio.low >= 1 - EQUIVALENCE and ratio.high <= 1 + EQUIVALENCE:
        return Verdict(SpeedVerdict.SAME, f"the whole interval lies within 1 ± {EQUIVALENCE:.0%}")
    if wider.low > 1:
        return Verdict(SpeedVerdict.FASTER, f"the {VERDICT_CONFIDENCE:.0%} interval lies above 1, too")
    if wider.high < 1:
        return Verdict(SpeedVerdict.SLOWER, f"the {VERDICT_CONFIDENCE:.0%} interval lies below 1, too")
    if ratio.low <= 1 <= ratio.high:
        return Verdict(SpeedVerdict.AMBIGUOUS, "the interval includes 1; more processes may decide it")
    return Verdict(
        SpeedVerdict.AMBIGUOUS,
        f"the {VERDICT_CONFIDENCE:.0%} interval includes 1; more processes may decide it",
    )


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
