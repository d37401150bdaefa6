"""What proves a precision, in words: the verdict on an audit and its reason, the canary, how far outputs are from
torch's, and what all of them forbid. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from modelzoo.formatting import Merged, apart, counted, scientific, share
from modelzoo.records.canary import Canary, CanaryLevel
from modelzoo.records.coverage import FOREIGN_NUMBERS, KNOWN_SHARE, Coverage
from modelzoo.records.evidence import (
    ACTIVE_SHARE,
    BF16_IN_FP32,
    INACTIVE_SHARE,
    Disagreement,
    Evidence,
    InexactCanary,
    LogSource,
    NotUsed,
    ProofVerdict,
    Subnormals,
)
from modelzoo.records.workload import (
    DETECTED_BOUND,
    FP32_BOUND,
    INPUT_CHANGE,
    MATCHED_BOUND,
    MatchedDetections,
    OutputAgreement,
    OutputError,
)
from modelzoo.results.proof import OtherKernels, Proof, UnexplainedOutputs
from modelzoo.results.refusals import OtherOutputs
from modelzoo.views.kernel_tables import wrong_text

NO_EVIDENCE = "no kernel evidence was collected"
_NO_PRODUCTS = "no convolution, matrix product or attention was observed"
_VERDICT = {
    ProofVerdict.WRONG_RESULTS: "WRONG RESULTS",
    ProofVerdict.NOT_ACTIVE: "REQUESTED, NOT ACTIVE",
    ProofVerdict.FP32: "VERIFIED",
    ProofVerdict.NOT_FP32: "NOT FP32",
}


def sentence(merged: Proof) -> str | None:
    """Say what proves the precision of a setting, and whether its processes disagree; ``None`` if nothing is known."""
    ground = merged.ground
    if merged.verdict is None and ground is None:
        return "no process was audited in full" if merged.listed else None
    if isinstance(ground, Evidence):
        said = audit(ground)
    elif isinstance(ground, OtherKernels):
        other = "the same kernels ran on other shapes"
        if not ground.is_listed:
            other = "the audited process has no list of kernels"
        elif ground.kernel is not None:
            (name, precision), (here, there) = ground.kernel, ground.calls
            other = f"{name} ({precision}) was called {here} times, and {there} times there"
        elif ground.checks:
            other = f"the precision of the canary's {', '.join(ground.checks)}"
        said = f"a process that was not audited differs from those that were: {other}"
    elif isinstance(ground, UnexplainedOutputs):
        found = ground.agreement
        rounding = max((each.rounding or 0.0 for each in found.outputs), default=0.0)
        explains = bounds_text(found) if found.has_bound else f"rounding explains {rounding:.1e}"
        errors = f"the outputs do not confirm what the products show: {agreement_text([found])}; {explains}"
        said = f"{ground.requested}: UNKNOWN ({errors})"
    else:
        said = ground or NO_EVIDENCE
    if len(merged.verdicts) > 1:
        counts = ", ".join(f"{count} × {verdict}" for verdict, count in merged.verdicts)
        return f"{said}; the processes disagree: {counts}"
    if merged.kernel_lists > 1:
        said += "; not all processes ran the same kernels"
    elif merged.audited and merged.audited != merged.processes and merged.listed >= merged.processes:
        same = f"the same kernels ran in all {merged.processes} processes"
        said += f"; {same}, {merged.audited} of them audited in full"
    if merged.outputs is not None and merged.outputs.magnifies:
        said += "; its outputs confirm nothing, because the network magnifies rounding"
    return said


def canaries(merged: Proof) -> str:
    """``active``; ``active / not active`` if the canaries of the processes disagree."""
    return " / ".join(map(str, merged.canaries))


def audit(evidence: Evidence) -> str:
    """Return the verdict on one audit with its reason: ``fp32: VERIFIED (no bf16 kernel in the audit, …)``."""
    verdict = _VERDICT.get(evidence.verdict, str(evidence.verdict))
    return f"{evidence.requested}: {verdict} ({_reason(evidence)})"


def _reason(evidence: Evidence) -> str:
    against, products = evidence.reason, evidence.products
    if evidence.verdict is ProofVerdict.WRONG_RESULTS:
        return wrong_text(evidence)
    if isinstance(against, InexactCanary):
        errors = ((each, math.nan if each.error is None else each.error) for each in against.checks)
        return ", ".join(f"canary {each.operator} error {error:.0e} is {each.level}" for each, error in errors)
    if isinstance(against, Disagreement):
        if not against.products:
            return "the kernel log and the errors of products disagree"
        first, more = against.products[0], len(against.products) - 1
        error = "not finite" if first.error is None else f"{first.error:.0e}"
        name = f"{first.layers[0]} ({first.operator})" if first.layers else first.operator
        said = f"the kernel log names {first.logged} for {name}, and its error {error} shows {first.shown}"
        return said + (f"; likewise for {counted(more, 'more product')}" if more else "")
    if isinstance(against, NotUsed):
        return _not_used(evidence, against)
    if evidence.verdict is ProofVerdict.FP32:
        log = "no kernel log" if evidence.log_source is LogSource.NONE else "no bf16 kernel in the audit"
        return ", ".join([log, *_errors_in_fp32(evidence)])
    if evidence.verdict is ProofVerdict.UNKNOWN:
        return _unknown(evidence)
    other = ""
    if against is not None:
        ran = f"{' and '.join(map(str, against.classes))} ran in {', '.join(against.precisions)}"
        other = f"{ran}: {', '.join(against.kernels)}"
    if evidence.verdict not in (ProofVerdict.ACTIVE, ProofVerdict.PARTLY):
        return other
    # In which classes, unless it is all of each, how much, and what speaks against it.
    shares = [each.bf16_share for each in evidence.classes]
    extents = ("yes" if each >= ACTIVE_SHARE else "no" if each < INACTIVE_SHARE else "partly" for each in shares)
    classes = ", ".join(f"{each.operator_class} {extent}" for each, extent in zip(evidence.classes, extents))
    in_all = evidence.verdict is ProofVerdict.ACTIVE and all(each >= ACTIVE_SHARE for each in shares)
    unnamed = sum(
        each.share or 0.0
        for each in products
        if each.precision == evidence.requested and not each.kernels and each.subnormals is not Subnormals.FLUSHED
    )
    parts = [
        "" if in_all else classes,
        _compute_share(evidence),
        f"no log names the kernels of {share(unnamed, 0)} of the pass" if unnamed >= INACTIVE_SHARE else "",
        other,
        "" if evidence.coverage.is_enough else _gap(evidence.coverage),
    ]
    return "; ".join(filter(None, parts))


def _compute_share(evidence: Evidence) -> str:
    """How much of the matrix products' time and of the pass, and of the arithmetic, which the verdict rests on."""
    time, work = evidence.compute_bf16_share, evidence.arithmetic_share
    said = [f"{evidence.requested} kernels took {share(time, 0)} of the time in matrix products"]
    if evidence.seconds:
        said.append(f"{share(time * evidence.compute_seconds / evidence.seconds, 0)} of the pass")
    if work is not None and evidence.coverage.is_enough:
        said.append(f"and did {share(work, 0)} of the arithmetic")
    return ", ".join(said)


def _unknown(evidence: Evidence) -> str:
    coverage = evidence.coverage
    if not evidence.classes and not coverage.uncounted and (coverage.is_enough or not coverage.counted):
        return _NO_PRODUCTS
    if coverage.is_enough:
        at_fp32 = (each.canary_level is CanaryLevel.FP32 or each.is_replayed for each in evidence.classes)
        unproven = (str(each.operator_class) for each, is_known in zip(evidence.classes, at_fp32) if not is_known)
        return f"no bf16 kernel in the audit, but no error at fp32 level for {', '.join(unproven)}"
    in_all = evidence.compute_bf16_share * evidence.compute_seconds
    if evidence.requested != "fp32" and evidence.seconds and in_all / evidence.seconds >= INACTIVE_SHARE:
        return f"{_compute_share(evidence)}; {_gap(coverage)}"
    return _gap(coverage)


def _gap(coverage: Coverage) -> str:
    """What is missing for a proof: lines, types, operators, and shares of the arithmetic and of the time."""
    gaps = {
        f"{coverage.unread} lines of the kernel log could not be read": coverage.unread,
        f"the kernel log has {', '.join(coverage.unexplained)}, which no product explains": coverage.unexplained,
        "the model computed other outputs, or in other precisions, while it was observed": coverage.outputs_differ,
        f"operators read {coverage.foreign:,} numbers that no operator computed": coverage.foreign >= FOREIGN_NUMBERS,
        f"the operations of {', '.join(coverage.uncounted[:3])} are not known": coverage.uncounted,
    }
    said = [gap for gap, is_there in gaps.items() if is_there]
    if not coverage.lists_all:
        if coverage.known_arithmetic is None:
            said.append("the operations of the pass were not counted")
        elif coverage.known_arithmetic < KNOWN_SHARE:
            said.append(f"the precision of {share(1 - coverage.known_arithmetic, 0)} of the arithmetic is not known")
    if coverage.known_time < KNOWN_SHARE or not said:
        names = ", ".join(f"{each.name} {share(each.share, 0)}" for each in coverage.unknown[:3])
        said.append(f"what ran in {share(1 - coverage.known_time, 0)} of the time is not known ({names})")
    return "; ".join(said)


def _not_used(evidence: Evidence, reason: NotUsed) -> str:
    """Why nothing ran in the precision, from what the log shows was allowed and which kernels ran."""
    kernels, name = ", ".join(reason.kernels), evidence.requested
    errors = "".join(f"; {each} is fp32's" for each in _errors_in_fp32(evidence))
    if reason.dequantized:
        back = f"int8 numbers were converted back ({', '.join(reason.dequantized[:2])})"
        return f"{back} and multiplied in {reason.precision}: {kernels}{errors}"
    if name.startswith("int8"):
        return f"nothing was multiplied in int8: {kernels} computed in {reason.precision}{errors}"
    if reason.precision == BF16_IN_FP32:
        return f"{BF16_IN_FP32}: subnormal products were kept, which no bf16 instruction of this CPU does: {kernels}"
    if evidence.bf16_method in ("autocast", "cast"):
        return f"operands stayed in {reason.precision}: {kernels}{errors}"
    if reason.allowed:
        return f"{reason.library} was allowed {name}, yet {kernels} computed in fp32{errors}"
    if reason.allowed is False:
        return f"{reason.library} was never allowed {name}, {kernels} ran{errors}"
    return f"no product went through {reason.library}, {kernels} ran{errors}"


def _errors_in_fp32(evidence: Evidence) -> list[str]:
    """The largest errors in fp32: of the products that were replayed, and of the canary for classes of which some were
    not."""
    said = []
    replayed = [each.error for each in evidence.products if each.shown == "fp32" and each.error is not None]
    if replayed:
        every = len(evidence.products)
        whose = f"{len(replayed)} of {every}" if len(replayed) < every else f"{every}"
        said.append(f"largest error in the replays of {whose} product{'s' if every > 1 else ''} {max(replayed):.0e}")
    at_fp32 = (each for each in evidence.classes if each.canary_level is CanaryLevel.FP32)
    error = max((each.canary_error for each in at_fp32 if each.canary_error is not None), default=None)
    return said if error is None else [*said, f"canary error {error:.0e}"]


def not_fp32(shown_by: Canary | Evidence) -> str:
    """Say what shows that a process did not run in fp32."""
    if isinstance(shown_by, Canary):
        return f"not fp32 according to the canary: {shown_by.summary}"
    return f"not fp32 according to its kernels: {audit(shown_by)}"


def agreement_text(found: Sequence[OutputAgreement]) -> str:
    """The errors of the worst array of each, and how many detections match; numbers that differ are a range."""
    if len({_kind(each) for each in found}) > 1:
        return "; ".join(dict.fromkeys(agreement_text([each]) for each in found))
    worst = [each.worst for each in found if each.worst is not None]
    detections = [each.detections for each in found if each.detections is not None]
    if not worst and not detections:
        return "no outputs were compared"
    text = _errors(worst, is_named=len(found[0].outputs) > 1) if worst else "the raw heads were not compared"
    if not detections:
        return text
    return f"{text}{' before NMS' if worst else ''}; {_detections(detections)}"


def _kind(found: OutputAgreement) -> tuple[str | None, ...]:
    """Agreements of different kinds have no text in common."""
    worst, errors = found.worst, found.detections.errors if found.detections is not None else None
    magnified = worst is not None and worst.bound(FP32_BOUND) > FP32_BOUND
    kind = "" if worst is None else "not finite" if worst.relative is None else "magnified" if magnified else "finite"
    of_detections = None if errors is None else "not finite" if any(e.relative is None for e in errors) else "finite"
    return kind, of_detections, "several" if len(found.outputs) > 1 else "one"


def _errors(worst: Sequence[OutputError], *, is_named: bool) -> str:
    names = Merged(int(each.name) if re.fullmatch("[0-9]{1,9}", each.name) else each.name for each in worst)
    relative = [each.relative for each in worst if each.relative is not None]
    if not relative:
        return f"output {names} is not finite, or has another shape"
    mean = Merged(each.mean_error for each in worst if each.mean_error is not None)
    shown, _ = _beside_bound(relative, worst[0].bound(FP32_BOUND))
    text = f"mean error ÷ mean |output| {shown}, mean error {mean:.1e}"
    text += f" (output {names})" if is_named else ""
    if worst[0].bound(FP32_BOUND) > FP32_BOUND:
        caused = Merged(each.sensitivity for each in worst if each.sensitivity is not None)
        text += f", where inputs that differ by {INPUT_CHANGE:.0e} cause {caused:.1e}"
    return text


def _detections(found: Sequence[MatchedDetections]) -> str:
    values = [error.relative for each in found for error in each.errors]
    error = "not finite" if None in values else _beside_bound(list(map(_largest, found)), DETECTED_BOUND)[0]
    matched, expected = Merged(each.matched for each in found), Merged(each.expected for each in found)
    said = f"{matched} of {expected} detections match ({Merged(each.found for each in found)} found)"
    return f"{said}, their error {error}"


def _largest(found: MatchedDetections) -> float:
    return max((each.relative for each in found.errors if each.relative is not None), default=0.0)


def _beside_bound(errors: Sequence[float], bound: float) -> tuple[str, str]:
    """Errors, a range if they differ, and their bound."""
    low, high, limit = apart(min(errors), max(errors), bound, digits=2, show=scientific)
    return low if low == high else f"{low} to {high}", limit


def other_outputs_text(found: OtherOutputs) -> str:
    """Why it cannot be said that a setting computes what torch does in eager mode."""
    if found.agreement is None:
        problem = found.problem or "no process compared them"
        return f"it is not known whether {found.engine} computes what torch does: {problem}"
    whose = "it does in eager mode" if found.engine == "torch" else "torch does"
    said = f"{found.engine} does not compute what {whose}: {agreement_text([found.agreement])}"
    return f"{said}; {bounds_text(found.agreement)}"


def bounds_text(found: OutputAgreement) -> str:
    """What would have been the same."""
    worst = found.worst
    bound, error = (worst.bound(FP32_BOUND), worst.relative) if worst else (FP32_BOUND, None)
    allowed = f"at most {_beside_bound([error or 0.0], bound)[1]} of mean |output| is rounding"
    if found.detections is None:
        return allowed
    limit = _beside_bound([_largest(found.detections)], DETECTED_BOUND)[1]
    return f"{allowed}, and {100 * MATCHED_BOUND:.0f} % of the detections must match, with an error of at most {limit}"
