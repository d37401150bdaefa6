"""Judge an audit: did the reduced precision run that was asked for, or is fp32 really fp32? Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelzoo.evidence.attribution import UNATTRIBUTED, AttributedTime, attribute_time
from modelzoo.evidence.observation import Audit
from modelzoo.evidence.precision_proof import UNKNOWN
from modelzoo.evidence.time_shares import fraction, longest, operator_uses, time_shares
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.evidence import ClassVerdict, Evidence, LogSource, OperatorClass, ProofVerdict

ACTIVE_SHARE = 0.90
"""A reduced precision is ACTIVE if at least this share of the compute time ran in its kernels.

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
        onednn_version: as in ``Evidence``, and so are the following.
    """

    parts: Sequence[AttributedTime]
    iterations: int
    log_source: LogSource
    library: str
    bf16_allowed: bool | None
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

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.compute)

    def share(self, precision: str) -> float:
        """The share of compute time in ``precision``, 0 to 1."""
        return fraction((part.seconds for part in self.compute if part.precision == precision), self.seconds)


def build_evidence(audit: Audit, canary: Canary | None, requested: str, bf16_method: str | None = None) -> Evidence:
    """Judge an audit of torch.

    Args:
        audit: what ran.
        canary: what the canary showed under the same setting, if it ran.
        requested: ``fp32``, ``tf32``, ``bf16`` or ``fp16``.
        bf16_method: ``fastmath``, ``autocast``, ``cast``, or ``None`` for fp32 and tf32.
    """
    levels = {check.operator: check.level for check in canary.operators} if canary is not None else {}
    parts, problems = attribute_time(audit, levels, bf16_method)
    attributed = AttributedAudit(
        parts=parts,
        iterations=audit.iterations,
        log_source=audit.log_source,
        library="oneDNN",
        bf16_allowed=_onednn_allowed_bf16(audit),
        onednn_version=audit.log.version,
        onednn_isa=audit.log.isa,
        blas=audit.blas,
        problems=(*audit.problems, *problems),
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
    findings = _Findings(audit, requested, bf16_method, compute, _class_verdicts(compute, checks, reduced), checks)
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
        return _Conclusion(ProofVerdict.UNKNOWN, _NO_PRODUCTS, f"{name}: UNKNOWN ({_NO_PRODUCTS})")
    share, unknown = findings.share(name), findings.share(UNKNOWN)
    percent = f"{share * 100:.0f} % of compute time in {name} kernels"
    extents = [_extent(each.bf16_share) for each in findings.classes]
    by_class = ", ".join(f"{each.operator_class} {extent}" for each, extent in zip(findings.classes, extents))
    undetermined = f"the precision of {unknown * 100:.0f} % of compute time could not be determined"
    if share >= ACTIVE_SHARE:
        # A class that takes little time here may take most of it in another model.
        detail = percent if all(extent == "yes" for extent in extents) else f"{by_class}; {percent}"
        return _Conclusion(ProofVerdict.ACTIVE, detail, f"{name}: ACTIVE ({detail})")
    if share + unknown >= ACTIVE_SHARE:
        detail = undetermined if share < INACTIVE_SHARE else f"{percent}; {undetermined}"
        return _Conclusion(ProofVerdict.UNKNOWN, detail, f"{name}: UNKNOWN ({detail})")
    if share >= INACTIVE_SHARE:
        detail = f"{by_class}; {percent}" + (f"; {undetermined}" if unknown >= INACTIVE_SHARE else "")
        return _Conclusion(ProofVerdict.PARTLY, detail, f"{name}: PARTLY ({detail})")
    detail = _why_not_reduced(findings)
    return _Conclusion(ProofVerdict.NOT_ACTIVE, detail, f"{name}: REQUESTED, NOT ACTIVE ({detail})")


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
        precisions = ", ".join(sorted({part.precision for part in other}))
        kernels = ", ".join(sorted({part.implementation for part in other})[:3])
        classes = " and ".join(sorted({str(part.operator_class) for part in other}))
        detail = f"{classes} ran in {precisions}: {kernels}"
        return _Conclusion(ProofVerdict.NOT_FP32, detail, f"fp32: NOT FP32 ({detail})")
    inexact = (CanaryLevel.REDUCED, CanaryLevel.BF16, CanaryLevel.BROKEN)
    checks = [check for check in findings.checks.values() if check.level in inexact]
    if checks:
        detail = ", ".join(
            f"canary {each.operator} error {each.error or math.nan:.0e} is {each.level}" for each in checks
        )
        return _Conclusion(ProofVerdict.NOT_FP32, detail, f"fp32: NOT FP32 ({detail})")
    if not findings.compute:
        return _Conclusion(ProofVerdict.UNKNOWN, _NO_PRODUCTS, f"fp32: UNKNOWN ({_NO_PRODUCTS})")
    return _judge_without_bf16_kernel(findings)


def _judge_without_bf16_kernel(findings: _Findings) -> _Conclusion:
    """fp32 is proven only if the canary confirms every class: a BLAS may round inside its fp32 product."""
    unproven = [str(each.operator_class) for each in findings.classes if each.canary_level is not CanaryLevel.FP32]
    if unproven or any(part.precision == UNKNOWN for part in findings.compute):
        detail = f"no bf16 kernel in the audit, but no canary at fp32 level for {', '.join(unproven) or 'all'}"
        return _Conclusion(ProofVerdict.UNKNOWN, detail, f"fp32: UNKNOWN ({detail})")
    error = max(each.canary_error for each in findings.classes if each.canary_error is not None)
    log = "no kernel log" if findings.audit.log_source is LogSource.NONE else "no bf16 kernel in the audit"
    detail = f"{log}, canary error {error:.0e}"
    return _Conclusion(ProofVerdict.FP32, detail, f"fp32: PROVEN ({detail})")
