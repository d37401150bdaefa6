"""The suite's statistics: pure functions of plain numbers. Seconds in, seconds out.

Two facts about timing samples shape them. Neighbouring samples of a process are correlated, so an
interval that takes them as independent is too narrow: within a process the unit is the batch of
neighbouring samples. And processes differ from each other by more than samples within one, so
between settings the unit is the process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

CONFIDENCE = 0.95
VERDICT_CONFIDENCE = 0.98
"""FASTER and SLOWER need 1 outside this interval: at 0.95 every twentieth comparison of equals would be a false
alarm (benchmarks/false_alarms.py)."""
BATCHES = 20
"""Batches of neighbouring samples in a process; 10 to 30 is enough (Schmeiser, "Batch size effects in
the analysis of simulation output", Operations Research 30, 1982)."""
RESAMPLES = 4000
EQUIVALENCE = 0.02
"""Two settings are SAME where the whole interval of their ratio lies within ± this share of 1. It is
about what the same binary differs by between days on one server; smaller differences decide nothing."""
TRIM = 0.2
"""Share of the rounds left out at either end of a ratio's mean: the usual choice (Wilcox)."""
OUTLIER = 1.5
"""A sample over this multiple of its process's median is reported as an outlier. None is dropped."""


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The larger distance to an end, as a share of the value."""
        return max(self.high - self.value, self.value - self.low) / self.value if self.value else math.inf


def median(samples: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle values."""
    ordered = sorted(samples)
    if not ordered:
        raise ValueError("median of no samples")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def student_t(probability: float, freedom: int) -> float:
    """Quantile of Student's t by inverting its exact distribution function with bisection.

    The distribution function is Abramowitz & Stegun 26.7.3 and 26.7.4.
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


_T975 = {n: student_t((1 + CONFIDENCE) / 2, n) for n in range(1, BATCHES)}


def process_interval(samples: Sequence[float]) -> Interval:
    """The median of one process's samples with its interval by batch means.

    The samples are cut into up to 20 batches of neighbours; the spread of the batches' medians gives
    the standard error, widened by their remaining lag-1 correlation r as (1 + r) / (1 - r) for an
    autoregressive series (Law, "Simulation Modeling and Analysis", section 9.5). With fewer than
    four samples the interval is unbounded, so that no stopping rule takes it for precise.
    """
    centre = median(samples)
    count = len(samples)
    if count < 4:
        return Interval(centre, 0.0, math.inf)
    batches = min(BATCHES, max(4, min(8, count), count // 5))
    edges = [round(i * count / batches) for i in range(batches + 1)]
    levels = [median(samples[a:b]) for a, b in zip(edges, edges[1:])]
    mean = sum(levels) / batches
    squares = sum((x - mean) ** 2 for x in levels)
    # Rounding leaves a trace of variance in constant samples; below that nothing can be estimated.
    if squares <= (1e-12 * abs(mean)) ** 2 * batches:
        return Interval(centre, centre, centre)
    lag = sum((a - mean) * (b - mean) for a, b in zip(levels, levels[1:])) / squares
    lag = min(max(lag, 0.0), 0.8)
    error = math.sqrt(squares / (batches - 1) / batches * (1 + lag) / (1 - lag))
    width = _T975[batches - 1] * error
    return Interval(centre, centre - width, centre + width)


def setting_interval(processes: Sequence[Sequence[float]]) -> Interval:
    """The median of the processes' medians, with its interval.

    One process gives its own interval only (the caller warns). With more, the unit is the process:
    the standard error of log time is resampled over processes and, within each, moved by the
    process's own error; see ``_small_sample_width`` for the width.
    """
    if len(processes) == 1:
        return process_interval(processes[0])
    centre = median([median(samples) for samples in processes])
    own = [process_interval(samples) for samples in processes]
    draws = _resampled_medians([math.log(i.value) for i in own], [_standard_error(i) for i in own])
    width = _small_sample_width(draws, len(processes))
    return Interval(centre, centre * math.exp(-width), centre * math.exp(width))


def ratio_interval(
    a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], confidence: float = CONFIDENCE
) -> Interval:
    """How many times faster B is than A: time of A over time of B, with its interval.

    ``a[i]`` and ``b[i]`` are the samples of the processes of round i, which sampled by turns: the value is the
    trimmed mean of the rounds' log ratios, in which what slowed both sides of a round cancels. Unequal
    numbers of processes (results of two calls) have no rounds: then it is the difference of the trimmed means.
    """
    if len(a) == len(b):
        found = _trimmed([math.log(median(x) / median(y)) for x, y in zip(a, b)])
    else:
        first, second = (_trimmed([math.log(median(samples)) for samples in side]) for side in (a, b))
        freedom = min(first.freedom, second.freedom)
        found = _Centre(first.value - second.value, math.hypot(first.error, second.error), freedom)
    if found.freedom < 1:
        return Interval(math.exp(found.value), 0.0, math.inf)
    width = student_t((1 + confidence) / 2, found.freedom) * found.error
    return Interval(math.exp(found.value), math.exp(found.value - width), math.exp(found.value + width))


@dataclass(frozen=True)
class _Centre:
    """A centre with its standard error and the degrees of freedom of Student's t."""

    value: float
    error: float
    freedom: int


def _trimmed(levels: Sequence[float]) -> _Centre:
    """The 20 % trimmed mean of ``levels`` with Yuen's standard error.

    One process in ten is off by several percent on a shared machine, which a mean feels too much; a median of
    few wastes the others. Source: Yuen, "The two-sample trimmed t for unequal population variances",
    Biometrika 61, 1974; Wilcox, "Introduction to Robust Estimation", section 4.3. The processes' own intervals
    do not enter: most of their width is the machine's wandering, which both sides of a round share.
    """
    ordered, count = sorted(levels), len(levels)
    cut = int(TRIM * count)
    kept = ordered[cut : count - cut]
    winsorized = [kept[0]] * cut + kept + [kept[-1]] * cut
    mean = sum(winsorized) / count
    squares = sum((x - mean) ** 2 for x in winsorized)
    freedom = len(kept) - 1
    error = math.sqrt(squares / (len(kept) * freedom)) if freedom else math.inf
    return _Centre(sum(kept) / len(kept), error, freedom)


def _small_sample_width(draws: Sequence[float], processes: int) -> float:
    """Half the interval's width from bootstrap ``draws`` over ``processes`` units.

    The bootstrap's variance is (n - 1) / n of the true one and a normal quantile is too short for
    few units; both are mended as in Hesterberg, "What teachers should know about the bootstrap", The
    American Statistician 69, 2015, section 4: times sqrt(n / (n - 1)), and Student's t.
    """
    if processes < 2:
        return math.inf
    mean = sum(draws) / len(draws)
    error = math.sqrt(sum((x - mean) ** 2 for x in draws) / (len(draws) - 1))
    quantile = student_t((1 + CONFIDENCE) / 2, processes - 1)
    return quantile * math.sqrt(processes / (processes - 1)) * error


def _resampled_medians(levels: Sequence[float], errors: Sequence[float]) -> list[float]:
    """Bootstrap draws of the median of ``levels``, each drawn level moved by its own normal error."""
    import numpy as np

    generator = np.random.default_rng(0)
    chosen = generator.integers(0, len(levels), (RESAMPLES, len(levels)))
    moved = np.asarray(levels)[chosen] + np.asarray(errors)[chosen] * generator.standard_normal(chosen.shape)
    return [float(x) for x in np.median(moved, axis=1)]


def _standard_error(interval: Interval) -> float:
    """Relative standard error of a process's median; 0 where its interval is unbounded, since then
    only the spread between processes is known."""
    if math.isinf(interval.high) or not interval.value:
        return 0.0
    return (interval.high - interval.value) / interval.value / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class Verdict:
    """FASTER, SLOWER, SAME or AMBIGUOUS, and why in a few words."""

    word: str
    reason: str


def compare(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> tuple[Interval, Verdict]:
    """The ratio of A's time to B's with its 95 % interval, and what it allows to say in a word."""
    ratio = ratio_interval(a, b)
    return ratio, judge(ratio, ratio_interval(a, b, VERDICT_CONFIDENCE))


def judge(ratio: Interval, sure: Interval) -> Verdict:
    """Say in a word what a ratio (over 1 is faster) allows to say, by its 95 % interval and a ``sure``, wider one."""
    if not math.isfinite(ratio.high):
        return Verdict("AMBIGUOUS", "one process each: their spread is unknown")
    if ratio.low >= 1 - EQUIVALENCE and ratio.high <= 1 + EQUIVALENCE:
        return Verdict("SAME", f"the whole interval is within ±{EQUIVALENCE:.0%} of 1")
    if sure.low > 1:
        return Verdict("FASTER", f"its {VERDICT_CONFIDENCE:.0%} interval is above 1 too")
    if sure.high < 1:
        return Verdict("SLOWER", f"its {VERDICT_CONFIDENCE:.0%} interval is below 1 too")
    if ratio.low <= 1 <= ratio.high:
        return Verdict("AMBIGUOUS", "the interval holds 1: more processes could tell")
    return Verdict("AMBIGUOUS", f"its {VERDICT_CONFIDENCE:.0%} interval holds 1: more processes could tell")


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """p50, p90, p95 and p99 in seconds, each only where more than 1 / (1 - p) samples exist."""
    ordered = sorted(samples)
    found = {}
    for percent in (50, 90, 95, 99):
        if len(ordered) * (100 - percent) > 100 or (percent == 50 and ordered):
            found[f"p{percent}"] = ordered[min(len(ordered) - 1, math.ceil(len(ordered) * percent / 100) - 1)]
    return found


def outliers(samples: Sequence[float]) -> int:
    """How many samples exceed 1.5 times the median."""
    limit = OUTLIER * median(samples)
    return sum(sample > limit for sample in samples)


def is_settled(samples: Sequence[float], window: int) -> bool:
    """Whether the level has stopped moving: the medians of the last two windows agree within 2 %.

    "Agree" allows for their own noise: a difference within the quartile spread of the two windows,
    over the square root of the window, counts as none.
    """
    if len(samples) < 2 * window:
        return False
    before, after = samples[-2 * window : -window], samples[-window:]
    first, second = median(before), median(after)
    ordered = sorted([*before, *after])
    spread = ordered[(3 * len(ordered)) // 4] - ordered[len(ordered) // 4]
    return abs(second - first) <= max(0.02 * second, spread / math.sqrt(window))
