"""The levels of a side's sessions and days in a metric, as logs, and which sessions are of one day. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timezone
from statistics import fmean, median, variance
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.comparison.model import Metric, SideSetting
from modelzoo.records.run import Run
from modelzoo.records.timing import FIRST_TOKEN, PER_TOKEN
from modelzoo.stats import Variance

STARTS = {Metric.COLD_START: False, Metric.WARM_START: True}
"""Metrics of the first answer, and whether its compiled code came from a cache; code that is not cached counts for
both."""
TOKENS = {Metric.FIRST_TOKEN: FIRST_TOKEN, Metric.PER_TOKEN: PER_TOKEN}
"""Metrics of generations, and the series that hold their values."""
LEAST_DAYS = 3
"""Days from which on the variance of a side's own sessions says how much sessions differ."""
APART = 12 * 3600.0
"""Sessions that begin within this many seconds of a day's first session are of that day.

What slows down a machine for an hour or a day (neighbours on a shared server, temperature, what the kernel has cached)
slows down all sessions of that time together: their spread is too small, however many they are. So the sessions of one
call, or of one hour, count as one, unless the call has pauses of this length. With half a day, a session each night is
of a day of its own, and one each morning and each evening too."""


def days(created: Sequence[str]) -> tuple[int, ...]:
    """Return the number of the day of each session, from 0 in the order of time.

    Days are not those of the calendar: a session at 23:55 and one at 0:05 are of one day, see ``APART``.

    Args:
        created: when each session began, ISO 8601; UTC unless it says otherwise. If one of them is not a time, all
            sessions are of one day, because nothing shows that they are not.

    >>> days(["2026-05-01T23:55:00", "2026-05-02T00:05:00", "2026-05-02T23:55:00"])
    (0, 0, 1)
    """
    try:
        begins = [_seconds(each) for each in created]
    except ValueError:
        return (0,) * len(created)
    found, first, day = [0] * len(begins), -float("inf"), -1
    for index in sorted(range(len(begins)), key=begins.__getitem__):
        if begins[index] - first >= APART:
            first, day = begins[index], day + 1
        found[index] = day
    return tuple(found)


def _seconds(iso: str) -> float:
    """Seconds since the Unix epoch."""
    moment = datetime.fromisoformat(iso)
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


class SessionLevels(msgspec.Struct, frozen=True):
    """The level of one setting in each session of a side.

    Attributes:
        processes: per session, the log of each process's value in the metric's unit; sessions without any are left out.
        days: the day of each of these sessions, see ``days``.
    """

    processes: tuple[tuple[float, ...], ...]
    days: tuple[int, ...]

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
        if freedom < LEAST_DAYS - 1:
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


def session_levels(side: SideSetting, metric: Metric) -> Optional[SessionLevels]:
    """Return the levels of ``side``; ``None`` if it has no values of this metric.

    Args:
        side: one workload under one setting.
        metric: the values are seconds of one forward batch, items per second, seconds to the first answer or token,
            seconds per token, or bytes.
    """
    found = [
        (tuple(_value(run, metric) for run in runs if _has_value(run, metric)), result.created)
        for runs, result in zip(side.sessions, side.results)
    ]
    measured = [(processes, created) for processes, created in found if processes]
    if not measured:
        return None
    processes, created = zip(*measured)
    return SessionLevels(processes, days(created))


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
    own = found.of_days() if found.day_count >= LEAST_DAYS else found.within_days()
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


def _value(run: Run, metric: Metric) -> float:
    report = run.report
    assert report is not None and report.timing is not None  # it has samples
    if metric in STARTS:
        assert report.first_answer is not None  # it has a value
        return math.log(report.first_answer)
    if metric in TOKENS:
        return math.log(median(report.timing.values(TOKENS[metric])))
    if metric is Metric.MEMORY:
        return math.log(report.peak_memory)
    latency = math.log(median(run.steady))
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
