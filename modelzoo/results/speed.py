"""The speed of each setting compared with its workload's first one: ratios and verdicts of a whole result. Pure.

All verdicts of a result are corrected together (``stats.holm``), over all of its workloads: they stand in one table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Optional, Union

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.records.design import Ending
from modelzoo.records.run import Result, Run
from modelzoo.results.comparable import Incomparable, not_comparable
from modelzoo.stats import Doubt, Outcome, Verdict

BY_THEMSELVES = (Ending.FIXED, Ending.BUDGET, Ending.FAILED)
"""Endings of sampling that do not depend on how the settings differ. An interruption is not one of them: whoever
interrupts a call may do so because of what it shows."""
NOT_LOOKED_AT = stats.Looks((), 1)
"""Of a call that did not end by itself, and that had not planned when to look at the data."""


@dataclass(frozen=True)
class Speed:
    """How one setting compares with the baseline.

    Attributes:
        ratio: time per item of the baseline over that of the setting, with its 95 % interval, which is not corrected
            for other comparisons; above 1 is faster. ``None`` if there is nothing to compare.
        verdict: the conclusion, corrected for all comparisons of the result.
        refused: why the two are not comparable; ``None`` if they are.
    """

    ratio: Optional[stats.Interval]
    verdict: Verdict
    refused: Optional[Incomparable] = None


def speeds(result: Result) -> dict[int, Speed]:
    """Return how each group with times compares with the first setting of its workload, by group."""
    groups, workloads = result.groups(), [asked.workload for asked in result.asked]
    found: dict[int, Speed] = {}
    compared: dict[int, stats.Comparison] = {}
    for group, runs in groups.items():
        first = workloads.index(workloads[group])
        if group == first or not any(run.steady for run in runs):
            continue
        answer = _compared(groups.get(first, []), runs, looks(result, workloads[group]))
        if isinstance(answer, Speed):
            found[group] = answer
        else:
            compared[group] = answer
    verdicts = stats.verdicts(list(compared.values()))
    for (group, comparison), verdict in zip(compared.items(), verdicts):
        same = [run for run in result.runs if run.workload == workloads[group]]
        outlook = _outlook(verdict, comparison, len(compared), same)
        found[group] = Speed(comparison.ratio, replace(verdict, outlook=outlook))
    return found


def looks(result: Result, workload: str) -> Optional[stats.Looks]:
    """Return the planned looks of a workload's comparisons; ``None`` if there is only one, at the end.

    A call that the user interrupted, that was killed or that still runs has only the looks that were planned.
    """
    design = result.design(workload)
    if design is None:
        return None
    ended = design.ending in BY_THEMSELVES
    if not design.looks or design.maximum is None:
        return None if ended else NOT_LOOKED_AT
    return stats.Looks(design.looks, design.maximum, final=ended)


def _compared(
    baseline: Sequence[Run], runs: Sequence[Run], planned: Optional[stats.Looks]
) -> Union[stats.Comparison, Speed]:
    """Compare the rounds that both sides have, or return why that is not possible."""
    refused = not_comparable(baseline, runs)
    if refused is not None:
        return Speed(None, Verdict(Outcome.NOT_COMPARABLE), refused)
    other, own = ({run.round: _seconds_per_item(run) for run in side if run.steady} for side in (baseline, runs))
    shared = sorted(set(other) & set(own))
    if not shared:
        return Speed(None, Verdict(Outcome.AMBIGUOUS, Doubt.NO_COMMON_ROUND if other else Doubt.NO_BASELINE))
    return stats.ratio_test([other[i] for i in shared], [own[i] for i in shared], paired=True, looks=planned)


def _seconds_per_item(run: Run) -> list[float]:
    """The samples of a run, comparable with those of another batch size."""
    batch = run.report.setting.batch if run.report is not None else 1
    return [sample / batch for sample in run.steady]


# What it would take


def _outlook(verdict: Verdict, found: stats.Comparison, table: int, runs: Sequence[Run]) -> Optional[stats.Outlook]:
    """How many more processes are expected to decide an AMBIGUOUS verdict, and how long they take."""
    if verdict.outcome is not Outcome.AMBIGUOUS or not found.spread or not found.looks:
        return None
    difference = max(math.expm1(abs(math.log(found.ratio.value))), stats.EQUIVALENCE)
    alpha = stats.LARGEST_P / table
    more = max(1, stats.rounds_to_tell(found.spread, difference, alpha) - found.rounds)
    return stats.Outlook(more, more * seconds_per_round(runs) or None, difference)


def seconds_per_round(runs: Sequence[Run]) -> float:
    """Return the wall time of one process of every setting of a workload; 0 if it is not known.

    Args:
        runs: all runs of the workload. The blocks of a large table are rounds of their own, each with the baseline;
            they are added up.
    """
    rounds: dict[int, list[tuple[float, float]]] = {}
    for run in runs:
        started, ended = _moment(run.started), _moment(run.ended)
        if started is not None and ended is not None:
            rounds.setdefault(run.round, []).append((started, ended))
    if not rounds:
        return 0.0
    lengths = [max(ended for _, ended in each) - min(started for started, _ in each) for each in rounds.values()]
    first = min(run.group for run in runs)
    sweeps = max(Counter(run.group for run in runs if run.group != first).values(), default=len(rounds))
    return median(lengths) * len(rounds) / sweeps


def _moment(iso: Optional[str]) -> Optional[float]:
    """Seconds since the Unix epoch; ``None`` if the text of a stored result is not a time."""
    try:
        return datetime.fromisoformat(iso or "").timestamp()
    except ValueError:
        return None
