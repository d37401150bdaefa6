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
BATCHES = 20
"""Batches of neighbouring samples in a process; 10 to 30 is enough (Schmeiser, "Batch size effects in
the analysis of simulation output", Operations Research 30, 1982)."""
RESAMPLES = 4000
EQUIVALENCE = 0.02
"""Two settings are SAME where the whole interval of their ratio lies within ± this share of 1. It is
about what the same binary differs by between days on one server; smaller differences decide nothing."""
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
    draws = _resampled_log_medians(processes)
    width = _small_sample_width(draws, len(processes))
    return Interval(centre, centre * math.exp(-width), centre * math.exp(width))


def ratio_interval(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> Interval:
    """How many times faster B is than A: time of A over time of B, with its interval.

    ``a[i]`` and ``b[i]`` are the samples of the processes of round i, which ran next to each other: the
    value is the median of the rounds' ratios, in which what slowed both sides of a round cancels. Rounds
    are resampled, and each drawn ratio moves by its processes' own errors. Unequal numbers of processes
    (results of two calls) have no rounds: then it is the ratio of the medians, resampled apart.
    """
    if len(a) == len(b):
        pairs = [_log_ratio(process_interval(x), process_interval(y)) for x, y in zip(a, b)]
        draws = _resampled_medians([level for level, _ in pairs], [error for _, error in pairs])
        centre = median([level for level, _ in pairs])
    else:
        draws = [x - y for x, y in zip(_resampled_log_medians(a, 0), _resampled_log_medians(b, 1))]
        centre = math.log(median([median(s) for s in a]) / median([median(s) for s in b]))
    width = _small_sample_width(draws, min(len(a), len(b)))
    return Interval(math.exp(centre), math.exp(centre - width), math.exp(centre + width))


def _log_ratio(a: Interval, b: Interval) -> tuple[float, float]:
    """log(A / B) and its standard error."""
    return math.log(a.value / b.value), math.hypot(_standard_error(a), _standard_error(b))


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


def _resampled_log_medians(processes: Sequence[Sequence[float]], seed: int = 0) -> list[float]:
    """Bootstrap draws of the log of the median of the processes' medians."""
    intervals = [process_interval(samples) for samples in processes]
    return _resampled_medians([math.log(i.value) for i in intervals], [_standard_error(i) for i in intervals], seed)


def _resampled_medians(levels: Sequence[float], errors: Sequence[float], seed: int = 0) -> list[float]:
    """Bootstrap draws of the median of ``levels``, each drawn level moved by its own normal error."""
    import numpy as np

    generator = np.random.default_rng(seed)
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


def judge(ratio: Interval) -> Verdict:
    """Say in a word what a ratio (over 1 is faster) with its interval allows to say."""
    if not math.isfinite(ratio.high):
        return Verdict("AMBIGUOUS", "one process each: their spread is unknown")
    if ratio.low >= 1 - EQUIVALENCE and ratio.high <= 1 + EQUIVALENCE:
        return Verdict("SAME", f"the whole interval is within ±{EQUIVALENCE:.0%} of 1")
    if ratio.low > 1:
        return Verdict("FASTER", "the whole interval is above 1")
    if ratio.high < 1:
        return Verdict("SLOWER", "the whole interval is below 1")
    return Verdict("AMBIGUOUS", "the interval holds 1: more processes could tell")


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
