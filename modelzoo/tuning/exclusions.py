"""Which candidates must not win, whatever their speed: not proven, not right, or not running at all. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run, RunReport, ValidityEntry
from modelzoo.records.tuning import Exclusion, ExclusionKind
from modelzoo.records.validity import ValidityVerdict
from modelzoo.records.workload import WeightsKind
from modelzoo.results.comparable import not_comparable, not_fp32
from modelzoo.results.proof import merged_proof

PRIMITIVES = 1024
"""oneDNN keeps so many primitives unless it is told otherwise (source: its developer guide, "Primitive Cache")."""
UNJUDGED = "; --allow-unjudged lets it win all the same"


def unfit(group: int, runs: Sequence[Run], baseline: Sequence[Run]) -> Optional[Exclusion]:
    """Return why a candidate is out according to what its processes report; ``None`` if it may go on.

    Args:
        group: the candidate.
        runs: its processes so far.
        baseline: those of the default setting.
    """
    error = next((run.error for run in runs if run.error), None)
    if error is not None:
        return Exclusion(group, ExclusionKind.FAILED, error)
    reports = [run.report for run in runs if run.report is not None]
    if not reports:
        return None
    differing = not_comparable(baseline, runs)
    if differing:
        return Exclusion(group, ExclusionKind.WRONG_OUTPUTS, differing)
    return _unproven(group, reports)


def _unproven(group: int, reports: Sequence[RunReport]) -> Optional[Exclusion]:
    wanted = ProofVerdict.FP32 if reports[0].setting.precision == "fp32" else ProofVerdict.ACTIVE
    proof = merged_proof(reports)
    if proof.verdict is wanted:
        return None
    return Exclusion(group, ExclusionKind.UNPROVEN, proof.sentence or "no kernel evidence was taken")


def pointless(group: int, changes: set[str], probe: RunReport) -> Optional[Exclusion]:
    """Return why a candidate cannot have an effect, by what the default setting ran; ``None`` if it may.

    Args:
        group: the candidate.
        changes: the fields of ``Setting`` that it changes.
        probe: the first process of the default setting.
    """
    operators = {use.operator_class.value for use in probe.evidence.operators} if probe.evidence is not None else None
    if "channels_last" in changes and operators is not None and "conv" not in operators:
        reason = "channels-last has no effect: the model has no convolution"
        return Exclusion(group, ExclusionKind.NO_EFFECT, reason)
    calls = sum(kernel.count for kernel in probe.kernels.kernels) if probe.kernels is not None else None
    if "primitive_cache" in changes and calls is not None and calls <= PRIMITIVES:
        reason = f"a pass calls {calls} kernels, and oneDNN keeps {PRIMITIVES:,} primitives anyway"
        return Exclusion(group, ExclusionKind.NO_EFFECT, reason)
    return None


def default_problem(probe: RunReport) -> str:
    """Return why nothing can be compared with the default setting; empty if it ran in fp32 or was to run in bf16."""
    return next(iter(not_fp32(probe)), "")


def unjudgeable(probe: RunReport, has_judge: bool) -> str:
    """Return why bf16 predictions cannot be judged here; empty if they can."""
    if not has_judge:
        return "the workload does not say how its predictions are judged"
    if probe.weights.kind is WeightsKind.RANDOM:
        return "with random weights there are no predictions to judge"
    return ""


def not_judged(group: int, reason: str) -> Exclusion:
    """A bf16 candidate whose predictions cannot be judged."""
    return Exclusion(group, ExclusionKind.NOT_JUDGED, f"{reason}{UNJUDGED}")


def not_valid(group: int, entry: ValidityEntry, *, allow_unjudged: bool) -> Optional[Exclusion]:
    """Return why a bf16 candidate is out according to its judgement; ``None`` if its predictions are valid."""
    verdict = entry.report.validity.verdict if entry.report is not None else ValidityVerdict.CANNOT_JUDGE
    if verdict is ValidityVerdict.VALID:
        return None
    reason = entry.report.validity.reason if entry.report is not None else entry.error
    if verdict is ValidityVerdict.NOT_VALID:
        return Exclusion(group, ExclusionKind.NOT_VALID, reason or "its predictions are not valid")
    return None if allow_unjudged else not_judged(group, reason or str(verdict))
