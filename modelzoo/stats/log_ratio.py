"""The log of a ratio with its standard error, and the sum of variances that are known unequally well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from modelzoo.stats.distribution import student_t, two_sided_p
from modelzoo.stats.intervals import CONFIDENCE, Interval, scaled


@dataclass(frozen=True)
class Variance:
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


@dataclass(frozen=True)
class LogRatio:
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
        return scaled(value, self.half_width(confidence))

    def half_width(self, confidence: float = CONFIDENCE) -> float:
        """Half of the width of the interval of the log ratio; infinite below one degree of freedom."""
        return student_t((1 + confidence) / 2, self.freedom) * self.error if self.freedom >= 1 else math.inf


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
