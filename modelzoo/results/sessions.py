"""What sessions show: the level of each setting, which sessions are of one day, and how much they differ. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from statistics import fmean, median, stdev, variance
from typing import Optional

import msgspec

from modelzoo import stats
from modelzoo.records.codec import encode, encode_json
from modelzoo.records.history import MachineNoise, SessionLevel, WorkloadNoise
from modelzoo.records.machine import quiet_limit
from modelzoo.records.run import Result, Run, RunReport
from modelzoo.results.adjustment import Adjustment, adjustments, is_paired, pair, reference_seconds
from modelzoo.results.speed import seconds_per_round
from modelzoo.results.summary import labels_as_run

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


LEAST_PROCESSES = 3
"""A setting with fewer processes says nothing about how they differ, and is not kept."""


def session_levels(result: Result) -> tuple[SessionLevel, ...]:
    """Return what is worth keeping of ``result``: one entry per setting that was timed in enough processes.

    Nothing is kept if other programs were busy: that would not be this machine's speed.

    Args:
        result: of a session that has ended by itself.
    """
    if _was_busy(result.runs):
        return ()
    labels, groups = labels_as_run(result), result.groups()
    workloads = [requested.workload for requested in result.requested]
    levels = []
    for group, runs in groups.items():
        timed = [run for run in runs if run.steady]
        report = timed[0].report if timed else None
        # The variance within processes needs two samples of one of them.
        if report is None or len(timed) < LEAST_PROCESSES or max(len(run.steady) for run in timed) < 2:
            continue
        components = stats.components([run.steady for run in timed])
        sampled = fmean(sum(run.steady) for run in timed)
        reference = reference_seconds(timed)
        first = workloads.index(report.workload)
        level = SessionLevel(
            created=result.created,
            workload=report.workload,
            label=labels[group],
            key=work_key(report),
            level=stats.geometric_mean([median(run.steady) for run in timed]),
            processes=len(timed),
            sampled=sampled,
            between=components.between,
            tau2=components.tau2,
            cost=max(0.0, _seconds_per_process(result, report.workload) - sampled),
            ratio_spread=_ratio_spread(groups.get(first, []), timed) if group != first else None,
            reference=reference,
            reference_load=result.latency.reference_load if reference is not None else "",
            sums=_sums(timed),
        )
        levels.append(level)
    return tuple(levels)


def priors(levels: Sequence[SessionLevel]) -> Mapping[str, stats.Components]:
    """Return the variances to expect of each workload: the means over its settings and sessions."""
    found: dict[str, list[stats.Components]] = {}
    for level in levels:
        found.setdefault(level.workload, []).append(stats.Components(level.between, level.tau2))
    return {workload: stats.pooled(each) for workload, each in found.items()}


def _sums(runs: Sequence[Run]) -> Optional[stats.Sums]:
    """How the latency of a setting followed the reference load."""
    pairs = [pair(run) for run in runs if is_paired(run)]
    return stats.sums([pairs]) if pairs else None


def _was_busy(runs: Sequence[Run]) -> bool:
    used = [(each.usage, each.provenance.machine.threads.affinity) for each in (run.report for run in runs) if each]
    excess = [
        usage.other_cores - quiet_limit(cpus, usage.resolution)
        for usage, cpus in used
        if usage is not None and usage.other_cores is not None
    ]
    return bool(excess) and median(excess) > 0


def _seconds_per_process(result: Result, workload: str) -> float:
    """Wall time of a process of ``workload``, with its share of what its round waits for."""
    runs = [run for run in result.runs if run.workload == workload]
    return seconds_per_round(runs) / len({run.group for run in runs})


def _ratio_spread(baseline: Sequence[Run], runs: Sequence[Run]) -> Optional[float]:
    """Standard deviation of the log ratios of the rounds that have both settings; ``None`` if there are too few."""
    other = {run.round: median(run.steady) for run in baseline if run.steady}
    ratios = [math.log(other[run.round] / median(run.steady)) for run in runs if run.round in other]
    return stdev(ratios) if len(ratios) > 1 else None


def work_key(report: RunReport) -> str:
    """Return what is equal for all runs of the same work by the same software, see ``SessionLevel.key``."""
    setting, weights, inputs = encode(report.setting), report.prepared.weights.sha256, report.inputs_digest
    # Not where an interpreter lies: the versions say what it runs.
    setting.pop("python", None)
    setting.pop("engine", None)  # the report names it
    for name in ("image", "primitive_cache", "stages"):
        if setting.get(name) is None or setting[name] is False:  # as in the keys of versions that did not have it
            setting.pop(name, None)
    work = (
        report.workload,
        report.provenance.engine,
        setting,
        weights,
        report.provenance.digest,
        inputs,
        sorted(report.provenance.versions.items()),
    )
    import hashlib  # loads OpenSSL, which most views do not need

    return hashlib.sha256(encode_json(work)).hexdigest()[:16]


class SessionsRow(msgspec.Struct, frozen=True):
    """One workload under one setting, over several sessions.

    Attributes:
        workload: the workload's name.
        label: label of the setting as it was run.
        sessions: number of sessions in which it was timed.
        level: seconds of one forward batch: the geometric mean of the sessions' levels, with Student's t interval
            over sessions. A level is the geometric mean of a session's process medians.
        spread: standard deviation of the sessions' log levels; ``None`` with fewer than two.
        adjusted_spread: the same of the levels at one and the same reference speed; ``None`` if they were not adjusted.
    """

    workload: str
    label: str
    sessions: int
    level: stats.Interval
    spread: Optional[float]
    adjusted_spread: Optional[float]


class SessionsSummary(msgspec.Struct, frozen=True):
    """What several sessions of one call say together.

    Attributes:
        sessions: their number.
        rows: in the order asked for; a setting that was never timed has none.
        adjustment: of the first session that was not adjusted, if there is one; else of the first one.
    """

    sessions: int
    rows: tuple[SessionsRow, ...]
    adjustment: Adjustment


def over_sessions(results: Sequence[Result]) -> SessionsSummary:
    """Summarise the complete sessions of one call.

    The levels are adjusted together, with one slope and to one reference speed, so that they can be compared.

    Args:
        results: of the sessions, at least one; all of them asked for the same.
    """
    found, labels = adjustments(results), labels_as_run(results[0])
    levels: dict[int, list[float]] = {}
    adjusted: dict[int, list[float]] = {}
    for result, adjustment in zip(results, found):
        for group, runs in result.groups().items():
            medians = [median(run.steady) for run in runs if run.steady]
            if medians:
                levels.setdefault(group, []).append(stats.geometric_mean(medians))
            if group in adjustment.latencies:
                adjusted.setdefault(group, []).append(adjustment.latencies[group].value)
    rows = []
    for group, each in sorted(levels.items()):
        same = adjusted.get(group, [])
        spread = _spread(same) if len(same) == len(each) else None
        workload = results[0].requested[group].workload
        rows.append(SessionsRow(workload, labels[group], len(each), stats.level_interval(each), _spread(each), spread))
    refused = next((each for each in found if each.refused is not None), found[0])
    return SessionsSummary(len(results), tuple(rows), refused)


def _spread(levels: Sequence[float]) -> Optional[float]:
    return stdev(map(math.log, levels)) if len(levels) > 1 else None


LEAST_SESSIONS = 3
"""Sessions, each on another day, that it takes to say how much sessions differ."""
OUTLOOK_SECONDS = 300.0
"""The time for which the smallest difference is given."""


class SessionSpread(msgspec.Struct, frozen=True):
    """How much sessions that did the same differ.

    Attributes:
        value: standard deviation of the log values, pooled over what was repeated.
        sessions: number of sessions that it comes from, each on another day.
        freedom: its degrees of freedom.
    """

    value: float
    sessions: int
    freedom: int


def machine_noise(levels: Sequence[SessionLevel]) -> Optional[MachineNoise]:
    """Return the noise of the machine on which these levels were measured; ``None`` if there are none."""
    if not levels:
        return None
    by_workload: dict[str, list[SessionLevel]] = {}
    for level in levels:
        by_workload.setdefault(level.workload, []).append(level)
    created = sorted({level.created for level in levels})
    reference = _pooled(
        (level.reference_load, level.created, level.reference) for level in levels if level.reference is not None
    )
    return MachineNoise(
        sessions=len(created),
        first=created[0],
        last=created[-1],
        reference_spread=reference.value if reference is not None else None,
        workloads=tuple(_workload_noise(name, each) for name, each in sorted(by_workload.items())),
    )


def session_spread(levels: Sequence[SessionLevel]) -> Optional[SessionSpread]:
    """Return how much the levels of sessions differ that ran the same work; ``None`` if none ran on three days.

    This is what a user sees who repeats a session on another day: it contains the error of each session's level.
    """
    return _pooled((level.key, level.created, level.level) for level in levels)


def _workload_noise(workload: str, levels: Sequence[SessionLevel]) -> WorkloadNoise:
    components = stats.pooled([stats.Components(level.between, level.tau2) for level in levels])
    between_sessions = session_spread(levels)
    return WorkloadNoise(
        workload=workload,
        sessions=len({level.created for level in levels}),
        between_processes=math.sqrt(components.between),
        within_process=math.sqrt(components.tau2),  # of one second
        between_sessions=between_sessions.value if between_sessions is not None else None,
        repeated=between_sessions.sessions if between_sessions is not None else 0,
        detectable=_detectable(levels),
    )


def _detectable(levels: Sequence[SessionLevel]) -> Optional[float]:
    """The smallest difference between two settings that rounds of both show in ``OUTLOOK_SECONDS``."""
    squares = [level.ratio_spread**2 for level in levels if level.ratio_spread is not None]
    round_seconds = 2 * fmean(level.cost + level.sampled for level in levels)
    rounds = int(OUTLOOK_SECONDS / round_seconds)
    if not squares or rounds < 2:
        return None
    return stats.detectable(math.sqrt(fmean(squares)), rounds, stats.LARGEST_P)


def _pooled(values: Iterable[tuple[Hashable, str, float]]) -> Optional[SessionSpread]:
    """Pool the spread of everything that was repeated often enough.

    Args:
        values: what was repeated, in which session, and the value that was seen. Several values of a session count as
            one, their median; of the sessions of a day, the first one counts.
    """
    found: dict[Hashable, dict[str, list[float]]] = {}
    for repeated, session, value in values:
        found.setdefault(repeated, {}).setdefault(session, []).append(value)
    enough = [each for each in map(_first_of_each_day, found.values()) if len(each) >= LEAST_SESSIONS]
    if not enough:
        return None
    logs = [[math.log(median(seen)) for seen in each.values()] for each in enough]
    freedom = sum(len(each) - 1 for each in logs)
    squares = sum(variance(each) * (len(each) - 1) for each in logs)
    sessions = {session for each in enough for session in each}
    return SessionSpread(math.sqrt(squares / freedom), len(sessions), freedom)


def _first_of_each_day(sessions: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """What the first session of each day showed. With the others of a day, its variance would be too small."""
    found: dict[int, tuple[str, list[float]]] = {}
    ordered = sorted(sessions.items())
    for day, session in zip(days([created for created, _ in ordered]), ordered):
        found.setdefault(day, session)
    return dict(found.values())
