"""Two settings: the ratio of their times, and the verdict that it supports.

The unit is the process. If both sides ran in the same rounds, it is the round: its log ratio is free of whatever slowed
down both sides. A verdict of FASTER or SLOWER follows from a p-value that holds for the looks that were taken
(``modelzoo.stats.looks``), corrected for the other comparisons of the same table (``holm``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, median, variance
from typing import Optional

from modelzoo.formatting import duration, significant
from modelzoo.stats.intervals import CONFIDENCE, Interval
from modelzoo.stats.log_ratio import LogRatio, Variance, total
from modelzoo.stats.looks import Look, Looks

VERDICT_CONFIDENCE = 0.98
"""FASTER and SLOWER require p ≤ 1 - this. At 0.95, one table of equals in twenty would contain a false alarm
(benchmarks/false_alarms.py)."""
EQUIVALENCE = 0.02
"""Two settings are SAME if the whole interval of their ratio lies within 1 ± this fraction. The same binary differs by
about as much from day to day on one server, so smaller differences do not matter."""

Samples = Sequence[Sequence[float]]
"""The samples of each process of a setting, in seconds."""


class SpeedVerdict(str, Enum):
    """Outcome of a comparison of speeds. REFUSED: the two sides are not comparable."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    AMBIGUOUS = "AMBIGUOUS"
    REFUSED = "NOT COMPARABLE"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Outlook:
    """What is expected to decide a comparison that is AMBIGUOUS.

    Attributes:
        processes: how many more of each setting.
        seconds: the wall time that they take; ``None`` if it is not known.
        difference: the relative difference that they would show.
    """

    processes: int
    seconds: Optional[float]
    difference: float

    @property
    def effort(self) -> str:
        """``9 more processes per setting (3 min)``."""
        # An estimate that is known to two digits at most.
        time = "" if self.seconds is None else f" ({duration(float(f'{self.seconds:.2g}'))})"
        return f"{self.processes:,} more process{'es' if self.processes > 1 else ''} per setting{time}"

    def __str__(self) -> str:
        return f"about {self.effort} would show a difference of {significant(100 * self.difference, 2)} %"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison, with a short reason.

    Attributes:
        outcome: the conclusion.
        reason: what it follows from.
        outlook: what would decide it; ``None`` unless it is AMBIGUOUS and this can be said.
    """

    outcome: SpeedVerdict
    reason: str
    outlook: Optional[Outlook] = None


@dataclass(frozen=True)
class Comparison:
    """What is known of a ratio before it is judged.

    Attributes:
        ratio: time of A over time of B, from all rounds, with its 95 % interval. The interval is of this comparison
            alone: it is not corrected for looks or for other comparisons.
        p_value: the smallest total error at which a look would have told the two sides apart.
        decisive: the log ratio at that look; its sign is the direction.
        spread: standard deviation of the rounds' log ratios; ``None`` if the sides are not paired, or if there is
            only one round.
        rounds: number of rounds; of processes of the smaller side if they are not paired.
    """

    ratio: Interval
    p_value: float
    decisive: float
    spread: Optional[float]
    rounds: int


def ratio_interval(a: Samples, b: Samples, *, paired: bool, confidence: float = CONFIDENCE) -> Interval:
    """Compute how many times faster B is than A (time of A over time of B) and the interval of this ratio.

    Args:
        a: samples of each of A's processes.
        b: samples of each of B's processes.
        paired: whether ``a[i]`` and ``b[i]`` ran in the same round, sampling in alternating turns. If so, the ratio
            is the geometric mean of the rounds' ratios, and the interval is Student's t on their logarithms. If not
            (two stored results, say), it is the ratio of the two geometric means, with the degrees of freedom of
            Welch and Satterthwaite (Welch, "The generalization of 'Student's' problem when several different
            population variances are involved", Biometrika 34, 1947).
        confidence: coverage of the interval.

    Raises:
        ValueError: paired sides have different numbers of processes, or there are none.
    """
    return _log_ratio(_levels(a), _levels(b), paired).interval(confidence)


def ratio_test(a: Samples, b: Samples, *, paired: bool, looks: Optional[Looks] = None) -> Comparison:
    """Compute the ratio of A's time to B's, and a p-value that holds although the data was looked at several times.

    The p-value of a look is divided by the look's share of the error, and the smallest of these counts. This is the
    sequential p-value: the smallest total error at which the design would have rejected at one of its looks (Liu and
    Anderson, "On adaptive extensions of group sequential trials for clinical investigations", JASA 103, 2008). It
    only gets smaller as looks are added.

    Args:
        a: samples of each of A's processes, in the order of the rounds.
        b: samples of each of B's processes.
        paired: as for ``ratio_interval``.
        looks: the design; by default the data is looked at once, now.

    Raises:
        ValueError: as for ``ratio_interval``, or ``looks`` are given for sides that are not paired.
    """
    if looks is not None and not paired:
        raise ValueError("only sides that ran in the same rounds can be looked at several times")
    first, second = _levels(a), _levels(b)
    whole = _log_ratio(first, second, paired)
    rounds = min(len(first), len(second))
    best, decisive = 1.0, whole.value
    for look in looks.taken(rounds) if looks is not None else [Look(rounds, 1.0)]:
        seen = whole if look.rounds == rounds else _log_ratio(first[: look.rounds], second[: look.rounds], paired)
        if seen.p_value < best * look.share:
            best, decisive = seen.p_value / look.share, seen.value
    spread = whole.error * math.sqrt(rounds) if paired and rounds > 1 else None
    return Comparison(whole.interval(), best, decisive, spread, rounds)


def compare(a: Samples, b: Samples, *, paired: bool, looks: Optional[Looks] = None) -> tuple[Interval, Verdict]:
    """Compute the ratio of A's time to B's with its 95 % interval, and the verdict of this comparison alone.

    Args and Raises: as for ``ratio_test``.
    """
    found = ratio_test(a, b, paired=paired, looks=looks)
    return found.ratio, judge(found)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of several comparisons, corrected so that all verdicts of a table hold together.

    With equals only, the probability that any corrected p-value is at most alpha is at most alpha, whatever the
    dependence between the comparisons (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
    Journal of Statistics 6, 1979). The same holds for sequential p-values, and because they only get smaller, what
    has been rejected at one look stays rejected (Maurer and Bretz, "Multiple testing in group sequential trials
    using graphical approaches", Statistics in Biopharmaceutical Research 5, 2013; Tamhane et al., "Group sequential
    Holm and Hochberg procedures", Statistics in Medicine 40, 2021). Which comparisons take part must not depend on
    their times.
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def verdicts(found: Sequence[Comparison]) -> list[Verdict]:
    """Judge all comparisons of a table together, with Holm's correction."""
    adjusted = holm([each.p_value for each in found])
    return [judge(each, p, len(found)) for each, p in zip(found, adjusted)]


def judge(found: Comparison, adjusted: Optional[float] = None, table: int = 1) -> Verdict:
    """Derive the verdict from a comparison.

    SAME is what the interval itself says, at its own confidence. A difference that was found at an early look, and
    that the rounds since then have reversed, is AMBIGUOUS.

    Args:
        found: the comparison; a ratio above 1 is faster.
        adjusted: its p-value corrected for the other comparisons of its table; by default its own.
        table: number of comparisons in the table.
    """
    p, ratio = found.p_value if adjusted is None else adjusted, found.ratio
    if not math.isfinite(ratio.high):
        return Verdict(SpeedVerdict.AMBIGUOUS, "only one process each, so their spread is unknown")
    if ratio.low >= 1 - EQUIVALENCE and ratio.high <= 1 + EQUIVALENCE:
        return Verdict(SpeedVerdict.SAME, f"the whole 95 % interval lies within 1 ± {100 * EQUIVALENCE:.0f} %")
    seen = ("p < 0.001" if p < 0.001 else f"p = {p:.2g}") + _corrected(table)
    needed = 1 - VERDICT_CONFIDENCE
    if p > needed:
        return Verdict(SpeedVerdict.AMBIGUOUS, f"this may be chance: {seen}, and a verdict needs {needed:.2g} or less")
    if found.decisive * math.log(ratio.value) <= 0:
        return Verdict(SpeedVerdict.AMBIGUOUS, "later rounds contradict the difference that earlier ones showed")
    return Verdict(SpeedVerdict.FASTER if found.decisive > 0 else SpeedVerdict.SLOWER, seen)


def _corrected(table: int) -> str:
    return f" (corrected for {table} comparisons)" if table > 1 else ""


def _levels(side: Samples) -> list[float]:
    return [math.log(median(samples)) for samples in side]


def _log_ratio(a: Sequence[float], b: Sequence[float], paired: bool) -> LogRatio:
    """The difference of the mean log levels of two sides."""
    if not a or not b:
        raise ValueError("a side has no processes")
    if paired:
        if len(a) != len(b):
            raise ValueError(f"paired sides must have the same number of rounds, not {len(a)} and {len(b)}")
        value, squared = _mean([x - y for x, y in zip(a, b)])
        return LogRatio(value, math.sqrt(squared), len(a) - 1)
    first, second = _mean(a), _mean(b)
    if min(len(a), len(b)) < 2 or not math.isfinite(first[1] + second[1]):
        return LogRatio(first[0] - second[0], math.inf, 0)
    found = total([Variance(first[1], len(a) - 1), Variance(second[1], len(b) - 1)])
    return LogRatio(first[0] - second[0], math.sqrt(found.value), found.freedom)


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its squared standard error, which is infinite for a single value."""
    return fmean(values), variance(values) / len(values) if len(values) > 1 else math.inf
