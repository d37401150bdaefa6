"""What a result says about its machine: the level, the variances and the costs of each setting. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Optional

from modelzoo import stats
from modelzoo.records.codec import encode, encode_json
from modelzoo.records.history import SessionLevel
from modelzoo.records.machine import QUIET_CORES
from modelzoo.records.run import Result, Run, RunReport
from modelzoo.results.adjustment import is_paired, pair, reference_seconds
from modelzoo.results.speed import seconds_per_round
from modelzoo.results.summary import labels_as_run

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
    workloads = [asked.workload for asked in result.asked]
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
            reference_load=result.reference_load if reference is not None else "",
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
    usages = [run.report.usage for run in runs if run.report is not None and run.report.usage is not None]
    # Ticks of the kernel's clock are coarse beside a short run.
    excess = [usage.other_cores - usage.resolution for usage in usages if usage.other_cores is not None]
    return bool(excess) and median(excess) > QUIET_CORES


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
    for name in ("image", "primitive_cache", "in_flight"):
        if setting.get(name) is None:  # as in the keys of versions that did not have it
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
    return hashlib.sha256(encode_json(work)).hexdigest()[:16]
