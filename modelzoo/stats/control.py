"""A control variate: what a reference load beside the workload says about the speed of the machine.

If the machine slows down, the reference load slows down with the workload. The part of the workload's log latency that
the load predicts is subtracted (Lavenberg and Welch, "A perspective on the use of control variables to increase the
efficiency of Monte Carlo simulations", Management Science 27, 1981). The slope comes from the pooled data of many
settings and is shrunk towards an earlier one, because a slope from a few points adds more error than it removes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import msgspec

from modelzoo.frozen import replace

USE_FROM = 0.5
"""A reference load that correlates less than this with the latency is not used. At 0.5 it removes 13 % of the standard
deviation, 1 - sqrt(1 - 0.5²)."""


class Sums(msgspec.Struct, frozen=True):
    """Sums of squares and products of log latencies and log times of the calibration workload.

    Each setting of each session is centred on its own means, so that neither its level nor that of the session matters,
    and the sums of several settings and sessions can be added.

    Attributes:
        pairs: number of pairs of a latency and a time of the load.
        freedom: degrees of freedom: pairs less settings, those of each session counted.
        latency: sum of the squares of the log latencies.
        load: sum of the squares of the load's log times.
        product: sum of the products of both.
    """

    pairs: int = 0
    freedom: int = 0
    latency: float = 0.0
    load: float = 0.0
    product: float = 0.0

    def plus(self, other: Sums) -> Sums:
        """Return the sums over the data of both."""
        return Sums(
            self.pairs + other.pairs,
            self.freedom + other.freedom,
            self.latency + other.latency,
            self.load + other.load,
            self.product + other.product,
        )

    def with_prior(self, others: Sums, weight: float) -> Sums:
        """Return these sums with those of ``others`` as prior data.

        Prior information counts as so much more data (Gelman et al., "Bayesian Data Analysis", 3rd edition, section
        14.8). The data of the others is scaled to the variance of the load that these sums have.

        Args:
            others: of what is likely to be similar.
            weight: the degrees of freedom that they count for at most.
        """
        if not others.load:
            return self
        variance = self.load / self.freedom if self.freedom else others.load / others.freedom
        factor = min(weight, others.freedom) * variance / others.load
        return replace(
            self,
            latency=self.latency + factor * others.latency,
            load=self.load + factor * others.load,
            product=self.product + factor * others.product,
        )

    def explained(self, slope: float) -> float:
        """The share of the variance of the log latency that adjusting with ``slope`` takes out; negative if it adds.

        With the slope that fits best it is the square of the correlation.
        """
        return slope * (2 * self.product - slope * self.load) / self.latency if self.latency else 0.0

    @property
    def correlation(self) -> float:
        """Of the log latency and the load's log time; 0 if one of them never changes."""
        squared = self.latency * self.load
        return max(-1.0, min(1.0, self.product / math.sqrt(squared))) if squared else 0.0

    @property
    def is_possible(self) -> bool:
        """Whether these can be sums of squares and products, up to rounding."""
        bound = self.latency * self.load
        return min(self.pairs, self.freedom, self.latency, self.load) >= 0 and self.product**2 <= bound * (1 + 1e-9)

    def control(self, prior_slope: float = 1.0, prior_weight: float = 0.0) -> Control:
        """Fit one slope: the least-squares one, averaged with the prior by degrees of freedom.

        Args:
            prior_slope: an earlier slope; 1 stands for a load that slows down as much as the workload does.
            prior_weight: the degrees of freedom that it counts for.
        """
        if not self.load:
            return Control(prior_slope, 0.0, self.pairs)
        own = self.product / self.load
        slope = (self.freedom * own + prior_weight * prior_slope) / (self.freedom + prior_weight)
        return Control(slope, self.correlation, self.pairs)


class Control(msgspec.Struct, frozen=True):
    """How the latency follows the reference load.

    Attributes:
        slope: change of the log latency per change of the load's log time.
        correlation: of the two, within settings.
        blocks: number of pairs that this comes from.
    """

    slope: float
    correlation: float
    blocks: int

    @property
    def is_used(self) -> bool:
        """Whether the load predicts enough to be used."""
        return self.correlation >= USE_FROM


def sums(groups: Sequence[Sequence[tuple[float, float]]]) -> Sums:
    """Return the sums over several settings.

    Args:
        groups: per setting, pairs of the log latency and the log time of the reference load, one per block or process.
    """
    centred = [pair for group in groups for pair in _centred(group)]
    return Sums(
        pairs=len(centred),
        freedom=sum(len(group) - 1 for group in groups if group),
        latency=sum(latency * latency for latency, _ in centred),
        load=sum(load * load for _, load in centred),
        product=sum(latency * load for latency, load in centred),
    )


def fit_control(
    groups: Sequence[Sequence[tuple[float, float]]], prior_slope: float = 1.0, prior_weight: float = 0.0
) -> Control:
    """Fit one slope to the pairs of several settings, see ``sums`` and ``Sums.control``."""
    return sums(groups).control(prior_slope, prior_weight)


def adjusted(log_latency: float, log_reference: float, slope: float, log_reference_speed: float) -> float:
    """Return the log latency that the machine would have shown at its reference speed.

    Args:
        log_latency: as measured.
        log_reference: log time of the reference load meanwhile.
        slope: see ``Control``.
        log_reference_speed: log time of the load at the machine's reference speed.
    """
    return log_latency - slope * (log_reference - log_reference_speed)


def _centred(group: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    if not group:
        return []
    latency, load = (fmean(values) for values in zip(*group))
    return [(x - latency, y - load) for x, y in group]
