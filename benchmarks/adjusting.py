"""How much the reference load narrows intervals within a session, and the spread between sessions.

The adjustment is that of ``modelzoo.results.adjustment``, to the median speed of all recorded sessions. A slope that
was fitted to the same samples flatters it, so others are shown beside it: fitted to the other workloads, and to the
other sessions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Optional

from claims import Claim, percent, table
from recordings import Process, Recording, settings

from modelzoo import stats
from modelzoo.results import adjustment

UNSTEADY = stats.EQUIVALENCE
"""A machine is called unsteady in a session if the standard deviation of the reference load's log times between
processes exceeds this; below it, differences do not matter elsewhere either."""
LEAST_PROCESSES = 3
LEAST_SESSIONS = 3
WITHIN, STEADY, BETWEEN = 0.5, 1.05, 0.5
"""The goals: adjusted ÷ raw half width where the machine is unsteady, and where it is not; adjusted ÷ raw standard
deviation between sessions."""

Pair = tuple[float, float]
"""The log latency of a process and the log time of the reference load beside it."""
Key = tuple[str, str]
"""Workload and label."""
Groups = Mapping[Key, Sequence[Pair]]


@dataclass(frozen=True)
class Fit:
    """A slope, its degrees of freedom, and the workloads that do not follow the load."""

    control: stats.Control
    freedom: int
    left_out: tuple[str, ...]

    @property
    def is_used(self) -> bool:
        """Whether the suite would adjust anything by this slope."""
        return self.freedom >= adjustment.FREEDOM and self.control.is_used

    def adjusts(self, workload: str) -> bool:
        """Whether the suite would adjust this workload, if it is among those that this was fitted to."""
        return self.is_used and workload not in self.left_out

    def interval(self, group: Sequence[Pair], speed: float) -> stats.Interval:
        """The adjusted latency of a setting at the reference speed whose log is ``speed``, with its interval."""
        return adjustment.adjusted_interval(group, self.control, self.freedom, speed)


def fit(sessions: Sequence[Groups]) -> Fit:
    """Fit one slope to sessions as the suite does, each setting of each session about its own mean."""
    keys = list(dict.fromkeys(key for groups in sessions for key in groups))
    workloads = [workload for workload, _ in keys]
    numbered = [{keys.index(key): group for key, group in groups.items()} for groups in sessions]
    left_out = adjustment.unpredicted(numbered, workloads)
    every = [group for groups in sessions for key, group in groups.items() if key[0] not in left_out]
    control = stats.fit_control(every, adjustment.PRIOR_SLOPE, adjustment.PRIOR_WEIGHT)
    return Fit(control, sum(len(group) - 1 for group in every), left_out)


def fit_processes(processes: Sequence[Process]) -> Fit:
    """Fit one slope to processes of several sessions."""
    numbers = sorted({each.session for each in processes})
    return fit([grouped([each for each in processes if each.session == number]) for number in numbers])


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
        same: adjusted ÷ raw with the slope that the suite fits; 1 if the suite would not adjust it in this session.
        workloads: the same with the slope of the other workloads of the session; ``None`` if there are none.
        sessions: the same with the slope of the other sessions; ``None`` if there are none.
        adjusted: whether the suite would adjust it.
    """

    key: Key
    unsteady: bool
    raw: float
    same: float
    workloads: Optional[float]
    sessions: Optional[float]
    adjusted: bool


def gains(recording: Recording) -> list[Gain]:
    """Compare adjusted with raw half widths, for each setting and session with at least 3 processes."""
    timed = [each for each in recording.processes if each.reference]
    found = []
    for session in range(len(recording.sessions)):
        own = [each for each in timed if each.session == session]
        if len(own) < LEAST_PROCESSES:
            continue
        unsteady, fitted = stdev([load for _, load in pairs(own)]) > UNSTEADY, fit_processes(own)
        others = [each for each in timed if each.session != session]
        for key, group in grouped(own).items():
            if len(group) < LEAST_PROCESSES:
                continue
            elsewhere = [each for each in own if each.workload != key[0]]
            raw = stats.level_interval([math.exp(level) for level, _ in group]).half_width
            adjusted, speed = fitted.adjusts(key[0]), median_speed(timed)
            same = fitted.interval(group, speed).half_width / raw if adjusted else 1.0
            by_workloads, by_sessions = (
                _outside(group, each, speed, raw, adjusted) if each else None for each in (elsewhere, others)
            )
            found.append(Gain(key, unsteady, raw, same, by_workloads, by_sessions, adjusted))
    return found


def _outside(group: Sequence[Pair], fitted: Sequence[Process], speed: float, raw: float, adjusted: bool) -> float:
    """Adjusted ÷ raw half width with the slope of other processes; 1 if they have none, or nothing is adjusted."""
    other = fit_processes(fitted)
    return other.interval(group, speed).half_width / raw if adjusted and other.is_used else 1.0


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
    header = ("setting", "machine", "sessions", "adjusted", "raw", "same samples", "other workloads", "other sessions")
    print(table(header, rows))
    return claims or [Claim("half widths: no session has a reference load and enough processes", None)]


def _within_row(group: Sequence[Gain]) -> tuple[str, ...]:
    return (
        " ".join(group[0].key),
        "unsteady" if group[0].unsteady else "steady",
        str(len(group)),
        str(sum(gain.adjusted for gain in group)),
        "±" + percent(stats.geometric_mean([gain.raw for gain in group])),
        _ratio([gain.same for gain in group]),
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
        all_workloads, others = fit_processes(timed), [each for each in timed if each.workload != key[0]]
        if not all_workloads.adjusts(key[0]):
            rows.append((" ".join(key), str(len(sessions)), percent(raw), *["not adjusted"] * 2, "1.00", "1.00"))
            claims.append(Claim(f"{what}: not adjusted, 1.00", False))
            continue
        slopes = [fit_processes(each).control.slope for each in (timed, others or timed)]
        same, other = (stdev(_adjusted_levels(sessions, slope, median_speed(timed))) for slope in slopes)
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
