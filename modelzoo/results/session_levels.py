"""What a result says about its machine: the level, the variances and the costs of each setting. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median, stdev
from typing import Optional

from modelzoo import stats
from modelzoo.records.codec import encode_json
from modelzoo.records.history import SessionLevel
from modelzoo.records.run import Result, Run, RunReport
from modelzoo.results.adjustment import adjustment, reference_seconds
from modelzoo.results.speed import seconds_per_round
from modelzoo.results.summary import labels_as_run

LEAST_PROCESSES = 3
"""A setting with fewer processes says nothing about how they differ, and is not kept."""


def session_levels(result: Result) -> tuple[SessionLevel, ...]:
    """Return what is worth keeping of ``result``: one entry per setting that was timed in enough processes."""
    labels, adjusted = labels_as_run(result), adjustment(result).latencies
    found = []
    for group, runs in result.groups().items():
        timed = [run for run in runs if run.steady]
        report = timed[0].report if timed else None
        if report is None or len(timed) < LEAST_PROCESSES:
            continue
        same = [run for run in result.runs if run.workload == report.workload]
        first = next(index for index, asked in enumerate(result.asked) if asked.workload == report.workload)
        level = _level(result.created, labels[group], timed, report)
        whole = seconds_per_round(same) / len({run.group for run in same})
        found.append(
            replace(
                level,
                cost=max(0.0, whole - level.sampled),
                adjusted=adjusted[group].value if group in adjusted else None,
                ratio_spread=_ratio_spread(result.groups()[first], timed) if group != first else None,
            )
        )
    return tuple(found)


def priors(levels: Sequence[SessionLevel]) -> Mapping[str, stats.Components]:
    """Return the variances to expect of each workload: the means of its kept sessions."""
    found: dict[str, list[stats.Components]] = {}
    for level in levels:
        found.setdefault(level.workload, []).append(stats.Components(level.between, level.tau2))
    return {workload: stats.pooled(each) for workload, each in found.items()}


def _level(created: str, label: str, timed: Sequence[Run], report: RunReport) -> SessionLevel:
    components = stats.components([run.steady for run in timed])
    turns = [turn for run in timed for turn in run.reference]
    return SessionLevel(
        created=created,
        workload=report.workload,
        label=label,
        key=_key(report),
        level=stats.geometric_mean([median(run.steady) for run in timed]),
        processes=len(timed),
        sampled=fmean(sum(run.steady) for run in timed),
        between=components.between,
        tau2=components.tau2,
        cost=0.0,
        reference=reference_seconds(timed),
        reference_version=turns[0].version if turns else None,
        threads=report.setting.threads,
    )


def _ratio_spread(baseline: Sequence[Run], runs: Sequence[Run]) -> Optional[float]:
    other = {run.round: median(run.steady) for run in baseline if run.steady}
    ratios = [math.log(other[run.round] / median(run.steady)) for run in runs if run.round in other]
    return stdev(ratios) if len(ratios) > 1 else None


def _key(report: RunReport) -> str:
    """The same for all runs of the same work by the same software."""
    work = (report.workload, report.setting, report.weights.sha256, report.digest, report.inputs_digest)
    return hashlib.sha256(encode_json((work, sorted(report.versions.items())))).hexdigest()[:16]
