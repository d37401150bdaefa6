"""Adjusted latencies: what the settings would have taken at this machine's reference speed. Pure.

Between the turns of the workers a reference load runs. A process that ran while the machine was slow has a slow
reference load beside it, and the part of its latency that the load predicts is taken out (``stats.control``). The slope
comes from all processes of the result together, each setting about its own mean, and is shrunk towards 1: a machine
that is 5 % slower makes everything 5 % slower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Optional

from modelzoo import stats
from modelzoo.records.run import Result, Run

PRIOR_SLOPE = 1.0
PRIOR_WEIGHT = 8.0
"""The slope before anything is measured, and the degrees of freedom that it counts for."""
FREEDOM = 12
"""Degrees of freedom, processes less settings, that it takes to say whether the load predicts anything. If it does not,
a correlation of 0.5 or more still comes about in 4 % of such results, and in 25 % of results with 3 degrees of freedom
(r sqrt(f - 1) / sqrt(1 - r²) is Student's t with f - 1 degrees of freedom)."""


@dataclass(frozen=True)
class Adjustment:
    """What the reference load says about a result.

    Attributes:
        control: slope and correlation, of all settings together; ``None`` if no processes have a reference load.
        reference_seconds: the load's time at the machine's reference speed.
        spread: how far the machine's speed moved: the largest over the smallest time of the load, of all rounds,
            less 1.
        refused: why latencies are not adjusted; empty if they are.
        latencies: the adjusted latency of each group, in seconds, with its interval.
    """

    control: Optional[stats.Control]
    reference_seconds: Optional[float]
    spread: Optional[float]
    refused: str
    latencies: Mapping[int, stats.Interval]


def adjustment(result: Result) -> Adjustment:
    """Adjust the latencies of all groups of ``result``, or say why they are not."""
    groups = {group: [run for run in runs if _level(run)] for group, runs in result.groups().items()}
    groups = {group: runs for group, runs in groups.items() if runs}
    levels = [_level(run) for runs in groups.values() for run in runs]
    if not levels:
        return Adjustment(None, None, None, "no reference load ran", {})
    # The first session on a machine has no reference speed to go by but its own.
    reference = result.reference_seconds if result.reference_seconds is not None else median(levels)
    pairs = {group: [_pair(run) for run in runs] for group, runs in groups.items()}
    control = stats.fit_control(list(pairs.values()), PRIOR_SLOPE, PRIOR_WEIGHT)
    refused = _refusal(control, list(pairs.values()))
    latencies = {} if refused else {group: _adjusted(each, control, reference) for group, each in pairs.items()}
    return Adjustment(control, reference, max(levels) / min(levels) - 1, refused, latencies)


def reference_seconds(runs: Sequence[Run]) -> Optional[float]:
    """The time of the reference load in one session: the median of its rounds; ``None`` if it did not run."""
    levels = [level for run in runs if (level := _level(run))]
    return median(levels) if levels else None


def _level(run: Run) -> float:
    """The time of the reference load while this run sampled; 0 if there is none, or if the run has no samples."""
    return median(turn.seconds for turn in run.reference) if run.reference and run.steady else 0.0


def _pair(run: Run) -> tuple[float, float]:
    return math.log(median(run.steady)), math.log(_level(run))


def _refusal(control: stats.Control, pairs: Sequence[Sequence[tuple[float, float]]]) -> str:
    freedom = sum(len(each) - 1 for each in pairs)
    if freedom < FREEDOM:
        return f"{sum(map(len, pairs))} processes are too few to say whether the reference load predicts the latency"
    if not control.is_used:
        return f"the reference load does not predict the latency here (correlation {control.correlation:.2f})"
    return ""


def _adjusted(pairs: Sequence[tuple[float, float]], control: stats.Control, reference: float) -> stats.Interval:
    level = math.log(reference)
    return stats.level_interval([math.exp(stats.adjusted(x, load, control.slope, level)) for x, load in pairs])
