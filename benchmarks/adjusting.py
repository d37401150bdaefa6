"""How much the reference load narrows intervals within a session, and the spread between sessions.

The adjustment is that of ``modelzoo.results.adjustment``, to the median speed of all recorded sessions. A slope that
was fitted to the same samples flatters it, so others are shown beside it: fitted to the other workloads, and to the
other sessions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Optional

from claims import Claim, percent, table
from recordings import Process, Recording, settings

from modelzoo import stats
from modelzoo.results.adjustment import Fit, fit_groups
from modelzoo.results.sessions import LEAST_PROCESSES

UNSTEADY = stats.EQUIVALENCE
"""A machine is called unsteady in a session if the standard deviation of the reference load's log times between
processes exceeds this; below it, differences do not matter elsewhere either."""
LEAST_SESSIONS = 3
WITHIN, STEADY, BETWEEN = 0.5, 1.05, 0.5
"""The goals: adjusted ÷ raw half width where the machine is unsteady, and where it is not; adjusted ÷ raw standard
deviation between sessions."""

Pair = tuple[float, float]
"""The log latency of a process and the log time of the reference load beside it."""
Key = tuple[str, str]
"""Workload and label."""
Groups = Mapping[Key, Sequence[Pair]]


def fit(sessions: Sequence[Groups], speed: float, earlier: Optional[Mapping[str, stats.Sums]] = None) -> Fit:
    """Fit one slope to sessions as the suite does, each setting of each session about its own mean.

    Args:
        sessions: what they measured.
        speed: log time of the load at the reference speed.
        earlier: by workload, what sessions before them showed.
    """
    groups = [(workload, group) for groups in sessions for (workload, _), group in groups.items()]
    return fit_groups(groups, speed, earlier)


def fit_processes(processes: Sequence[Process], speed: float, earlier: Sequence[Process] = ()) -> Fit:
    """Fit one slope to processes of several sessions; those of ``earlier`` sessions count as the suite counts them."""
    return fit(list(by_session(processes)), speed, evidence(earlier))


def by_session(processes: Sequence[Process]) -> Iterator[dict[Key, list[Pair]]]:
    """The pairs of each setting, session by session."""
    for number in sorted({each.session for each in processes}):
        yield grouped(each for each in processes if each.session == number)


def evidence(processes: Sequence[Process]) -> dict[str, stats.Sums]:
    """What the suite keeps of these sessions, by workload."""
    found: dict[str, stats.Sums] = {}
    for groups in by_session(processes):
        for (workload, _), group in groups.items():
            if len(group) >= LEAST_PROCESSES:
                found[workload] = found.get(workload, stats.Sums()).plus(stats.sums([group]))
    return found


def grouped(processes: Iterable[Process]) -> dict[Key, list[Pair]]:
    """The pairs of each setting that has a reference load."""
    found = {key: pairs(group) for key, group in settings(processes).items()}
    return {key: group for key, group in found.items() if group}


def pairs(processes: Iterable[Process]) -> list[Pair]:
    """The pairs of those processes that have a reference load."""
    return [(each.level, each.reference_level) for each in processes if each.reference_level is not None]


def median_speed(processes: Iterable[Process]) -> float:
    """The log of the reference load's time, median of all processes: the machine's usual speed."""
    return median(load for _, load in pairs(processes))


@dataclass(frozen=True)
class Gain:
    """Half widths of one setting in one session.

    Attributes:
        key: workload and label.
        unsteady: whether the machine was, in this session.
        raw: half width of the raw latency.
        suite: adjusted ÷ raw as in the suite, whose slope comes from this session and those before it; 1 if it would
            not be adjusted.
        workloads: the same with the slope of the other workloads of the session; ``None`` if there are none.
        sessions: the same with the slope of the other sessions; ``None`` if there are none.
        adjusted: whether the suite would adjust it.
    """

    key: Key
    unsteady: bool
    raw: float
    suite: float
    workloads: Optional[float]
    sessions: Optional[float]
    adjusted: bool


def gains(recording: Recording) -> list[Gain]:
    """Compare adjusted with raw half widths, for each setting and session with at least 3 processes."""
    timed = [each for each in recording.processes if each.reference]
    speed, found = median_speed(timed), []
    for session in range(len(recording.sessions)):
        own = [each for each in timed if each.session == session]
        if len(own) < LEAST_PROCESSES:
            continue
        unsteady = stdev([load for _, load in pairs(own)]) > UNSTEADY
        fitted = fit_processes(own, speed, [each for each in timed if each.session < session])
        others = [each for each in timed if each.session != session]
        for key, group in grouped(own).items():
            if len(group) < LEAST_PROCESSES:
                continue
            elsewhere = [each for each in own if each.workload != key[0]]
            raw = stats.level_interval([math.exp(level) for level, _ in group]).half_width
            adjusted = fitted.adjusts(key[0])
            suite = fitted.interval(group).half_width / raw if adjusted else 1.0
            by_workloads, by_sessions = (
                _outside(group, fit_processes(each, speed), raw, adjusted) if each else None
                for each in (elsewhere, others)
            )
            found.append(Gain(key, unsteady, raw, suite, by_workloads, by_sessions, adjusted))
    return found


def _outside(group: Sequence[Pair], other: Fit, raw: float, adjusted: bool) -> float:
    """Adjusted ÷ raw half width with the slope of other processes; 1 if they have none, or nothing is adjusted."""
    return other.interval(group).half_width / raw if adjusted and not other.refused else 1.0


def show_within(recording: Recording) -> list[Claim]:
    """Print half widths within sessions; return the claims."""
    found = gains(recording)
    rows, claims = [], []
    for key in dict.fromkeys(gain.key for gain in found):
        for unsteady in (True, False):
            group = [gain for gain in found if gain.key == key and gain.unsteady == unsteady]
            if group:
                rows.append(_within_row(group))
                claims.append(_within_claim(group))
    print("Half width of the adjusted latency ÷ that of the raw one, geometric mean of the sessions")
    print("(1 for a session in which the load does not predict the latency, so that it is not adjusted)")
    print("suite: as the suite would, which knows the earlier sessions; others: by processes that it is not applied to")
    header = (
        "setting",
        "machine",
        "sessions",
        "adjusted",
        "raw",
        "suite",
        "other workloads",
        "other sessions",
    )
    print(table(header, rows))
    return claims or [Claim("half widths: no session has a reference load and enough processes", None)]


def _within_row(group: Sequence[Gain]) -> tuple[str, ...]:
    return (
        " ".join(group[0].key),
        "unsteady" if group[0].unsteady else "steady",
        str(len(group)),
        str(sum(gain.adjusted for gain in group)),
        "±" + percent(stats.geometric_mean([gain.raw for gain in group])),
        _ratio([gain.suite for gain in group]),
        _ratio([gain.workloads for gain in group]),
        _ratio([gain.sessions for gain in group]),
    )


def _within_claim(group: Sequence[Gain]) -> Claim:
    """The goal must be reached out of sample, with the worse of the two slopes."""
    goal = WITHIN if group[0].unsteady else STEADY
    outside = [
        stats.geometric_mean(values)
        for values in (_known([gain.workloads for gain in group]), _known([gain.sessions for gain in group]))
        if values
    ]
    where = "unsteady" if group[0].unsteady else "steady"
    what = f"half width of {' '.join(group[0].key)}, machine {where}: adjusted ÷ raw at most {goal}, out of sample"
    return Claim(f"{what}: {max(outside):.2f}" if outside else what, max(outside) <= goal if outside else None)


def _known(values: Sequence[Optional[float]]) -> list[float]:
    return [value for value in values if value is not None]


def _ratio(values: Sequence[Optional[float]]) -> str:
    known = _known(values)
    return f"{stats.geometric_mean(known):.2f}" if known else "–"


def show_between(recording: Recording) -> list[Claim]:
    """Print the spread between sessions; return the claims.

    The slope is fitted within sessions, each setting about its own mean, so it knows nothing of how sessions differ.
    """
    timed = [each for each in recording.processes if each.reference]
    rows, claims = [], []
    for key, own in settings(timed).items():
        what = f"spread of {' '.join(key)} between sessions: adjusted ÷ raw at most {BETWEEN}"
        sessions = [pairs(each for each in own if each.session == n) for n in range(len(recording.sessions))]
        sessions = [group for group in sessions if len(group) >= LEAST_PROCESSES]
        if len(sessions) < LEAST_SESSIONS:
            claims.append(Claim(f"{what}: only {len(sessions)} sessions", None))
            continue
        raw = stdev([fmean(level for level, _ in group) for group in sessions])
        speed, others = median_speed(timed), [each for each in timed if each.workload != key[0]]
        if not fit_processes(timed, speed).adjusts(key[0]):
            rows.append((" ".join(key), str(len(sessions)), percent(raw), *["not adjusted"] * 2, "1.00", "1.00"))
            claims.append(Claim(f"{what}: not adjusted, 1.00", False))
            continue
        slopes = [fit_processes(each, speed).control.slope for each in (timed, others or timed)]
        same, other = (stdev(_adjusted_levels(sessions, slope, speed)) for slope in slopes)
        ratios = f"{same / raw:.2f}", f"{other / raw:.2f}"
        rows.append((" ".join(key), str(len(sessions)), *map(percent, (raw, same, other)), *ratios))
        claims.append(Claim(f"{what}, slope of the other workloads: {other / raw:.2f}", other <= BETWEEN * raw))
    if not rows:
        return claims
    print("Standard deviation of a setting's log latency between sessions")
    header = ("setting", "sessions", "raw", "adjusted", "other workloads' slope", "adjusted ÷ raw", "other slope ÷ raw")
    print(table(header, rows))
    return claims


def _adjusted_levels(sessions: Sequence[Sequence[Pair]], slope: float, speed: float) -> list[float]:
    return [fmean(stats.adjusted(level, load, slope, speed) for level, load in group) for group in sessions]
