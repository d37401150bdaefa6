"""The ratio of two stored measurements, and the verdicts of a table of them. The unit is the day (``days``).

Sides that were stored did not run in the same rounds, so their ratio contains what changed between their sessions: a
variance that comes from the sides' own sessions on different days, or from an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from modelzoo import stats
from modelzoo.comparison.levels import LEAST_DAYS, SessionLevels, interval, log_ratio, session_levels
from modelzoo.comparison.model import Basis, Estimate, Metric, SideLevel, SideSetting, Spread
from modelzoo.stats import LogRatio, Outcome, Variance

FEW_PROCESSES = 6
"""With fewer processes on a side, their own spread is not trusted alone."""
ASSUMED_SPREAD = 0.10
"""Standard deviation of the log levels of days, if a side has fewer than three of them.

It is more than the suite's own recordings show: on a virtual machine with 2 vCPUs of a shared server, sessions of one
setting differed by 2.4 to 8.7 % (tests/data/timings). Over three months, an application benchmark
in a public cloud varied by less than 3.7 % (Henning et al., "When should I run my application benchmark?", FSE
Companion 2025); microbenchmarks vary by 0.03 % to over 100 %, depending on the benchmark and on the type of instance
(Laaber, Scheuner and Leitner, "Software microbenchmarking in the cloud. How bad is it really?", Empirical Software
Engineering 24, 2019). So no assumption is safe for every machine, and verdicts that rest on it are marked. A factor of
two is told from none even in a table of eight rows; 5 % are not even alone."""


def estimate(
    base: SideSetting, other: SideSetting, metric: Metric, assumed: float = ASSUMED_SPREAD
) -> Optional[Estimate]:
    """Estimate how many times better the other side is; ``None`` if a side has no values of this metric.

    The level of a session is the geometric mean of its processes' values, that of a day the geometric mean of its
    sessions, and that of a side the geometric mean of its days. The log ratio of two sides has the sum of their
    variances, with Satterthwaite's degrees of freedom (``stats.total``). The variance of a side of k days is

    - with at least ``LEAST_DAYS`` days, that of its days' levels, divided by k;
    - with fewer, the assumed variance divided by k, plus what the side's own processes say.

    A side of fewer than ``FEW_PROCESSES`` processes does not know how much its processes differ. Their variance then is
    at least the assumed one, and it is added in both cases.

    Args:
        base: the baseline.
        other: the other side.
        metric: what is compared.
        assumed: standard deviation of the log levels of days if a side has too few of them.
    """
    mine, theirs = session_levels(base, metric), session_levels(other, metric)
    if mine is None or theirs is None:
        return None
    spreads, variances = zip(*(_spread(levels, assumed) for levels in (mine, theirs)))
    whole = stats.total([each for side in variances for each in side])
    ratio = LogRatio(log_ratio(base, other, metric, theirs.mean - mine.mean), math.sqrt(whole.value), whole.freedom)
    return Estimate(
        base=_side_level(mine),
        other=_side_level(theirs),
        ratio=ratio.interval(),
        p_value=ratio.p_value,
        spreads=spreads,
        error=ratio.error,
        freedom=ratio.freedom,
    )


def _spread(levels: SessionLevels, assumed: float) -> tuple[Spread, list[Variance]]:
    """How much the days of a side differ, and what the variance of its mean is the sum of."""
    guess, processes = Variance(assumed**2, math.inf), levels.between_processes()
    few = levels.process_count < FEW_PROCESSES
    if few or processes.freedom < 1:
        processes = max(processes, guess, key=lambda each: each.value)
    within = processes.times(levels.share_of_a_process())
    days, noise = levels.day_count, math.sqrt(processes.value) if few else None
    if days >= LEAST_DAYS:
        main = levels.of_days()
        spread = Spread(Basis.SESSIONS, math.sqrt(days * main.value), levels.session_count, days, noise)
        return spread, [main, within] if few else [main]
    return Spread(Basis.ASSUMED, assumed, levels.session_count, days, noise), [guess.times(1 / days), within]


def outcomes(estimates: Sequence[Estimate], metric: Metric) -> list[tuple[Outcome, stats.Verdict]]:
    """Judge all comparable rows of a table together, with Holm's correction."""
    verdicts = stats.verdicts([_comparison(each) for each in estimates])
    return [(_outcome(verdict.outcome, metric), verdict) for verdict in verdicts]


def worse_by_more(estimates: Sequence[Estimate], fraction: float) -> list[bool]:
    """Say of which rows it is certain that the other side is worse by more than ``fraction``.

    The hypotheses that it is not are tested together, with Holm's correction and at the confidence of verdicts.
    """
    p_values = [stats.p_slower(_seen(each), fraction) for each in estimates]
    return [p <= stats.LARGEST_P for p in stats.holm(p_values)]


def mean_ratio(estimates: Sequence[Estimate]) -> Optional[stats.Interval]:
    """Return the geometric mean of the ratios with its interval; ``None`` without any.

    Rows share their sessions, so their errors are not independent. The interval is that of errors that are perfectly
    correlated, the widest possible: its log half width is the mean of the rows'.
    """
    if not estimates:
        return None
    value = stats.geometric_mean([each.ratio.value for each in estimates])
    halves = [math.log(each.ratio.high / each.ratio.value) for each in estimates]
    return stats.scaled(value, sum(halves) / len(halves))


def _side_level(levels: SessionLevels) -> SideLevel:
    return SideLevel(interval(levels), levels.session_count, levels.process_count)


def _comparison(found: Estimate) -> stats.Comparison:
    ratio = _as_log_ratio(found)
    sessions = min(found.base.sessions, found.other.sessions)
    outside = ratio.p_outside(*stats.SAME_WITHIN)
    return stats.Comparison(found.ratio, found.p_value, outside, ratio.value, None, sessions)


def _outcome(found: Outcome, metric: Metric) -> Outcome:
    """The verdict on times as one on ``metric``."""
    if metric is not Metric.MEMORY:
        return found
    return {Outcome.FASTER: Outcome.LESS, Outcome.SLOWER: Outcome.MORE}.get(found, found)


def _seen(found: Estimate) -> Sequence[stats.Seen]:
    return found.seen if found.seen is not None else (stats.Seen(_as_log_ratio(found), 1.0),)


def _as_log_ratio(found: Estimate) -> LogRatio:
    return LogRatio(math.log(found.ratio.value), found.error, found.freedom)
