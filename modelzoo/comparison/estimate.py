"""The ratio of two stored measurements, and the verdicts of a table of them. The unit is the day (``days``).

Sides that were stored did not run in the same rounds, so their ratio contains what changed between their sessions. On
one machine the reference load removes a part of it (``results.adjustment``). What remains is a variance between
sessions, which comes from the sides' own sessions on different days, from what the machine keeps of others, or from an
assumption.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.comparison.levels import (
    LEAST_OWN,
    OF_LATENCIES,
    Histories,
    Known,
    SessionLevels,
    can_adjust,
    interval,
    known,
    log_ratio,
    machine_of,
    session_levels,
)
from modelzoo.comparison.model import Basis, Estimate, Metric, Side, SideLevel, SideSetting, Spread
from modelzoo.records.run import Result
from modelzoo.results.adjustment import Fit, fit
from modelzoo.stats import LogRatio, Outcome, Variance

FEW_PROCESSES = 6
"""With fewer processes on a side, their own spread is not trusted alone."""


class Context(msgspec.Struct, frozen=True):
    """What the estimates of one comparison have in common; see ``context``.

    Attributes:
        same_machine: whether both sides ran on one machine.
        fit: how latencies follow the reference load, fitted to both sides; ``None`` if they cannot be adjusted.
        histories: of the machines.
        compared: when the sessions that are compared began.
        assumed: standard deviation of the log levels of sessions if nothing is known.
    """

    same_machine: bool
    fit: Optional[Fit]
    histories: Histories
    compared: frozenset[str]
    assumed: float


def context(base: Side, other: Side, *, same_machine: bool, histories: Histories, assumed: float) -> Context:
    """Prepare what the estimates of a comparison have in common.

    Args:
        base: the baseline.
        other: the other side.
        same_machine: whether both ran on one machine. Only then can the reference load make their latencies alike.
        histories: what the machines keep of their sessions; those that are compared are left out.
        assumed: standard deviation of the log levels of sessions if nothing is known, see ``ASSUMED_SPREAD``.
    """
    results = [stored.result for stored in (*base.results, *other.results)]
    common = fit(results) if same_machine and len(set(map(_load, results))) == 1 else None
    return Context(same_machine, common, histories, frozenset(result.created for result in results), assumed)


def estimate(base: SideSetting, other: SideSetting, metric: Metric, common: Context) -> Optional[Estimate]:
    """Estimate how many times better the other side is; ``None`` if a side has no values of this metric.

    The level of a session is the geometric mean of its processes' values, that of a day the geometric mean of its
    sessions, and that of a side the geometric mean of its days. The log ratio of two sides has the sum of their
    variances, with Satterthwaite's degrees of freedom (``stats.total``). The variance of a side of k days is

    - with at least ``LEAST_OWN`` days, that of its days' levels, divided by k;
    - s² / k, where s² is the variance between the machine's earlier sessions (``basis.known``), but never less than
      what the side's own processes say;
    - if neither is known, the assumed variance divided by k, plus what the side's own processes say.

    If the first two are known, the one counts that makes the interval of the ratio wider: a few days may happen to be
    alike, and a machine may have become less steady than it was.

    A side of fewer than ``FEW_PROCESSES`` processes does not know how much its processes differ. Their variance then
    is at least that of earlier sessions, or else the assumed one, and it is added in all three cases.

    On one machine adjusted levels are compared if the reference load predicts both sides' latencies; the error of the
    slope is added, times the distance of the sides' mean log loads. If only the raw levels of earlier sessions are
    known, raw levels are compared, rather than to assume something.
    """
    sides = base, other
    fits = [common.fit] if can_adjust(sides, metric, common.fit) else []
    found = [_estimate(sides, metric, common, each) for each in (*fits, None)]
    return next((each for each in found if each is not None and each.basis is not Basis.ASSUMED), found[0])


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


class _Contribution(msgspec.Struct, frozen=True):
    """How much the sessions of one side differ, and what that makes of its variance.

    Attributes:
        spread: how much they differ.
        main: what the sessions contribute to the variance of the side's mean.
        added: what its processes contribute besides.
        of_history: whether ``main`` is what the machine's history says, and not what the side's processes say.
    """

    spread: Spread
    main: Variance
    added: tuple[Variance, ...]
    of_history: bool = False


def _estimate(
    sides: tuple[SideSetting, SideSetting], metric: Metric, common: Context, used: Optional[Fit]
) -> Optional[Estimate]:
    """The estimate with adjusted levels if ``used`` is given, else with raw ones."""
    base, other = (session_levels(side, metric, used) for side in sides)
    if base is None or other is None:
        return None
    found = [
        _spreads(levels, _known(side, metric, common, used), common.assumed)
        for side, levels in zip(sides, (base, other))
    ]
    of_slope: list[Variance] = []
    if used is not None and base.load is not None and other.load is not None:
        of_slope = [Variance((used.slope_error * (other.load - base.load)) ** 2, used.freedom - 1)]
    value = log_ratio(*sides, metric, other.mean - base.mean)
    own_first, history_first = tuple(each[0] for each in found), tuple(each[-1] for each in found)
    choices = [
        (_ratio(value, [*_main(spreads, common), *spreads[0].added, *spreads[1].added, *of_slope]), spreads)
        for spreads in (own_first, history_first)
    ]
    ratio, spreads = max(choices, key=lambda choice: choice[0].half_width(stats.VERDICT_CONFIDENCE))
    return Estimate(
        base=_side_level(base),
        other=_side_level(other),
        ratio=ratio.interval(),
        p_value=ratio.p_value,
        spreads=tuple(each.spread for each in spreads),
        error=ratio.error,
        freedom=ratio.freedom,
    )


def _known(side: SideSetting, metric: Metric, common: Context, used: Optional[Fit]) -> Optional[Known]:
    """What the earlier sessions of the side's machine say; machines only keep latencies."""
    if metric not in OF_LATENCIES:
        return None
    history = common.histories.besides(machine_of(side), common.compared)
    return known(side, history, used.control.slope if used is not None else None)


def _spreads(levels: SessionLevels, past: Optional[Known], assumed: float) -> list[_Contribution]:
    """How much the sessions of a side differ: by its own, by earlier ones, or if neither says so by assumption."""
    count = levels.day_count
    guess = Variance(assumed**2, math.inf)
    processes = levels.between_processes()
    floor = past.processes if past is not None else guess
    few = levels.process_count < FEW_PROCESSES
    if few or processes.freedom < 1:
        processes = max(processes, floor, key=_value)
    within = processes.times(levels.share_of_a_process())
    added = (within,) if few else ()
    noise = math.sqrt(processes.value) if few else None
    found = []

    def spread(basis: Basis, variance: Variance) -> Spread:
        earlier = past.earlier if past is not None and basis is Basis.HISTORY else None
        return Spread(basis, math.sqrt(variance.value), levels.session_count, count, earlier, noise)

    if count >= LEAST_OWN:
        main = levels.of_days()
        found.append(_Contribution(spread(Basis.SESSIONS, main.times(count)), main, added))
    if past is not None:
        main = past.sessions.times(1 / count)
        of_history = few or main.value >= within.value
        main = main if of_history else within
        found.append(_Contribution(spread(Basis.HISTORY, past.sessions), main, added, of_history))
    if not found:
        found.append(_Contribution(spread(Basis.ASSUMED, guess), guess.times(1 / count), (within,)))
    return found


def _ratio(value: float, variances: Sequence[Variance]) -> LogRatio:
    whole = stats.total(variances)
    return LogRatio(value, math.sqrt(whole.value), whole.freedom)


def _main(spreads: Sequence[_Contribution], common: Context) -> list[Variance]:
    """What the sessions contribute.

    The history of one machine gives one estimate for both sides: two that are made of the same sessions do not have
    more degrees of freedom than one.
    """
    found = [each.main for each in spreads]
    if common.same_machine and all(each.of_history for each in spreads):
        return [Variance(sum(each.value for each in found), min(each.freedom for each in found))]
    return found


def _value(variance: Variance) -> float:
    return variance.value


def _side_level(levels: SessionLevels) -> SideLevel:
    return SideLevel(interval(levels), levels.session_count, levels.process_count, levels.load is not None)


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


def _load(result: Result) -> tuple[str, frozenset[int], frozenset[int]]:
    """What tells reference loads apart: their name, or else their versions and the threads of the settings.

    The load has as many threads as most of the settings; results that do not hold its name are from a version that
    did not record it.
    """
    versions = frozenset(turn.version for run in result.runs for turn in run.reference)
    threads = frozenset(run.report.setting.threads for run in result.runs if run.report is not None)
    load = result.latency.reference_load
    return load, versions, frozenset() if load else threads
