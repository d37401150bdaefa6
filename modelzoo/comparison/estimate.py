"""What a comparison of stored results is made of: its sides and rows, the level of a side, and the ratio of two. Pure.

The unit is the day (``days``). Sides that were stored did not run in the same rounds, so their ratio contains what
changed between their sessions: a variance that comes from the sides' own sessions on different days, or from an
assumption.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from statistics import fmean, median, variance

import msgspec

from modelzoo import stats
from modelzoo.records.run import Result, Run, moment
from modelzoo.records.timing import FIRST_TOKEN, PER_TOKEN
from modelzoo.results.refusals import Metric, NotTimed, Obstacle, Pair, Refusal, SideSetting
from modelzoo.results.speed import Speed
from modelzoo.stats import Basis, Doubt, LogRatio, Spread, Variance


class StoredResult(msgspec.Struct, frozen=True):
    """A result with the path that it was read from."""

    path: str
    result: Result


class Side(msgspec.Struct, frozen=True):
    """One side of a comparison: the sessions that were measured in the same way on one machine.

    Attributes:
        name: how the output calls it: the name that was given, or that of its file or directory.
        results: oldest first; each is a session.
        judged: results of ``modelzoo validate`` alone, which say whether the predictions are right.
    """

    name: str
    results: tuple[StoredResult, ...]
    judged: tuple[StoredResult, ...] = ()


class Row(msgspec.Struct, frozen=True):
    """One workload and setting of both sides.

    Attributes:
        workload: the workload's name.
        label: the baseline's setting.
        other_label: the other side's; it differs only if the two were paired on purpose.
        base: the baseline's runs; ``None`` if it does not have this setting.
        other: the other side's.
        base_value: the baseline's level in the metric's unit with its own interval, also if the sides cannot be
            compared; ``None`` if it has none.
        other_value: the other side's.
        speed: how many times better the other side is; why the sides are not comparable, or what was let through.
        alone: the same of these sessions alone, without what changes between days; ``None`` unless all of them are of
            one day.
    """

    workload: str
    label: str
    other_label: str
    base: SideSetting | None
    other: SideSetting | None
    base_value: stats.Interval | None
    other_value: stats.Interval | None
    speed: Speed
    alone: Speed | None = None

    @property
    def outcome(self) -> stats.Outcome:
        """The verdict, corrected for all comparable rows."""
        return self.speed.verdict.outcome

    @property
    def ratio(self) -> stats.Interval | None:
        """How many times better the other side is; ``None`` if the two cannot be compared."""
        return self.speed.ratio

    @property
    def setting(self) -> str:
        """The setting, or both sides' if they were paired on purpose; no two rows of a workload have the same."""
        return self.label if self.label == self.other_label else f"{self.label} → {self.other_label}"

    @property
    def name(self) -> str:
        """``bert fp32``."""
        return f"{self.workload} {self.setting}"


STARTS = {Metric.COLD_START: False, Metric.WARM_START: True}
"""Metrics of the first answer, and whether its compiled code came from a cache; code that is not cached counts for
both."""
TOKENS = {Metric.FIRST_TOKEN: FIRST_TOKEN, Metric.PER_TOKEN: PER_TOKEN}
"""Metrics of generations, and the series that hold their values."""
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
LEAST_ALONE = 4
"""Processes of each side without which nothing is said of its sessions alone. If processes run at one of two levels,
each as often, those of both sides are all alike and yet differ in 2 · 2⁻⁸ = 0.8 % of comparisons of 4 and 4 processes,
and in 3 % of 3 and 3."""
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
    begins = [begin for each in created if (begin := moment(each)) is not None]
    if len(begins) < len(created):
        return (0,) * len(created)
    found, first, day = [0] * len(begins), -float("inf"), -1
    for index in sorted(range(len(begins)), key=begins.__getitem__):
        if begins[index] - first >= APART:
            first, day = begins[index], day + 1
        found[index] = day
    return tuple(found)


class Level(msgspec.Struct, frozen=True):
    """The level of one setting of a side.

    Attributes:
        interval: in the metric's unit: over days from ``LEAST_DAYS`` on, else within its days.
        mean: its log: the mean of the days, a day being the mean of its sessions and a session that of its processes.
        variances: what the variance of ``mean`` is the sum of, in a comparison with another side.
        own: its variance if it is to hold for these days (or sessions, or processes) alone.
        processes: their number.
        spread: how much days differ, and where that comes from.
    """

    interval: stats.Interval
    mean: float
    variances: tuple[Variance, ...]
    own: Variance
    processes: int
    spread: Spread


def level(side: SideSetting, metric: Metric, assumed: float = ASSUMED_SPREAD) -> Level | None:
    """Return the level of ``side``; ``None`` if it has no values of this metric.

    The variance of the mean of k days is

    - with at least ``LEAST_DAYS`` days, that of the days' levels, divided by k;
    - with fewer, the assumed variance divided by k, plus what the side's own processes say.

    A side of fewer than ``FEW_PROCESSES`` processes does not know how much its processes differ. Their variance then is
    at least the assumed one, and it is added in both cases.

    Args:
        side: one workload under one setting.
        metric: the values are seconds of one forward batch, items per second, seconds to the first answer or token,
            seconds per token, or bytes. Of instances, a round, for which all of them are started, is a process.
        assumed: standard deviation of the log levels of days if the side has too few of them.
    """
    measured = []
    for runs, result, served in zip_longest(side.sessions, side.results, side.served):
        values = [value for run in runs if (value := _value(run, metric)) is not None]
        if served is not None and metric is Metric.THROUGHPUT:
            values = [math.log(rate) for rate in served.rates]
        if values:
            measured.append((values, result.created))
    if not measured:
        return None
    sessions, created = zip(*measured)
    numbers = days(created)
    by_day = [[each for each, of in zip(sessions, numbers) if of == day] for day in sorted(set(numbers))]
    count, levels = len(by_day), [fmean(map(fmean, each)) for each in by_day]
    of_days = Variance(variance(levels) / count if count > 1 else 0.0, count - 1)
    between = _pooled([[fmean(session) for session in each] for each in by_day])
    processes = _pooled(sessions)
    # Of the mean: (Σ (Σ 1 / n) / s²) / d² for d days of s sessions of n processes each.
    share = sum(sum(1 / len(each) for each in day) / len(day) ** 2 for day in by_day) / count**2
    if count >= LEAST_DAYS:
        own = of_days
    elif between.freedom >= LEAST_DAYS - 1:
        own = between.times(sum(1 / len(day) for day in by_day) / count**2)
    else:
        own = processes.times(share)
    mean = fmean(levels)
    interval = LogRatio(mean, math.sqrt(own.value), own.freedom).interval()
    number = sum(map(len, sessions))
    guess, few = Variance(assumed**2, math.inf), number < FEW_PROCESSES
    if few or processes.freedom < 1:
        processes = max(processes, guess, key=lambda each: each.value)
    within, noise = processes.times(share), math.sqrt(processes.value) if few else None
    if count >= LEAST_DAYS:
        spread = Spread(Basis.SESSIONS, math.sqrt(count * of_days.value), len(sessions), count, noise)
        return Level(interval, mean, (of_days, within) if few else (of_days,), own, number, spread)
    spread = Spread(Basis.ASSUMED, assumed, len(sessions), count, noise)
    return Level(interval, mean, (guess.times(1 / count), within), own, number, spread)


def _pooled(groups: Sequence[Sequence[float]]) -> Variance:
    """The variance within groups; no freedom if all have one value."""
    freedom = sum(len(each) - 1 for each in groups)
    squares = sum((len(each) - 1) * variance(each) for each in groups if len(each) > 1)
    return Variance(squares / freedom if freedom else 0.0, freedom)


def is_one_day(pair: Pair) -> bool:
    """Whether all sessions of both sides are of one day."""
    sides = (side for side in (pair.base, pair.other) if side is not None)
    return not any(days([result.created for side in sides for result in side.results]))


def ratio(
    pair: Pair, metric: Metric, assumed: float = ASSUMED_SPREAD, *, is_alone: bool = False
) -> stats.Ratio | Refusal | Doubt:
    """Estimate how many times better the other side is; refused if a side has no values of this metric.

    The log ratio of two sides has the sum of their variances, with Satterthwaite's degrees of freedom
    (``stats.total``). Latencies are compared per item, which makes a difference if the batch sizes differ.

    If the ratio is to hold for the sessions alone, nothing is assumed. The degrees of freedom then are the smaller ones
    of the two sides, with which the error is at most the nominal one whatever their variances, also with four processes
    (Mickey and Brown, "Bounds on the distribution functions of the Behrens-Fisher statistic", Annals of Mathematical
    Statistics 37, 1966).

    Args:
        pair: both sides.
        metric: what is compared.
        assumed: as for ``level``.
        is_alone: whether the ratio is that of these sessions, and not of other days, too.
    """
    base, other = pair.base, pair.other
    assert base is not None and other is not None  # otherwise it is refused
    mine, theirs = level(base, metric, assumed), level(other, metric, assumed)
    if mine is None or theirs is None:
        missing = tuple(side.side for side, found in ((base, mine), (other, theirs)) if found is None)
        return Refusal(Obstacle.MISSING, fact=NotTimed(missing, metric))
    whole = stats.total([*mine.variances, *theirs.variances])
    if is_alone:
        if min(mine.processes, theirs.processes) < LEAST_ALONE:
            return Doubt.FEW_PROCESSES
        whole = Variance(mine.own.value + theirs.own.value, min(mine.own.freedom, theirs.own.freedom))
    log = log_ratio(base, other, metric, theirs.mean - mine.mean)
    sessions = min(mine.spread.sessions, theirs.spread.sessions)
    return stats.ratio_of(LogRatio(log, math.sqrt(whole.value), whole.freedom), sessions, (mine.spread, theirs.spread))


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


def worse_by_more(found: Sequence[stats.Ratio], fraction: float) -> list[bool]:
    """Say of which rows it is certain that the other side is worse by more than ``fraction``.

    The hypotheses that it is not are tested together, with Holm's correction and at the confidence of verdicts.
    """
    p_values = [each.p_slower(fraction) for each in found]
    return [p <= stats.LARGEST_P for p in stats.holm(p_values)]


def mean_ratio(found: Sequence[stats.Ratio]) -> stats.Interval | None:
    """Return the geometric mean of the ratios with its interval; ``None`` without any.

    Rows share their sessions, so their errors are not independent. The interval is that of errors that are perfectly
    correlated, the widest possible: its log half width is the mean of the rows'.
    """
    if not found:
        return None
    value = stats.geometric_mean([each.interval.value for each in found])
    halves = [math.log(each.interval.high / each.interval.value) for each in found]
    return stats.scaled(value, sum(halves) / len(halves))


def _value(run: Run, metric: Metric) -> float | None:
    """The log of a process's value; ``None`` if it has none. Only processes that were timed count, for all metrics."""
    report = run.report
    if report is None or report.timing is None or not run.steady:
        return None
    value: float | None = median(run.steady)
    if metric in STARTS:
        libraries = report.compiled_libraries
        value = report.first_answer if libraries is None or (libraries == 0) is STARTS[metric] else None
    elif metric in TOKENS:
        times = report.timing.values(TOKENS[metric])
        value = median(times) if times else None
    elif metric is Metric.MEMORY:
        value = report.peak_memory
    elif metric is Metric.THROUGHPUT:  # what it answers in a second follows from the mean
        value = report.setting.batch / fmean(run.steady)
    return math.log(value) if value else None


def skewness(side: SideSetting) -> float:
    """Mean ÷ median of the latencies: the geometric mean of the processes."""
    timed = [run.steady for runs in side.sessions for run in runs if run.steady]
    return math.exp(fmean(math.log(fmean(samples) / median(samples)) for samples in timed))


def _batch(side: SideSetting) -> int:
    """Items of a forward batch of the side's processes that were timed."""
    return next(run.report.setting.batch for runs in side.sessions for run in runs if run.steady and run.report)
