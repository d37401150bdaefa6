"""The three spans of a call on an accelerator, over the processes of a setting. Pure, and without torch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from modelzoo import stats
from modelzoo.records.accelerator import bound_by_launching
from modelzoo.records.evidence import LogSource
from modelzoo.records.run import Run
from modelzoo.records.timing import DEVICE, ISSUE


@dataclass(frozen=True)
class Spans:
    """Times of one call beside its latency, each the geometric mean of the processes' medians, in seconds.

    Attributes:
        issue: in which the host issued the work.
        device: between the events around it; ``None`` if the device's events tell no time.
        bound_by_launching: whether the call spends its time issuing kernels rather than running them.
    """

    issue: float
    device: Optional[float]
    bound_by_launching: bool


def spans_of(runs: Sequence[Run]) -> Optional[Spans]:
    """The spans of the processes of one setting; ``None`` if they ran on a CPU, or nothing was timed."""
    issue, device = _level(runs, ISSUE), _level(runs, DEVICE)
    if issue is None:
        return None
    bound = device is not None and bound_by_launching(issue, device, _kernel_seconds(runs))
    return Spans(issue, device, bound)


def _level(runs: Sequence[Run], name: str) -> Optional[float]:
    timings = [run.report.timing for run in runs if run.report is not None and run.report.timing is not None]
    medians = [statistics.median(timing.values(name)) for timing in timings if timing.values(name)]
    return stats.geometric_mean(medians) if medians else None


def _kernel_seconds(runs: Sequence[Run]) -> Optional[float]:
    """Seconds of the kernels of one pass, as the profiler saw them on the device."""
    for run in runs:
        evidence = run.report.observed.evidence if run.report is not None else None
        if evidence is not None and evidence.log_source is LogSource.PROFILER and evidence.iterations:
            return evidence.seconds / evidence.iterations
    return None
