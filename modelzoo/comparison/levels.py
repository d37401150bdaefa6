"""The levels of a side's sessions in a metric, and how much the sessions of its machine differ. All values are logs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean, median, variance
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.comparison.model import Metric, SideSetting
from modelzoo.frozen import replace
from modelzoo.records.history import EarlierSessions, HistoryScope, SessionLevel
from modelzoo.records.machine import Machine, fingerprint
from modelzoo.records.run import Result, Run, RunReport
from modelzoo.records.timing import FIRST_TOKEN, PER_TOKEN
from modelzoo.results.adjustment import Fit, is_paired, pair
from modelzoo.results.sessions import days, session_spread, work_key
from modelzoo.stats import Variance

OF_LATENCIES = (Metric.LATENCY, Metric.THROUGHPUT)
"""Metrics that are made of the steady samples; only these follow the reference load, and a machine keeps only these."""
STARTS = {Metric.COLD_START: False, Metric.WARM_START: True}
"""Metrics of the first answer, and whether its compiled code came from a cache; code that is not cached counts for
both."""
TOKENS = {Metric.FIRST_TOKEN: FIRST_TOKEN, Metric.PER_TOKEN: PER_TOKEN}
"""Metrics of generations, and the series that hold their values."""
LEAST_OWN = 3
"""Days from which on the variance of a side's own sessions says how much sessions differ."""


class SessionLevels(msgspec.Struct, frozen=True):
    """The level of one setting in each session of a side.

    Attributes:
        processes: per session, the log of each process's value in the metric's unit; sessions without any are left out.
        days: the day of each of these sessions, see ``results.sessions.days``.
        load: mean log time of the reference load beside them; ``None`` if the values are not adjusted.
    """

    processes: tuple[tuple[float, ...], ...]
    days: tuple[int, ...]
    load: Optional[float] = None

    @property
    def by_day(self) -> list[list[tuple[float, ...]]]:
        """The processes of each session of each day."""
        return [[each for each, of in zip(self.processes, self.days) if of == day] for day in sorted(set(self.days))]

    @property
    def levels(self) -> list[float]:
        """The mean of each day's sessions, a session being the mean of its processes."""
        return [fmean(map(fmean, sessions)) for sessions in self.by_day]

    @property
    def mean(self) -> float:
        """The mean of the days' levels."""
        return fmean(self.levels)

    @property
    def session_count(self) -> int:
        """Number of sessions."""
        return len(self.processes)

    @property
    def day_count(self) -> int:
        """Number of days on which there were sessions."""
        return len(set(self.days))

    @property
    def process_count(self) -> int:
        """Number of processes of all sessions."""
        return sum(map(len, self.processes))

    def of_days(self) -> Variance:
        """The variance of ``mean`` as the days' own levels show it; there must be two of them."""
        return Variance(variance(self.levels) / len(self.levels), len(self.levels) - 1)

    def within_days(self) -> Variance:
        """The variance of ``mean`` if each day has one level: as sessions of the same days show it, if their variance
        has two degrees of freedom (three sessions of one day), else as their processes show it."""
        freedom = self.session_count - self.day_count
        if freedom < LEAST_OWN - 1:
            return self.between_processes().times(self.share_of_a_process())
        levels = [[fmean(session) for session in sessions] for sessions in self.by_day]
        squares = sum(variance(each) * (len(each) - 1) for each in levels if len(each) > 1)
        return Variance(squares / freedom, freedom).times(sum(1 / len(each) for each in levels) / len(levels) ** 2)

    def between_processes(self) -> Variance:
        """The variance between processes of one session, pooled over sessions; no freedom if all had one process."""
        freedom = sum(len(each) - 1 for each in self.processes)
        squares = sum((len(each) - 1) * variance(each) for each in self.processes if len(each) > 1)
        return Variance(squares / freedom if freedom else 0.0, freedom)

    def share_of_a_process(self) -> float:
        """What the variance between processes is multiplied by to get that of ``mean`` within its sessions.

        (Σ (Σ 1 / n) / s²) / d² for d days of s sessions of n processes each.
        """
        days = self.by_day
        return sum(sum(1 / len(each) for each in sessions) / len(sessions) ** 2 for sessions in days) / len(days) ** 2


def session_levels(side: SideSetting, metric: Metric, fit: Optional[Fit] = None) -> Optional[SessionLevels]:
    """Return the levels of ``side``; ``None`` if it has no values of this metric.

    Args:
        side: one workload under one setting.
        metric: the values are seconds of one forward batch, items per second, seconds to the first answer or token,
            seconds per token, or bytes.
        fit: how the latencies follow the reference load, to adjust them. All timed processes must be paired with it,
            see ``can_adjust``.
    """
    found = [
        (tuple(_value(run, metric, fit) for run in runs if _has_value(run, metric)), result.created)
        for runs, result in zip(side.sessions, side.results)
    ]
    measured = [(processes, created) for processes, created in found if processes]
    if not measured:
        return None
    processes, created = zip(*measured)
    load = fmean(pair(run)[1] for runs in side.sessions for run in runs if run.steady) if fit is not None else None
    return SessionLevels(processes, days(created), load)


def can_adjust(sides: Sequence[SideSetting], metric: Metric, fit: Optional[Fit]) -> bool:
    """Whether all processes of these sides have a reference load beside them which predicts this metric."""
    if fit is None or metric not in OF_LATENCIES:
        return False
    timed = [run for side in sides for runs in side.sessions for run in runs if run.steady]
    return all(fit.adjusts(side.workload) for side in sides) and all(map(is_paired, timed))


def log_ratio(base: SideSetting, other: SideSetting, metric: Metric, difference: float) -> float:
    """Return the log of how many times better the other side is.

    Latencies are compared per item, which makes a difference if the batch sizes differ.

    Args:
        base: the baseline.
        other: the other side.
        metric: what is compared.
        difference: log value of the other side less that of the baseline.
    """
    if metric is Metric.THROUGHPUT:
        return difference
    per_item = math.log(_batch(other) / _batch(base)) if metric is Metric.LATENCY else 0.0
    return per_item - difference


def interval(found: SessionLevels) -> stats.Interval:
    """The level of a side: over days from three of them on, else within its days."""
    own = found.of_days() if found.day_count >= LEAST_OWN else found.within_days()
    return stats.LogRatio(found.mean, math.sqrt(own.value), own.freedom).interval()


def _has_value(run: Run, metric: Metric) -> bool:
    """Only processes that were timed count, for all metrics."""
    report = run.report
    if report is None or report.timing is None or not run.steady:
        return False
    if metric in STARTS:
        libraries = report.compiled_libraries
        return bool(report.first_answer) and (libraries is None or (libraries == 0) is STARTS[metric])
    if metric in TOKENS:
        return bool(report.timing.values(TOKENS[metric]))
    return metric is not Metric.MEMORY or report.peak_memory > 0


def _value(run: Run, metric: Metric, fit: Optional[Fit]) -> float:
    report = run.report
    assert report is not None and report.timing is not None  # it has samples
    if metric in STARTS:
        assert report.first_answer is not None  # it has a value
        return math.log(report.first_answer)
    if metric in TOKENS:
        return math.log(median(report.timing.values(TOKENS[metric])))
    if metric is Metric.MEMORY:
        return math.log(report.peak_memory)
    latency = fit.adjusted(run) if fit is not None else math.log(median(run.steady))
    if metric is Metric.LATENCY:
        return latency
    return math.log(report.setting.batch) - latency - _skewness(run)


def _skewness(run: Run) -> float:
    """Log of mean ÷ median of a process's latencies: what it answers in a second follows from the mean."""
    return math.log(fmean(run.steady) / median(run.steady))


def skewness(side: SideSetting) -> float:
    """Mean ÷ median of the latencies: the geometric mean of the processes."""
    return math.exp(fmean(_skewness(run) for runs in side.sessions for run in runs if run.steady))


def _batch(side: SideSetting) -> int:
    """Items of a forward batch of the side's processes that were timed."""
    return next(run.report.setting.batch for runs in side.sessions for run in runs if run.steady and run.report)


ASSUMED_SPREAD = 0.10
"""Standard deviation of the log levels of sessions, if nothing is known of a machine.

It is more than the suite's own recordings show: on a virtual machine with 2 vCPUs of a shared server, sessions of one
setting differed by 2.4 to 8.7 % (benchmarks/precision.py --rows between). Over three months, an application benchmark
in a public cloud varied by less than 3.7 % (Henning et al., "When should I run my application benchmark?", FSE
Companion 2025); microbenchmarks vary by 0.03 % to over 100 %, depending on the benchmark and on the type of instance
(Laaber, Scheuner and Leitner, "Software microbenchmarking in the cloud. How bad is it really?", Empirical Software
Engineering 24, 2019). So no assumption is safe for every machine, and verdicts that rest on it are marked. A factor of
two is told from none even in a table of eight rows; 5 % are not even alone."""
LEAST_STORED = 5
"""Sessions on different days that a machine must have kept, besides those that are compared."""


class Histories(msgspec.Struct, frozen=True):
    """What machines keep of their sessions, by the machines' fingerprints."""

    by_machine: Mapping[str, Sequence[SessionLevel]] = msgspec.field(default_factory=dict)

    def besides(self, machine: str, compared: Collection[str]) -> tuple[SessionLevel, ...]:
        """The sessions of a machine without those that are compared, by when they began."""
        return tuple(level for level in self.by_machine.get(machine, ()) if level.created not in compared)


def read_histories(results: Iterable[Result]) -> Histories:
    """Read what is kept here of the machines on which ``results`` were measured."""
    machines = {fingerprint(report.provenance.machine): report.provenance.machine for report in _reports(results)}
    return Histories({name: _history(machine) for name, machine in machines.items()})


class Known(msgspec.Struct, frozen=True):
    """What a machine's earlier sessions say.

    Attributes:
        sessions: variance of the log level of one session.
        processes: variance of the log value of one process.
        earlier: the first as a standard deviation, and what it comes from.
    """

    sessions: Variance
    processes: Variance
    earlier: EarlierSessions


def known(side: SideSetting, history: Sequence[SessionLevel], slope: Optional[float] = None) -> Optional[Known]:
    """Return what a machine's earlier sessions say; ``None`` if there are not enough.

    Sessions count if they are of different days (``sessions.session_spread``). Those of the same work by the same
    software are used if there are at least ``LEAST_STORED``; else those of
    the workload in all settings, and else all of the machine's, each work about its own mean. A session that is slow is
    slow in all of its settings, so the degrees of freedom are never more than the sessions less one.

    Args:
        side: one workload under one setting.
        history: levels of sessions that are not compared.
        slope: how the log latency follows the reference load, if adjusted levels are compared. The earlier levels are
            adjusted by the same slope: each session's own would add the differences of the slopes.
    """
    levels = history if slope is None else [_adjusted(each, slope) for each in history if each.reference]
    key = next((work_key(run.report) for runs in side.sessions for run in runs if run.report is not None), "")
    for scope, found in (
        (HistoryScope.SAME_WORK, [level for level in levels if level.key.split()[0] == key]),
        (HistoryScope.WORKLOAD, [level for level in levels if level.workload == side.workload]),
        (HistoryScope.EVERYTHING, levels),
    ):
        spread = session_spread(found)
        if spread is not None and spread.sessions >= LEAST_STORED:
            freedom = min(spread.freedom, spread.sessions - 1)
            earlier = EarlierSessions(spread.value, spread.sessions, scope, side.workload)
            return Known(Variance(spread.value**2, freedom), _between_processes(found), earlier)
    return None


def machine_of(side: SideSetting) -> str:
    """The fingerprint of the machine of a side; empty if nothing was measured."""
    return next((fingerprint(report.provenance.machine) for report in _reports(side.results)), "")


def _between_processes(levels: Sequence[SessionLevel]) -> Variance:
    """The mean variance of a process's log median."""
    value = fmean(level.between + level.tau2 / level.sampled for level in levels if level.sampled)
    return Variance(value, sum(level.processes - 1 for level in levels))


def _adjusted(level: SessionLevel, slope: float) -> SessionLevel:
    """The level at one speed of the load, which is that of other sessions with the same load."""
    assert level.reference is not None
    return replace(level, level=level.level * level.reference**-slope, key=f"{level.key} {level.reference_load}")


def _reports(results: Iterable[Result]) -> Iterable[RunReport]:
    return (run.report for result in results for run in result.runs if run.report is not None)


def _history(machine: Machine) -> tuple[SessionLevel, ...]:
    # Imported here, for it takes longer than to compare two results, whose machines mostly have no history.
    from modelzoo.machine.history import history_path, read_history

    return read_history(history_path(machine))
