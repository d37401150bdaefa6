"""Judge an audit: did the reduced precision run that was asked for, or is fp32 really fp32? Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelzoo.evidence.attribution import UNATTRIBUTED, AttributedTime, attribute_time
from modelzoo.evidence.coverage import arithmetic_share, coverage, is_enough, is_narrower
from modelzoo.evidence.flops import Call, sum_flops
from modelzoo.evidence.observation import Audit
from modelzoo.evidence.onednn_log import logged_types
from modelzoo.evidence.precision_proof import UNKNOWN, PrecisionProver
from modelzoo.evidence.time_shares import fraction, longest, operator_uses, time_shares
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.evidence import (
    KNOWN_SHARE,
    ClassVerdict,
    Coverage,
    Evidence,
    LogSource,
    OperatorClass,
    ProofVerdict,
)
from modelzoo.records.profile import Flops

ACTIVE_SHARE = 0.90
"""A reduced precision is ACTIVE if at least this share of the compute time, and of the counted arithmetic, ran in its
kernels.

The first or last layer often stays in fp32 for accuracy. If bf16 is twice as fast, converting the remaining tenth could
save another 5 % of the compute time, less than the difference between machines of the same kind.
"""
INACTIVE_SHARE = 0.01
"""A reduced precision is NOT ACTIVE below this share: 1 % is not measurable (samples are taken to ± 1 %)."""

_NO_PRODUCTS = "no convolution, matrix product or attention was observed"


@dataclass(frozen=True)
class _Conclusion:
    """A verdict, the reason for it, and the line to print."""

    verdict: ProofVerdict
    detail: str
    line: str


@dataclass(frozen=True)
class AttributedAudit:
    """An audit whose time is attributed to kernels and precisions, of any engine.

    Attributes:
        parts: all of the time of the audited passes.
        iterations: number of audited passes.
        log_source: how it is known which kernels ran.
        library: what computes the products, as it is called in the reasons.
        bf16_allowed: whether ``library`` was allowed to round fp32 operands to bf16; ``None`` if it computed nothing.
        counted: the operations of one pass of the eager torch model; ``None`` if they were not counted.
        lists_all: whether ``parts`` are known to list everything that ran, as on an accelerator whose driver reports
            each kernel; otherwise what was counted must show that nothing is missing.
        logged: the data types that the kernel log has outside products.
        unread: lines of the kernel log that could not be read.
        onednn_version: as in ``Evidence``, and so are the following.
    """

    parts: Sequence[AttributedTime]
    iterations: int
    log_source: LogSource
    library: str
    bf16_allowed: bool | None
    counted: Flops | None = None
    lists_all: bool = False
    logged: frozenset[str] = frozenset()
    unread: int = 0
    onednn_version: str = ""
    onednn_isa: str = ""
    blas: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Findings:
    """What the verdict is based on: the time in matrix products, in total and by class, and the canary's checks."""

    audit: AttributedAudit
    requested: str
    bf16_method: str | None
    compute: Sequence[AttributedTime]
    classes: Sequence[ClassVerdict]
    checks: Mapping[str, OperatorCheck]
    coverage: Coverage

    @property
    def is_covered(self) -> bool:
        """Whether enough of the pass is known to prove a precision."""
        return is_enough(self.coverage, needs_arithmetic=not self.audit.lists_all)

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.compute)

    def share(self, precision: str) -> float:
        """The share of compute time in ``precision``, 0 to 1."""
        return fraction((part.seconds for part in self.compute if part.precision == precision), self.seconds)

    def arithmetic(self, precision: str) -> float | None:
        """The share of the counted operations in ``precision``, 0 to 1; ``None`` if they cannot be told."""
        if self.audit.lists_all:
            return None
        return arithmetic_share(self.compute, precision, self.audit.iterations, self.audit.counted)


def build_evidence(
    audit: Audit,
    canary: Canary | None,
    requested: str,
    bf16_method: str | None = None,
    *,
    calls: Sequence[Call] = (),
    counted: Flops | None = None,
) -> Evidence:
    """Judge an audit of torch, or of another framework that computes with oneDNN.

    Args:
        audit: what ran.
        canary: what the canary showed under the same setting, if it ran.
        requested: ``fp32``, ``tf32``, ``bf16`` or ``fp16``.
        bf16_method: ``fastmath``, ``autocast``, ``cast``, or ``None`` for fp32 and tf32.
        calls: the recorded calls of one eager pass of the same model under the same setting.
        counted: the operations of one pass; by default those of ``calls``.
    """
    attributed = AttributedAudit(
        parts=attribute_time(audit, PrecisionProver(canary, bf16_method), calls),
        iterations=audit.iterations,
        log_source=audit.log_source,
        library="oneDNN",
        bf16_allowed=_onednn_allowed_bf16(audit),
        counted=counted or (sum_flops(calls) if calls else None),
        logged=logged_types(audit.log.primitives),
        unread=audit.log.unparsed,
        onednn_version=audit.log.version,
        onednn_isa=audit.log.isa,
        blas=audit.blas,
        problems=audit.problems,
    )
    return judge_attributed(attributed, canary, requested, bf16_method)


def _onednn_allowed_bf16(audit: Audit) -> bool | None:
    primitives = [primitive for primitive in audit.log.primitives if primitive.is_compute]
    allowed = any(primitive.attributes.get("fpmath", "strict") not in ("strict", "") for primitive in primitives)
    return allowed if primitives else None


def judge_attributed(
    audit: AttributedAudit, canary: Canary | None, requested: str, bf16_method: str | None = None
) -> Evidence:
    """Judge an audit of any engine; the arguments are those of ``build_evidence``."""
    checks = {check.operator: check for check in canary.operators} if canary is not None else {}
    parts = audit.parts
    compute = [part for part in parts if part.is_compute]
    # In an audit of fp32, what matters is how much ran in bf16.
    reduced = "bf16" if requested == "fp32" else requested
    found = coverage(
        parts,
        audit.iterations,
        audit.counted,
        logged=audit.logged,
        requested=requested,
        unread=audit.unread,
        lists_all=audit.lists_all,
    )
    classes = _class_verdicts(compute, checks, reduced)
    findings = _Findings(audit, requested, bf16_method, compute, classes, checks, found)
    conclusion = _judge_fp32(findings) if requested == "fp32" else _judge_reduced(findings)
    total = sum(part.seconds for part in parts)
    reference = [part for part in compute if part.is_reference]
    return Evidence(
        requested=requested,
        bf16_method=bf16_method,
        verdict=conclusion.verdict,
        detail=conclusion.detail,
        line=conclusion.line,
        decided_by=tuple(sorted({part.decided_by for part in compute})),
        iterations=audit.iterations,
        seconds=total,
        compute_seconds=findings.seconds,
        compute_bf16_share=findings.share(reduced),
        unattributed_share=fraction((part.seconds for part in parts if part.precision == UNATTRIBUTED), total),
        reference_share=fraction((part.seconds for part in reference), total),
        reference_kernels=tuple(sorted({part.implementation for part in reference})),
        classes=tuple(findings.classes),
        by_implementation=time_shares(parts, lambda part: part.implementation, total),
        by_precision=time_shares(parts, lambda part: part.precision, total),
        by_operator=time_shares(parts, lambda part: part.operator, total),
        operators=operator_uses(parts),
        onednn_version=audit.onednn_version,
        onednn_isa=audit.onednn_isa,
        blas=audit.blas,
        log_source=audit.log_source,
        problems=audit.problems,
        coverage=found,
    )


def _class_verdicts(
    compute: Sequence[AttributedTime], checks: Mapping[str, OperatorCheck], reduced: str
) -> tuple[ClassVerdict, ...]:
    verdicts = []
    for kind in OperatorClass:
        parts = [part for part in compute if part.operator_class is kind]
        if not parts:
            continue
        seconds = sum(part.seconds for part in parts)
        check = checks.get(OperatorClass.MATMUL if kind is OperatorClass.ATTENTION else kind)
        verdicts.append(
            ClassVerdict(
                operator_class=kind,
                seconds=seconds,
                bf16_share=fraction((part.seconds for part in parts if part.precision == reduced), seconds),
                precisions=tuple(sorted({part.precision for part in parts})),
                decided_by=tuple(sorted({part.decided_by for part in parts})),
                canary_error=check.error if check else None,
                canary_level=check.level if check else None,
            )
        )
    return tuple(verdicts)


def _judge_reduced(findings: _Findings) -> _Conclusion:
    name = findings.requested
    if not findings.compute:
        return _unknown(name, _gap(findings) if findings.coverage.counted else _NO_PRODUCTS)
    share = findings.share(name)
    percent = f"{share * 100:.0f} % of compute time in {name} kernels"
    extents = [_extent(each.bf16_share) for each in findings.classes]
    by_class = ", ".join(f"{each.operator_class} {extent}" for each, extent in zip(findings.classes, extents))
    other = _other_precision([part for part in findings.compute if is_narrower(part.precision, name)])
    if not findings.is_covered:
        return _judge_what_is_known(findings, by_class, percent)
    of_arithmetic = findings.arithmetic(name)
    if of_arithmetic is not None and of_arithmetic < ACTIVE_SHARE <= share:
        # A layer may be much faster in fp32 than the others are in bf16, and most of the model for all that.
        share, percent = of_arithmetic, f"{percent}, which do {of_arithmetic * 100:.0f} % of the arithmetic"
    if share >= ACTIVE_SHARE and not other:
        # A class that takes little time here may take most of it in another model.
        detail = percent if all(extent == "yes" for extent in extents) else f"{by_class}; {percent}"
        return _Conclusion(ProofVerdict.ACTIVE, detail, f"{name}: ACTIVE ({detail})")
    if share >= INACTIVE_SHARE:
        detail = "; ".join(filter(None, (by_class, percent, other)))
        return _Conclusion(ProofVerdict.PARTLY, detail, f"{name}: PARTLY ({detail})")
    detail = other or _why_not_reduced(findings)
    return _Conclusion(ProofVerdict.NOT_ACTIVE, detail, f"{name}: REQUESTED, NOT ACTIVE ({detail})")


def _judge_what_is_known(findings: _Findings, by_class: str, percent: str) -> _Conclusion:
    """PARTLY if what is known already shows both precisions, whatever the rest is; otherwise UNKNOWN."""
    name, whole = findings.requested, sum(part.seconds for part in findings.audit.parts)
    in_name = fraction((part.seconds for part in findings.compute if part.precision == name), whole)
    known = [part for part in findings.compute if part.precision not in (name, UNKNOWN)]
    in_others = fraction((part.seconds for part in known), whole)
    if in_name >= INACTIVE_SHARE and in_others >= 1 - ACTIVE_SHARE:
        detail = f"{by_class}; {percent}; {_gap(findings)}"
        return _Conclusion(ProofVerdict.PARTLY, detail, f"{name}: PARTLY ({detail})")
    return _unknown(name, f"{percent}; {_gap(findings)}" if in_name >= INACTIVE_SHARE else _gap(findings))


def _unknown(name: str, detail: str) -> _Conclusion:
    return _Conclusion(ProofVerdict.UNKNOWN, detail, f"{name}: UNKNOWN ({detail})")


def _gap(findings: _Findings) -> str:
    """What is missing for a proof: lines, types, operators, and shares of the arithmetic and of the time."""
    found = findings.coverage
    reasons = []
    if found.unread:
        reasons.append(f"{found.unread} lines of the kernel log could not be read")
    if found.unexplained:
        reasons.append(f"the kernel log has {', '.join(found.unexplained)}, which no product explains")
    if found.uncounted:
        reasons.append(f"the operations of {', '.join(found.uncounted[:3])} are not known")
    if not findings.audit.lists_all:
        if found.known_arithmetic is None:
            reasons.append("the operations of the pass were not counted")
        elif found.known_arithmetic < KNOWN_SHARE:
            reasons.append(f"the precision of {_percent(1 - found.known_arithmetic)} of the arithmetic is not known")
    if found.known_time < KNOWN_SHARE or not reasons:
        names = ", ".join(f"{each.name} {_percent(each.share)}" for each in found.unknown[:3])
        reasons.append(f"what ran in {_percent(1 - found.known_time)} of the time is not known ({names})")
    return "; ".join(reasons)


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _other_precision(parts: Sequence[AttributedTime]) -> str:
    """Which classes ran in which other precision, and their kernels; empty if there are no ``parts``."""
    if not parts:
        return ""
    precisions = ", ".join(sorted({part.precision for part in parts}))
    kernels = ", ".join(sorted({part.implementation for part in parts})[:3])
    classes = " and ".join(sorted({str(part.operator_class) for part in parts}))
    return f"{classes} ran in {precisions}: {kernels}"


def _extent(share: float) -> str:
    return "yes" if share >= ACTIVE_SHARE else "no" if share < INACTIVE_SHARE else "partly"


def _why_not_reduced(findings: _Findings) -> str:
    """Explain why nothing ran in the precision, from what the log shows was allowed and which kernels ran."""
    kernels = ", ".join(longest(findings.compute, lambda part: part.implementation)[:2])
    errors = [
        each.canary_error
        for each in findings.classes
        if each.canary_level is CanaryLevel.FP32 and each.canary_error is not None
    ]
    canary = f"; canary error {max(errors):.0e} is fp32's" if errors else ""
    if findings.bf16_method in ("autocast", "cast"):
        precision = longest(findings.compute, lambda part: part.precision)[0]
        return f"operands stayed in {precision}: {kernels}{canary}"
    library, allowed, name = findings.audit.library, findings.audit.bf16_allowed, findings.requested
    if allowed:
        return f"{library} was allowed {name}, yet {kernels} computed in fp32{canary}"
    if allowed is False:
        return f"{library} was never allowed {name}, {kernels} ran{canary}"
    return f"no product went through {library}, {kernels} ran{canary}"


def _judge_fp32(findings: _Findings) -> _Conclusion:
    other = [part for part in findings.compute if part.precision not in ("fp32", "fp64", UNKNOWN)]
    if other:
        detail = _other_precision(other)
        return _Conclusion(ProofVerdict.NOT_FP32, detail, f"fp32: NOT FP32 ({detail})")
    inexact = (CanaryLevel.REDUCED, CanaryLevel.BF16, CanaryLevel.BROKEN)
    checks = [check for check in findings.checks.values() if check.level in inexact]
    if checks:
        detail = ", ".join(
            f"canary {each.operator} error {each.error or math.nan:.0e} is {each.level}" for each in checks
        )
        return _Conclusion(ProofVerdict.NOT_FP32, detail, f"fp32: NOT FP32 ({detail})")
    if not findings.compute and not findings.coverage.counted:
        return _unknown("fp32", _NO_PRODUCTS)
    if not findings.is_covered:
        return _unknown("fp32", _gap(findings))
    return _judge_without_bf16_kernel(findings)


def _judge_without_bf16_kernel(findings: _Findings) -> _Conclusion:
    """fp32 is proven only if the canary confirms every class: a BLAS may round inside its fp32 product."""
    unproven = [str(each.operator_class) for each in findings.classes if each.canary_level is not CanaryLevel.FP32]
    if unproven:
        return _unknown("fp32", f"no bf16 kernel in the audit, but no canary at fp32 level for {', '.join(unproven)}")
    error = max(each.canary_error for each in findings.classes if each.canary_error is not None)
    log = "no kernel log" if findings.audit.log_source is LogSource.NONE else "no bf16 kernel in the audit"
    detail = f"{log}, canary error {error:.0e}"
    return _Conclusion(ProofVerdict.FP32, detail, f"fp32: PROVEN ({detail})")
