"""Decide whether a speedup of one setting over another is meaningful."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run, RunReport
from modelzoo.setting import Setting

WORK_DIFFERENCE = 0.25
"""Sides whose counts (of boxes, for example) differ by more than this fraction did different work. Rounding moves a
few boxes across a threshold, but not a quarter of them."""


def not_comparable(baseline: Sequence[Run], runs: Sequence[Run]) -> str:
    """Return why a speedup over ``baseline`` would be meaningless; empty if it is meaningful.

    Every process of the baseline must have run in its precision. The sides of each round must have used the same
    weights and done the same amount of work, unless the user asked for another model or other inputs.
    """
    base = {run.round: run.report for run in baseline if run.report is not None}
    own = {run.round: run.report for run in runs if run.report is not None}
    reasons = [reason for report in base.values() for reason in _not_fp32(report)]
    if baseline and runs and _work(baseline[0].asked) == _work(runs[0].asked):
        shared = sorted(set(base) & set(own))
        reasons += [reason for number in shared for reason in _differences(base[number], own[number])]
    return reasons[0] if reasons else ""


def _work(asked: Setting) -> tuple[object, ...]:
    """What decides which model runs on which inputs; another batch size has other inputs."""
    return asked.weights, asked.seed, asked.input, asked.batch, sorted(asked.options.items())


def _not_fp32(base: RunReport) -> Iterator[str]:
    if base.setting.precision == "fp32" and base.canary is not None and base.canary_verdict is not CanaryVerdict.FP32:
        yield f"the fp32 baseline is not fp32 according to the canary: {base.canary.summary}"
    if base.evidence is not None and base.evidence.verdict is ProofVerdict.NOT_FP32:
        yield f"the fp32 baseline is not fp32 according to its kernels: {base.evidence.line}"


def _differences(base: RunReport, other: RunReport) -> Iterator[str]:
    if base.weights.sha256 != other.weights.sha256:
        yield "the two sides ran different weights"
    for mine, theirs in zip(base.counts, other.counts):
        if abs(theirs.value - mine.value) > WORK_DIFFERENCE * max(mine.value, theirs.value):
            yield f"the two sides did different work: {mine.name} {mine.value:.0f} and {theirs.value:.0f}"
