"""A control variate: what a reference load beside the workload says about the speed of the machine.

If the machine slows down, the reference load slows down with the workload. The part of the workload's log latency that
the load predicts is subtracted (Lavenberg and Welch, "A perspective on the use of control variables to increase the
efficiency of Monte Carlo simulations", Management Science 27, 1981). The slope comes from the pooled data of many
settings and is shrunk towards an earlier one, because a slope from a few points adds more error than it removes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

USE_FROM = 0.5
"""A reference load that correlates less than this with the latency is not used. At 0.5 it removes 13 % of the standard
deviation, 1 - sqrt(1 - 0.5²)."""


@dataclass(frozen=True)
class Control:
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


def fit_control(
    groups: Sequence[Sequence[tuple[float, float]]], prior_slope: float = 1.0, prior_weight: float = 0.0
) -> Control:
    """Fit one slope to the pairs of several settings.

    Each group is centred on its own means, so the level of a setting does not matter. The slope is the least-squares
    one of all centred pairs, averaged with the prior by degrees of freedom.

    Args:
        groups: per setting, pairs of the log latency and the log time of the reference load, one per block or process.
        prior_slope: an earlier slope; 1 stands for a load that slows down as much as the workload does.
        prior_weight: the degrees of freedom that it counts for.
    """
    centred = [pair for group in groups for pair in _centred(group)]
    freedom = sum(len(group) - 1 for group in groups if group)
    both = sum(latency * load for latency, load in centred)
    of_latency = sum(latency * latency for latency, _ in centred)
    of_load = sum(load * load for _, load in centred)
    if not of_load:
        return Control(prior_slope, 0.0, len(centred))
    own = both / of_load
    slope = (freedom * own + prior_weight * prior_slope) / (freedom + prior_weight)
    correlation = both / math.sqrt(of_latency * of_load) if of_latency else 0.0
    return Control(slope, correlation, len(centred))


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
