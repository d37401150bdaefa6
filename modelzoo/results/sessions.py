"""Several sessions of one call together: the level of each setting over sessions, and how much they differ. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, stdev
from typing import Optional

from modelzoo import stats
from modelzoo.records.run import Result
from modelzoo.results.adjustment import Adjustment, adjustments
from modelzoo.results.summary import labels_as_run


@dataclass(frozen=True)
class SessionsRow:
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


@dataclass(frozen=True)
class SessionsSummary:
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
        workload = results[0].asked[group].workload
        rows.append(SessionsRow(workload, labels[group], len(each), stats.level_interval(each), _spread(each), spread))
    refused = next((each for each in found if each.refused is not None), found[0])
    return SessionsSummary(len(results), tuple(rows), refused)


def _spread(levels: Sequence[float]) -> Optional[float]:
    return stdev(map(math.log, levels)) if len(levels) > 1 else None
