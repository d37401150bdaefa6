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
Levels = Sequence[Optional[float]]
"""Log seconds by setting, or by host; ``None`` if it was not timed."""


@dataclass(frozen=True)
class HostRatio:
    """One host against the others, in one setting or in the mean over all.

    Attributes:
        ratio: its latency ÷ the geometric mean of the others', with its 95 % interval.
        p_value: corrected for all hosts and settings.
        odd: whether it is significantly slower or faster.
    """

    ratio: Interval
    p_value: float
    odd: bool


def host_ratios(levels: Sequence[Levels], known: Optional[Variance] = None) -> list[list[Optional[HostRatio]]]:
    """Compare each host with the others: in the mean over all settings, and in each setting.

    The first finds what slows a host as a whole, the second what concerns one setting. The p-values of each are
    corrected by Holm's method for all hosts, or all hosts and settings, and doubled because there are two such tables;
    so all verdicts hold together. The mean is over the settings that all hosts have. In each setting, the hosts that
    have it are compared if there are at least three.

    Args:
        levels: by host and setting.
        known: variance of a host's level as earlier sessions show it, if that is known.

    Returns:
        one list per host: the mean over the settings first, then each setting; ``None`` if it was not compared. With
        one setting there is only the mean.

    Raises:
        ValueError: fewer than three hosts.
    """
    if len(levels) < LEAST_HOSTS:
        raise ValueError(f"{len(levels)} hosts cannot be told apart")
    settings: list[Levels] = list(zip(*levels))
    whole = [number for number, column in enumerate(settings) if None not in column]
    means = [_mean([row[number] for number in whole]) for row in levels]
    tables: list[Sequence[Levels]] = [[means]] if len(settings) == 1 else [[means], settings]
    compared = [[_compared(column, known) for column in table] for table in tables]
    corrections = sum(any(each is not None for column in table for each in column) for table in compared)
    found: list[list[Optional[HostRatio]]] = [[] for _ in levels]
    for table in compared:
        p_values = iter(holm([each.p_value for column in table for each in column if each is not None]))
        for column in table:
            for row, each in zip(found, column):
                row.append(None if each is None else _host_ratio(each, min(1.0, corrections * next(p_values))))
    return found


def _mean(levels: Levels) -> Optional[float]:
    known = [level for level in levels if level is not None]
    return fmean(known) if known else None


def _host_ratio(ratio: LogRatio, p_value: float) -> HostRatio:
    return HostRatio(ratio.interval(), p_value, p_value <= 1 - VERDICT_CONFIDENCE)


def _compared(column: Levels, known: Optional[Variance]) -> list[Optional[LogRatio]]:
    """Each host that has a level against the others that have one."""
    timed = [(host, level) for host, level in enumerate(column) if level is not None]
    found: list[Optional[LogRatio]] = [None] * len(column)
    if len(timed) >= LEAST_HOSTS:
        for position, (host, _) in enumerate(timed):
            found[host] = _against_others([level for _, level in timed], position, known)
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
