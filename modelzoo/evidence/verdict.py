"""Judge an audit: did the reduced precision run that was asked for, or is fp32 really fp32? Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

import msgspec

from modelzoo.evidence.attribution import UNATTRIBUTED, AttributedTime
from modelzoo.evidence.audited import AttributedAudit, attribute_audit
from modelzoo.evidence.coverage import (
    arithmetic_share,
    coverage,
    fraction,
    longest,
    operator_uses,
    time_shares,
)
from modelzoo.evidence.flops import Call
from modelzoo.evidence.kernel_names import has_weights, operator_class
from modelzoo.evidence.observation import Audit, Replays
from modelzoo.evidence.onednn_log import untimed
from modelzoo.evidence.precision import PARTLY_IN_FP32, UNKNOWN, is_narrower
from modelzoo.evidence.probes import ERRORS
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.coverage import Coverage
from modelzoo.records.evidence import (
    ACTIVE_SHARE,
    BF16_IN_FP32,
    INACTIVE_SHARE,
    ClassVerdict,
    Disagreement,
    Evidence,
    InexactCanary,
    NotUsed,
    OperatorClass,
    OtherPrecision,
    Product,
    ProofSource,
    ProofVerdict,
    Subnormals,
)
from modelzoo.records.profile import Flops

QUANTIZED = ("int8", "int8 weight-only")
"""Precisions that a recipe obtains by quantizing the layers that have weights."""
Conclusion = tuple[ProofVerdict, Union[OtherPrecision, InexactCanary, Disagreement, NotUsed, None]]
"""A verdict, and what speaks against the requested precision."""


class _Findings(msgspec.Struct, frozen=True):
    """What the verdict is based on: the time in matrix products, in total and by class, and the canary's checks."""

    audit: AttributedAudit
    requested: str
    bf16_method: str | None
    compute: Sequence[AttributedTime]
    classes: Sequence[ClassVerdict]
    checks: Mapping[str, OperatorCheck]
    coverage: Coverage

    @property
    def disagreement(self) -> Disagreement | None:
        """The products whose error shows another precision than the log names."""
        products = tuple(each for each in self.audit.products if each.disagrees)
        return Disagreement(products) if products else None

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.compute)

    @property
    def asked(self) -> Sequence[AttributedTime]:
        """The products that were to run in the precision: a recipe for int8 quantizes those with weights only."""
        is_quantized = self.requested in QUANTIZED
        return [part for part in self.compute if not is_quantized or has_weights(part.operator, part.operator_class)]

    def share(self, precision: str) -> float:
        """The share of compute time in ``precision``, 0 to 1."""
        return fraction((part.seconds for part in self.compute if part.precision == precision), self.seconds)

    def arithmetic(self, precision: str) -> float | None:
        """The share of the counted operations in ``precision``, 0 to 1; ``None`` if they cannot be told."""
        if self.audit.lists_all:
            return None
        return arithmetic_share(self.compute, precision, self.audit.iterations, self.audit.counted)

    def time_share(self, precision: str) -> float:
        """The share in ``precision`` of the time of what was to run in it."""
        seconds = sum(part.seconds for part in self.asked)
        return fraction((part.seconds for part in self.asked if part.precision == precision), seconds)

    def least_share(self, precision: str) -> float:
        """The share in ``precision`` of what was to run in it: of its time or of its operations, whichever is less."""
        asked, counted = self.asked, self.audit.counted
        share = self.time_share(precision)
        if self.audit.lists_all or share < ACTIVE_SHARE:
            return share
        if counted is not None and self.requested in QUANTIZED:
            flops = counted.by_operator.items()
            with_weights = {name: flop for name, flop in flops if has_weights(name, operator_class(name))}
            counted = replace(counted, total=sum(with_weights.values()), by_operator=with_weights)
        # A layer may be much faster in fp32 than the others are in bf16, and most of the model for all that.
        of_arithmetic = arithmetic_share(asked, precision, self.audit.iterations, counted)
        return share if of_arithmetic is None else min(share, of_arithmetic)


def build_evidence(
    audit: Audit,
    canary: Canary | None,
    requested: str,
    bf16_method: str | None = None,
    *,
    calls: Sequence[Call] = (),
    counted: Flops | None = None,
    replays: Replays | None = None,
) -> Evidence:
    """Judge an audit of torch, or of another framework that computes with oneDNN.

    Args:
        audit: what ran.
        canary: what the canary showed under the same setting, if it ran.
        requested: ``fp32``, ``tf32``, ``bf16``, ``fp16``, ``int8`` or ``int8 weight-only``.
        bf16_method: ``fastmath``, ``autocast``, ``cast``, or ``None`` for other precisions than bf16 and fp16.
        calls: the recorded calls of one eager pass of the same model under the same setting.
        counted: the operations of one pass; by default those of ``calls``.
        replays: what the products of this pass showed themselves.
    """
    attributed = attribute_audit(audit, canary, bf16_method, calls=calls, counted=counted, replays=replays)
    return judge_attributed(attributed, canary, requested, bf16_method)


def judge_attributed(
    audit: AttributedAudit, canary: Canary | None, requested: str, bf16_method: str | None = None
) -> Evidence:
    """Judge an audit of any engine; the arguments are those of ``build_evidence``."""
    checks = {check.operator: check for check in canary.operators} if canary is not None else {}
    parts = _as_probed(audit.parts, audit.products)
    compute = [part for part in parts if part.is_compute]
    # In an audit of fp32, what matters is how much ran in bf16.
    reduced = "bf16" if requested == "fp32" else requested
    known = coverage(
        parts,
        audit.iterations,
        audit.counted,
        logged=audit.logged,
        requested=requested,
        unread=len(audit.unread),
        lists_all=audit.lists_all,
        replays=audit.replays,
        whole=audit.whole,
    )
    classes = _class_verdicts(compute, checks, reduced, audit.products)
    findings = _Findings(audit, requested, bf16_method, compute, classes, checks, known)
    verdict, reason = _judge_fp32(findings) if requested == "fp32" else _judge_reduced(findings)
    if any(each.wrong is not None for each in audit.products):
        verdict = ProofVerdict.WRONG_RESULTS
    total = sum(part.seconds for part in parts)
    reference = [part for part in compute if part.is_reference]
    return Evidence(
        requested=requested,
        bf16_method=bf16_method,
        verdict=verdict,
        reason=reason,
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
        coverage=known,
        arithmetic_share=None if requested == "fp32" else findings.arithmetic(requested),
        products=tuple(_kept(each, requested, bf16_method) for each in audit.products),
        replay_seconds=audit.replays.seconds if audit.replays is not None and audit.products else None,
        unread_lines=tuple({untimed(line): line for line in audit.unread + audit.unread_in_products}.values())[:3],
    )


def _as_probed(parts: Sequence[AttributedTime], products: Sequence[Product]) -> Sequence[AttributedTime]:
    """``parts``, with bf16 operands multiplied in fp32 if subnormal products show that of all products that were tried.

    Of the others only the types of their operands are known.
    """
    tried = {each.subnormals for each in products if each.operands == "bf16"} - {None}
    if tried != {Subnormals.IN_FP32}:
        return parts
    return [
        replace(part, precision=BF16_IN_FP32, decided_by=ProofSource.PROBE) if part.precision == "bf16" else part
        for part in parts
    ]


def _kept(product: Product, requested: str, bf16_method: str | None) -> Product:
    """A product without its call, unless it is wrong or ran in another precision than asked for."""
    wanted = requested if product.operands == "fp32" and bf16_method == "fastmath" else product.operands
    is_other = product.operands == "fp32" and product.shown not in (None, wanted)
    is_kept = product.wrong is not None or is_other or is_narrower(product.shown or "", product.operands)
    if product.call is None or not is_kept or wanted not in ERRORS:
        return replace(product, call=None)
    least, below = ERRORS[wanted]
    return replace(product, call=replace(product.call, wanted=wanted, least=least, below=below))


def _class_verdicts(
    compute: Sequence[AttributedTime],
    checks: Mapping[str, OperatorCheck],
    reduced: str,
    products: Sequence[Product],
) -> tuple[ClassVerdict, ...]:
    verdicts = []
    for kind in OperatorClass:
        parts = [part for part in compute if part.operator_class is kind]
        if not parts:
            continue
        seconds = sum(part.seconds for part in parts)
        is_replayed = all(part.product is not None and products[part.product].not_replayed is None for part in parts)
        check = checks.get(OperatorClass.MATMUL if kind is OperatorClass.ATTENTION else kind)
        check = None if is_replayed else check
        verdicts.append(
            ClassVerdict(
                operator_class=kind,
                seconds=seconds,
                bf16_share=fraction((part.seconds for part in parts if part.precision == reduced), seconds),
                precisions=tuple(sorted({part.precision for part in parts})),
                decided_by=tuple(sorted({part.decided_by for part in parts})),
                canary_error=check.error if check else None,
                canary_level=check.level if check else None,
                is_replayed=is_replayed,
            )
        )
    return tuple(verdicts)


def _judge_reduced(findings: _Findings) -> Conclusion:
    if not findings.compute:
        return ProofVerdict.UNKNOWN, None
    if findings.disagreement is not None:
        return ProofVerdict.UNKNOWN, findings.disagreement
    name = findings.requested
    other = _other_precision([part for part in findings.compute if is_narrower(part.precision, name)])
    if not findings.coverage.is_enough:
        return _judge_what_is_known(findings), None
    if findings.least_share(name) >= ACTIVE_SHARE and other is None:
        return ProofVerdict.ACTIVE, None
    # Fast kernels may take next to no time for much of the arithmetic, and slow ones the opposite.
    is_mixed = any(part.precision == PARTLY_IN_FP32 for part in findings.compute)
    if is_mixed or max(findings.time_share(name), findings.arithmetic(name) or 0.0) >= INACTIVE_SHARE:
        return ProofVerdict.PARTLY, other
    return ProofVerdict.NOT_ACTIVE, other or _not_used(findings)


def _judge_what_is_known(findings: _Findings) -> ProofVerdict:
    """PARTLY if what is known already shows both precisions, whatever the rest is; otherwise UNKNOWN."""
    name, whole = findings.requested, sum(part.seconds for part in findings.audit.parts)
    in_name = fraction((part.seconds for part in findings.asked if part.precision == name), whole)
    known = [part for part in findings.asked if part.precision not in (name, UNKNOWN)]
    in_others = fraction((part.seconds for part in known), whole)
    shows_both = in_name >= INACTIVE_SHARE and in_others >= 1 - ACTIVE_SHARE
    return ProofVerdict.PARTLY if shows_both else ProofVerdict.UNKNOWN


def _other_precision(parts: Sequence[AttributedTime]) -> OtherPrecision | None:
    """What ran in another precision; ``None`` if there are no ``parts``."""
    if not parts:
        return None
    return OtherPrecision(
        classes=tuple(sorted({part.operator_class for part in parts if part.operator_class is not None}, key=str)),
        precisions=tuple(sorted({part.precision for part in parts})),
        kernels=tuple(sorted({part.implementation for part in parts})[:3]),
    )


def _not_used(findings: _Findings) -> NotUsed:
    return NotUsed(
        precision=longest(findings.compute, lambda part: part.precision)[0],
        kernels=tuple(longest(findings.compute, lambda part: part.implementation)[:2]),
        library=findings.audit.library,
        allowed=findings.audit.bf16_allowed,
        dequantized=findings.audit.dequantized if findings.requested in QUANTIZED else (),
    )


def _judge_fp32(findings: _Findings) -> Conclusion:
    """fp32 is proven only if an error confirms it, of each product or of the canary for those that showed none
    themselves: a BLAS may round inside its fp32 product. A product in fp64 is not what was asked for either.
    """
    other = [part for part in findings.compute if part.precision not in ("fp32", UNKNOWN)]
    if other:
        return ProofVerdict.NOT_FP32, findings.disagreement or _other_precision(other)
    if findings.disagreement is not None:
        return ProofVerdict.UNKNOWN, findings.disagreement
    is_left_to_canary = any(not each.is_replayed for each in findings.classes)
    inexact = (CanaryLevel.REDUCED, CanaryLevel.BF16, CanaryLevel.BROKEN)
    checks = tuple(check for check in findings.checks.values() if check.level in inexact)
    if checks and (is_left_to_canary or not findings.classes):
        return ProofVerdict.NOT_FP32, InexactCanary(checks)
    is_confirmed = all(each.is_replayed or each.canary_level is CanaryLevel.FP32 for each in findings.classes)
    is_proven = findings.coverage.is_enough and findings.classes and is_confirmed
    return (ProofVerdict.FP32 if is_proven else ProofVerdict.UNKNOWN), None
