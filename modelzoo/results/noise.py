"""How unsteady a machine is: what its kept sessions say together. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, variance
from typing import Optional

from modelzoo import stats
from modelzoo.records.history import MachineNoise, SessionLevel, WorkloadNoise
from modelzoo.results.days import days

LEAST_SESSIONS = 3
"""Sessions, each on another day, that it takes to say how much sessions differ."""
OUTLOOK_SECONDS = 300.0
"""The time for which the smallest difference is given."""


@dataclass(frozen=True)
class SessionSpread:
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
