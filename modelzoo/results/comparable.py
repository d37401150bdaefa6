"""Decide whether a speedup of one setting over another is meaningful."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run, RunReport
from modelzoo.results.agreement import other_outputs
from modelzoo.setting import Setting

WORK_DIFFERENCE = 0.25
"""Sides whose counts (of boxes, for example) differ by more than this fraction did different work. Rounding moves a
few boxes across a threshold, but not a quarter of them."""


def not_comparable(baseline: Sequence[Run], runs: Sequence[Run]) -> str:
    """Return why a speedup over ``baseline`` would be meaningless; empty if it is meaningful.

    Every process of the baseline must have run in its precision, and an engine must compute the same as torch. The
    sides of each round must have used the same
    weights in the same workload and done the same amount of work, unless the user asked for another model or other
    inputs.
    """
    base = {run.round: run.report for run in baseline if run.report is not None}
    own = {run.round: run.report for run in runs if run.report is not None}
    reasons = [f"the fp32 baseline is {reason}" for report in base.values() for reason in not_fp32(report)]
    reasons += filter(None, (other_outputs(list(side.values())) for side in (base, own)))
    if baseline and runs and _work(baseline[0].asked) == _work(runs[0].asked):
        for number in sorted(set(base) & set(own)):
            sides = base[number], own[number]
            reasons += [*other_workload(*sides), *other_weights(*sides), *other_work(*sides)]
    return reasons[0] if reasons else ""


def _work(asked: Setting) -> tuple[object, ...]:
    """What decides which model runs on which inputs; another batch size has other inputs."""
    return asked.weights, asked.seed, asked.input, asked.batch, sorted(asked.options.items())


def not_fp32(base: RunReport) -> Iterator[str]:
    """Yield what shows that a process that was to run in fp32 did not."""
    if base.setting.precision == "fp32" and base.canary is not None and base.canary_verdict is not CanaryVerdict.FP32:
        yield f"not fp32 according to the canary: {base.canary.summary}"
    if base.evidence is not None and base.evidence.verdict is ProofVerdict.NOT_FP32:
        yield f"not fp32 according to its kernels: {base.evidence.line}"


def other_workload(base: RunReport, other: RunReport) -> Iterator[str]:
    """Yield that two processes had different declarations of the workload, as two images may, if they had."""
    if None not in (base.digest, other.digest) and base.digest != other.digest:
        yield "the two sides have different versions of workload.py"


def other_weights(base: RunReport, other: RunReport) -> Iterator[str]:
    """Yield that two processes ran different weights, if they did."""
    if base.weights.sha256 != other.weights.sha256:
        yield "the two sides ran different weights"


def other_work(base: RunReport, other: RunReport) -> Iterator[str]:
    """Yield the counts by which two processes did different amounts of work."""
    for mine, theirs in zip(base.counts, other.counts):
        if abs(theirs.value - mine.value) > WORK_DIFFERENCE * max(mine.value, theirs.value):
            yield f"the two sides did different work: {mine.name} {mine.value:.0f} and {theirs.value:.0f}"
