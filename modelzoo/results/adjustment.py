"""Adjusted latencies: what the settings would have taken at this machine's reference speed. Pure.

Between the turns of the workers a reference load runs. A process that ran while the machine was slow has a slow
reference load beside it, and the part of its latency that the load predicts is taken out (``stats.control``). The slope
comes from all processes of the result together and from those of earlier sessions on this machine, each setting about
its own mean, and is shrunk towards 1: a machine that is 5 % slower makes everything 5 % slower.

A workload is left out if this slope would take out less than a quarter of the variance of its latency: in recorded
sessions that is Mask R-CNN, which spends much of its time on page faults (benchmarks/adjusting.py). Its own processes
of one session are too few to decide that. Of workloads with a correlation of 0.7, 14 degrees of freedom (two settings
in 8 processes each) would leave out 18 %. So those of earlier sessions count in the same way, and the other workloads
count as prior data, which leaves out 7 % in the first session on a machine and 3 % in the third.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import reduce
from statistics import fmean, median
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.records.run import Result, Run

PRIOR_SLOPE = 1.0
PRIOR_WEIGHT = 8.0
"""The slope before anything is measured, and the degrees of freedom that it counts for."""
FREEDOM = 12
"""Degrees of freedom, processes less settings, that it takes to say whether the load predicts anything. If it does not,
a correlation of 0.5 or more still comes about in 4 % of such results, and in 25 % of results with 3 degrees of freedom
(r sqrt(f - 1) / sqrt(1 - r²) is Student's t with f - 1 degrees of freedom); in up to 10 % if something that the load
does not feel slows down all settings of a round together."""

OTHERS_WEIGHT = 4.0
"""The degrees of freedom for which the other workloads count in deciding whether a workload is left out. With 8, Mask
R-CNN is adjusted in 2 of 3 recorded sessions, which makes one of its intervals twice as wide; with none, SSD, which
follows the load (correlation of 0.92 over all sessions), is left out in a session in which it does not by chance."""
LEAST_EXPLAINED = stats.USE_FROM**2
"""An adjustment that takes out less of the variance than this share is not made; see ``stats.Sums.explained``."""

Pairs = Mapping[int, Sequence[tuple[float, float]]]
"""Per group, the log latency of each process and the log time of the reference load beside it."""


class Unadjusted(Enum):
    """Why latencies are not adjusted: no load ran, too few processes did, or the load does not predict anything."""

    NO_LOAD = "no load"
    FEW_PROCESSES = "few processes"
    UNPREDICTED = "unpredicted"


def adjustment(result: Result) -> Adjustment:
    """Adjust the latencies of all groups of ``result``, or say why they are not.

    The first session on a machine has no reference speed to go by but its own.
    """
    return adjustments([result], result.latency.reference_seconds)[0]


def adjustments(results: Sequence[Result], reference: Optional[float] = None) -> list[Adjustment]:
    """Adjust the sessions of one call together: with one slope, and to one reference speed.

    Args:
        results: of sessions on one machine.
        reference: the load's time at the machine's reference speed; by default the median over all processes.
    """
    found = fit(results, reference)
    made = [Adjustment() if found is None else _adjusted(result, found) for result in results]
    return [
        replace(each, without_load=_without_load(result), narrow_load=result.latency.narrow_load)
        for each, result in zip(made, results)
    ]


def _without_load(result: Result) -> int:
    return sum(1 for run in result.runs if run.steady and not run.reference) if result.latency.reference_load else 0


class Fit(msgspec.Struct, frozen=True):
    """How the latencies of several results follow the reference load.

    Attributes:
        control: slope and correlation, of all settings together that are not left out, earlier sessions included.
        freedom: degrees of freedom of the slope: processes less settings, each session's counted on its own.
        speed: log time of the load at the reference speed.
        left_out: workloads whose latency the load does not predict, if others remain.
        has_earlier: whether earlier sessions of these workloads count.
    """

    control: stats.Control
    freedom: int
    speed: float
    left_out: tuple[str, ...]
    has_earlier: bool = False

    @property
    def refused(self) -> Optional[Unadjusted]:
        """Why latencies are not adjusted; ``None`` if they are."""
        if self.freedom < FREEDOM:
            return Unadjusted.FEW_PROCESSES
        return None if self.control.is_used else Unadjusted.UNPREDICTED

    def adjusts(self, workload: str) -> bool:
        """Whether the latencies of ``workload`` are adjusted."""
        return not self.refused and workload not in self.left_out

    def adjusted(self, run: Run) -> float:
        """The log latency of a process beside which the load ran, at the reference speed."""
        latency, load = pair(run)
        return stats.adjusted(latency, load, self.control.slope, self.speed)

    def interval(self, pairs: Sequence[tuple[float, float]]) -> stats.Interval:
        """The level at the reference speed of processes with these log latencies and log times of the load."""
        return adjusted_interval(pairs, self.control, self.freedom, self.speed)

    @property
    def slope_error(self) -> float:
        """The slope's standard error, its prior included."""
        return _slope_error(self.control, self.freedom)


class Adjustment(msgspec.Struct, frozen=True):
    """What the reference load says about a result.

    Attributes:
        fit: how the latencies follow the load; ``None`` if no processes of the result have a reference load.
        spread: how far the machine's speed moved: the largest over the smallest time of the load, of all rounds,
            less 1.
        latencies: the adjusted latency of each group, in seconds, with its interval.
        without_load: how many timed processes ran without the reference load, because it had ended.
        narrow_load: the threads of the reference load, if it did not run because they are too few.
    """

    fit: Optional[Fit] = None
    spread: Optional[float] = None
    latencies: Mapping[int, stats.Interval] = msgspec.field(default_factory=dict)
    without_load: int = 0
    narrow_load: Optional[int] = None

    @property
    def refused(self) -> Optional[Unadjusted]:
        """Why latencies are not adjusted; ``None`` if they are."""
        return self.fit.refused if self.fit is not None else Unadjusted.NO_LOAD

    @property
    def left_out(self) -> tuple[str, ...]:
        """Workloads whose latency the load does not predict, so that theirs are not adjusted."""
        return self.fit.left_out if self.fit is not None else ()


def fit(results: Sequence[Result], reference: Optional[float] = None) -> Optional[Fit]:
    """Fit one slope to the processes of ``results``; ``None`` if no reference load ran.

    What sessions before the first of these showed counts, too (``Latency.load_evidence``).

    Args:
        results: of sessions on one machine, with the same load. They may have run different settings.
        reference: as for ``adjustments``.
    """
    groups = [(result.requested[group].workload, each) for result in results for group, each in _pairs(result).items()]
    loads = [load for _, each in groups for _, load in each]
    if not loads:
        return None
    first = min(results, key=lambda result: result.created)  # the others have counted its processes as earlier ones
    earlier = {each.workload: each.sums for each in first.latency.load_evidence}
    return fit_groups(groups, math.log(reference) if reference is not None else median(loads), earlier)


def fit_groups(
    groups: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    speed: float,
    earlier: Optional[Mapping[str, stats.Sums]] = None,
) -> Fit:
    """Fit one slope to the processes of several settings and sessions.

    Args:
        groups: for each setting of each session its workload, and per process the log latency and the log time of the
            load; at least one.
        speed: log time of the load at the reference speed.
        earlier: by workload, the sums of earlier sessions. Those of workloads without a group do not count.
    """
    known = earlier or {}
    sums = {workload: known.get(workload, stats.Sums()) for workload, _ in groups}
    for workload, each in groups:
        sums[workload] = sums[workload].plus(stats.sums([each]))
    left_out = _unpredicted(sums)
    total = _total(each for workload, each in sums.items() if workload not in left_out)
    control = total.control(PRIOR_SLOPE, PRIOR_WEIGHT)
    return Fit(control, total.freedom, speed, left_out, bool(set(known) & set(sums)))


def _unpredicted(sums: Mapping[str, stats.Sums]) -> tuple[str, ...]:
    """The workloads whose latency the load does not predict, if others remain."""
    slope = _total(sums.values()).control(PRIOR_SLOPE, PRIOR_WEIGHT).slope
    found = []
    for workload, own in sums.items():
        others = _total(each for other, each in sums.items() if other != workload)
        if own.with_prior(others, OTHERS_WEIGHT).explained(slope) < LEAST_EXPLAINED:
            found.append(workload)
    return tuple(found) if len(found) < len(sums) else ()


def _total(sums: Iterable[stats.Sums]) -> stats.Sums:
    return reduce(stats.Sums.plus, sums, stats.Sums())


def _adjusted(result: Result, found: Fit) -> Adjustment:
    """Adjust one of the results that ``found`` comes from."""
    groups = _pairs(result)
    own = [load for each in groups.values() for _, load in each]
    if not own:
        return Adjustment()
    workloads = {group: result.requested[group].workload for group in groups}
    latencies = {group: found.interval(each) for group, each in groups.items() if found.adjusts(workloads[group])}
    return Adjustment(found, math.expm1(max(own) - min(own)), latencies)


def reference_seconds(runs: Sequence[Run]) -> Optional[float]:
    """The time of the reference load beside these processes, their geometric mean; ``None`` if it did not run."""
    loads = [_load(run) for run in runs if is_paired(run)]
    return stats.geometric_mean(loads) if loads else None


def _pairs(result: Result) -> Pairs:
    found = {group: [pair(run) for run in runs if is_paired(run)] for group, runs in result.groups().items()}
    return {group: each for group, each in found.items() if each}


def is_paired(run: Run) -> bool:
    """Whether the process was timed and has a reference load beside it."""
    return bool(run.steady and run.reference)


def pair(run: Run) -> tuple[float, float]:
    """The log latency of a process that is paired, and the log time of the reference load beside it."""
    return math.log(median(run.steady)), math.log(_load(run))


def _load(run: Run) -> float:
    """The time of the reference load while this process and the others of its round sampled."""
    return median(turn.seconds for turn in run.reference)


def adjusted_interval(
    pairs: Sequence[tuple[float, float]], control: stats.Control, freedom: int, speed: float
) -> stats.Interval:
    """The level of the adjusted processes, with an interval that has two parts.

    One is Student's t on the adjusted log medians. The other is the error of the slope times the distance from this
    session's load to the reference speed, as for a point on a line of regression that is far from its centre (Draper
    and Smith, "Applied Regression Analysis", section 3.1).
    """
    level = stats.level_interval([math.exp(stats.adjusted(x, load, control.slope, speed)) for x, load in pairs])
    distance = fmean(load for _, load in pairs) - speed
    of_level = math.log(level.high / level.value)
    of_slope = stats.student_t((1 + stats.CONFIDENCE) / 2, freedom - 1) * _slope_error(control, freedom) * distance
    half = math.hypot(of_level, of_slope)
    return stats.Interval(level.value, level.value * math.exp(-half), level.value * math.exp(half))


def _slope_error(control: stats.Control, freedom: int) -> float:
    """How far the slope is likely to be from the true one: its standard error, and what the prior has moved it by.

    The standard error is the slope divided by the t statistic of the correlation, which is the same as its. If the
    true slope is not that of the prior, the prior moves it away from the truth, by about as much as it moves it away
    from the least-squares slope.
    """
    r = control.correlation
    error = abs(control.slope) * math.sqrt(max(0.0, 1 - r * r) / (freedom - 1)) / r
    return math.hypot(error, PRIOR_WEIGHT / freedom * (control.slope - PRIOR_SLOPE))
