"""Whether a speedup of one setting over another is meaningful, and whether an engine computes what torch does. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Optional, Union

from modelzoo.records.agreement import OutputAgreement
from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.records.evidence import Evidence, ProofVerdict
from modelzoo.records.run import Run, RunReport
from modelzoo.setting import Setting


@dataclass(frozen=True)
class OtherOutputs:
    """It cannot be said that a setting computes what torch does in eager mode.

    Attributes:
        engine: the inference framework; torch is compared with its own eager mode.
        agreement: how far its outputs are off; ``None`` if that is not known.
        problem: why it is not known, as far as a process says so.
    """

    engine: str
    agreement: Optional[OutputAgreement]
    problem: Optional[str] = None


def agreement_of(reports: Sequence[RunReport]) -> Optional[OutputAgreement]:
    """Return how far the outputs of a setting are from torch's: the first comparison, or one over the bound."""
    found = [report.observed.agreement for report in reports if report.observed.agreement is not None]
    return next((each for each in found if each.is_same is False), found[0] if found else None)


def other_outputs(reports: Sequence[RunReport]) -> Optional[OtherOutputs]:
    """Return why it cannot be said that a setting computes what torch does in eager mode; ``None`` if it can.

    Only fp32 has a bound; what bf16 changes is judged by the task.
    """
    exported = next(
        (each for each in reports if each.prepared.export is not None and each.setting.precision == "fp32"), None
    )
    found = agreement_of(reports)
    if found is None and exported is not None:
        problem = next((each.observed.agreement_problem for each in reports if each.observed.agreement_problem), None)
        return OtherOutputs(exported.provenance.engine, None, problem)
    if found is None or found.is_same is not False:
        return None
    return OtherOutputs(exported.provenance.engine if exported is not None else "torch", found)


WORK_DIFFERENCE = 0.25
"""Sides whose counts (of boxes, for example) differ by more than this fraction did different work. Rounding moves a
few boxes across a threshold, but not a quarter of them."""


class Different(Enum):
    """What two sides must have in common, and do not."""

    DECLARATION = "workload.py"
    WEIGHTS = "weights"


@dataclass(frozen=True)
class OtherWork:
    """Two sides found different numbers of something.

    Attributes:
        name: what was counted.
        base: number on the side of the baseline.
        other: number on the other side.
    """

    name: str
    base: float
    other: float


Incomparable = Union[Canary, Evidence, OtherOutputs, Different, OtherWork]
"""Why a comparison would be meaningless: the canary or the audit that shows that the baseline is not fp32, other
outputs than torch's, or other work."""


def not_comparable(baseline: Sequence[Run], runs: Sequence[Run]) -> Optional[Incomparable]:
    """Return why a speedup over ``baseline`` would be meaningless; ``None`` if it is meaningful.

    Every process of the baseline must have run in its precision, and an engine must compute the same as torch. The
    sides of each round must have used the same
    weights in the same workload and done the same amount of work, unless the user asked for another model or other
    inputs.
    """
    base = {run.round: run.report for run in baseline if run.report is not None}
    own = {run.round: run.report for run in runs if run.report is not None}
    reasons: list[Optional[Incomparable]] = [shown for report in base.values() for shown in not_fp32(report)]
    reasons += (other_outputs(list(side.values())) for side in (base, own))
    if baseline and runs and _work(baseline[0].asked) == _work(runs[0].asked):
        for number in sorted(set(base) & set(own)):
            sides = base[number], own[number]
            reasons += [*other_workload(*sides), *other_weights(*sides), *other_work(*sides)]
    return next((reason for reason in reasons if reason is not None), None)


def _work(asked: Setting) -> tuple[object, ...]:
    """What decides which model runs on which inputs; another batch size has other inputs."""
    return asked.weights, asked.seed, asked.input, asked.batch, sorted(asked.options.items())


def not_fp32(base: RunReport) -> Iterator[Union[Canary, Evidence]]:
    """Yield what shows that a process that was to run in fp32 did not."""
    seen = base.observed
    if base.setting.precision == "fp32" and seen.canary and seen.canary_verdict is not CanaryVerdict.FP32:
        yield seen.canary
    if seen.evidence is not None and seen.evidence.verdict is ProofVerdict.NOT_FP32:
        yield seen.evidence


def other_workload(base: RunReport, other: RunReport) -> Iterator[Different]:
    """Yield that two processes had different declarations of the workload, as two images may, if they had."""
    digests = base.provenance.digest, other.provenance.digest
    if None not in digests and digests[0] != digests[1]:
        yield Different.DECLARATION


def other_weights(base: RunReport, other: RunReport) -> Iterator[Different]:
    """Yield that two processes ran different weights, if they did."""
    if base.prepared.weights.sha256 != other.prepared.weights.sha256:
        yield Different.WEIGHTS


def other_work(base: RunReport, other: RunReport) -> Iterator[OtherWork]:
    """Yield the counts by which two processes did different amounts of work."""
    for mine, theirs in zip(base.observed.counts, other.observed.counts):
        if abs(theirs.value - mine.value) > WORK_DIFFERENCE * max(mine.value, theirs.value):
            yield OtherWork(mine.name, mine.value, theirs.value)
