"""Which of several equal hosts is odd. Pure statistics of log levels.

A host is compared with the others of its kind by the externally studentized residual (Cook and Weisberg, "Residuals and
Influence in Regression", 1982, section 2.2.2): its level less the mean of the others, divided by the standard error
that the others show, s · √(1 + 1 / (k − 1)) for k hosts. s is the standard deviation of the other hosts' levels, k − 2
degrees of freedom. It contains everything by which sessions on equal hosts differ: processes, moments, machines. The
earlier sessions of one machine show nearly the same, so what they say is pooled with it, if it is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Optional

from modelzoo.stats import VERDICT_CONFIDENCE, Interval, LogRatio, Variance, holm

LEAST_HOSTS = 3
"""With two hosts, neither is the odd one."""


@dataclass(frozen=True)
class Standing:
    """One host against the others, in one setting or in the mean over all.

    Attributes:
        ratio: its latency ÷ the geometric mean of the others', with its 95 % interval.
        p_value: corrected for all hosts and settings.
        odd: whether it is significantly slower or faster.
    """

    ratio: Interval
    p_value: float
    odd: bool


def standings(levels: Sequence[Sequence[float]], known: Optional[Variance] = None) -> list[list[Standing]]:
    """Compare each host with the others: in the mean over all settings, and in each setting.

    The first finds what slows a host as a whole, the second what concerns one setting. The p-values of each are
    corrected by Holm's method for all hosts, or all hosts and settings, and doubled because there are two such tables;
    so all verdicts hold together.

    Args:
        levels: log seconds by host and setting; every host has all settings.
        known: variance of a host's level as earlier sessions show it, if that is known.

    Returns:
        one list per host: the mean over the settings first, then each setting. With one setting there is only the
        mean.

    Raises:
        ValueError: fewer than three hosts.
    """
    if len(levels) < LEAST_HOSTS:
        raise ValueError(f"{len(levels)} hosts cannot be told apart")
    means = [[fmean(each)] for each in levels]
    tables = [means] if len(levels[0]) == 1 else [means, [list(each) for each in levels]]
    found: list[list[Standing]] = [[] for _ in levels]
    for table in tables:
        ratios = [[_against_others(column, host, known) for column in zip(*table)] for host in range(len(table))]
        corrected = iter(holm([each.p_value for row in ratios for each in row]))
        for standing, row in zip(found, ratios):
            for each in row:
                p_value = min(1.0, len(tables) * next(corrected))
                standing.append(Standing(each.interval(), p_value, p_value <= 1 - VERDICT_CONFIDENCE))
    return found


def _against_others(column: Sequence[float], host: int, known: Optional[Variance]) -> LogRatio:
    others = [level for index, level in enumerate(column) if index != host]
    spread = pooled(others, known)
    error = math.sqrt(spread.value * (1 + 1 / len(others)))
    return LogRatio(column[host] - fmean(others), error, spread.freedom)


def pooled(levels: Sequence[float], known: Optional[Variance]) -> Variance:
    """Return the variance of a host's level: that of ``levels``, pooled with the known one by degrees of freedom."""
    own = Variance(variance(levels), len(levels) - 1)
    if known is None or known.freedom <= 0:
        return own
    if math.isinf(known.freedom):
        return known
    freedom = own.freedom + known.freedom
    return Variance((own.value * own.freedom + known.value * known.freedom) / freedom, freedom)
