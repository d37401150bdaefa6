"""Judge an audit: did the reduced precision run that was asked for, or is fp32 really fp32? Pure.

An engine that lists the nodes of a graph itself, each with its kernel, its types and its time, yields ``Node``, whose
``precision`` is that of the operands of a product. What the kernel made of them, an operator of the canary shows that
runs the same kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from modelzoo.evidence.coverage import (
    AttributedAudit,
    Node,
    can_be_compared,
    coverage,
    fraction,
    longest,
    operator_uses,
    time_shares,
)
from modelzoo.evidence.kernel_names import UNATTRIBUTED, UNKNOWN, UNKNOWN_KERNEL, has_weights, is_narrower
from modelzoo.evidence.logs import digest_of, names_bf16, untimed
from modelzoo.evidence.precision import PARTLY_IN_FP32, PrecisionProver
from modelzoo.evidence.probes import ERRORS
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.coverage import DISPATCH, MOVEMENT, NATIVE, Coverage
from modelzoo.records.evidence import (
    ACTIVE_SHARE,
    BF16_IN_FP32,
    INACTIVE_SHARE,
    ClassVerdict,
    Disagreement,
    Evidence,
    InexactCanary,
    KernelDigest,
    NotUsed,
    OperatorClass,
    OtherPrecision,
    Product,
    ProofSource,
    ProofVerdict,
    Subnormals,
)
from modelzoo.records.profile import Flops, Shape

QUANTIZED = ("int8", "int8 weight-only")
"""Precisions that a recipe obtains by quantizing the layers that have weights."""
Conclusion = tuple[ProofVerdict, OtherPrecision | InexactCanary | Disagreement | NotUsed | None]
"""A verdict, and what speaks against the requested precision."""


class _Findings(msgspec.Struct, frozen=True):
    """What the verdict is based on: the time in matrix products, and the canary's checks."""

    audit: AttributedAudit
    requested: str
    compute: Sequence[Node]
    checks: Mapping[str, OperatorCheck]
    coverage: Coverage

    @property
    def disagreement(self) -> Disagreement | None:
        """The products whose error shows another precision than the log names."""
        products = tuple(each for each in self.audit.products if each.disagrees)
        return Disagreement(products) if products else None

    @property
    def asked(self) -> Sequence[Node]:
        """The products that were to run in the precision: a recipe for int8 quantizes those with weights only."""
        is_quantized = self.requested in QUANTIZED
        return [part for part in self.compute if not is_quantized or has_weights(part.operator, part.operator_class)]

    def share(self, precision: str, parts: Sequence[Node]) -> float:
        """The share of ``parts`` in ``precision``, 0 to 1: of their operations, or of their time if those of one are
        not known."""
        has_all = all(part.flop is not None for part in parts) and any(part.flop for part in parts)
        weights = [(part.precision, (part.flop or 0) if has_all else part.seconds) for part in parts]
        return fraction((each for found, each in weights if found == precision), sum(each for _, each in weights))


def _probed_alike(audit: AttributedAudit) -> Iterator[Node]:
    """The parts of an audit, those in bf16 that were not probed as far as those that were show what they are.

    Without a probe, the types of the operands are known, and perhaps the kernel. If no bf16 instruction ran in what was
    probed, none did in the rest. Attention is one thing and all else another, as they call other libraries (MKL on x86,
    oneDNN): where the one ran in fp32, only the name of an instruction set says that the other did not.
    """
    shown = {
        is_attention: {
            each.subnormals
            for each in audit.products
            if each.operands == "bf16" and (each.operator_class is OperatorClass.ATTENTION) == is_attention
        }
        - {None}
        for is_attention in (True, False)
    }
    for part in audit.parts:
        own, other = (shown[(part.operator_class is OperatorClass.ATTENTION) == is_own] for is_own in (True, False))
        if part.precision != "bf16":
            yield part
        elif own == {Subnormals.IN_FP32}:
            yield replace(part, precision=BF16_IN_FP32, decided_by=ProofSource.PROBE)
        elif not own and Subnormals.IN_FP32 in other and part.is_compute and not names_bf16(part.implementation):
            yield replace(part, precision=UNKNOWN, decided_by=ProofSource.NOTHING)
        else:
            yield part


def judge_attributed(
    audit: AttributedAudit, canary: Canary | None, requested: str, bf16_method: str | None = None
) -> Evidence:
    """Judge an audit of any engine.

    Args:
        audit: what ran.
        canary: what the canary showed under the same setting, if it ran.
        requested: ``fp32``, ``tf32``, ``bf16``, ``fp16``, ``int8`` or ``int8 weight-only``.
        bf16_method: ``fastmath``, ``autocast``, ``cast``, or ``None`` for other precisions than bf16 and fp16.
    """
    checks = {check.operator: check for check in canary.operators} if canary is not None else {}
    audit = replace(audit, parts=list(_probed_alike(audit)))
    parts = audit.parts
    compute = [part for part in parts if part.is_compute]
    # In an audit of fp32, what matters is how much ran in bf16.
    reduced = "bf16" if requested == "fp32" else requested
    known = coverage(audit, requested)
    findings = _Findings(audit, requested, compute, checks, known)
    classes = _class_verdicts(findings, reduced)
    verdict, reason = _judge_fp32(findings, classes) if requested == "fp32" else _judge_reduced(findings)
    if any(each.wrong is not None for each in audit.products):
        verdict = ProofVerdict.WRONG_RESULTS
    total, in_products = sum(part.seconds for part in parts), sum(part.seconds for part in compute)
    reference = [part for part in compute if part.is_reference]
    return Evidence(
        requested=requested,
        bf16_method=bf16_method,
        verdict=verdict,
        reason=reason,
        iterations=audit.iterations,
        seconds=total,
        compute_seconds=in_products,
        compute_bf16_share=fraction((part.seconds for part in compute if part.precision == reduced), in_products),
        unattributed_share=fraction((part.seconds for part in parts if part.precision == UNATTRIBUTED), total),
        reference_share=fraction((part.seconds for part in reference), total),
        reference_kernels=tuple(sorted({part.implementation for part in reference})),
        classes=classes,
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
        arithmetic_share=None
        if requested == "fp32" or audit.lists_all
        else audit.arithmetic_share([part for part in compute if part.precision == requested]),
        products=tuple(_kept(each, requested, bf16_method) for each in audit.products),
        replay_seconds=audit.replay_seconds,
        unread_lines=tuple({untimed(line): line for line in audit.unread + audit.unread_in_products}.values())[:3],
    )


def _kept(product: Product, requested: str, bf16_method: str | None) -> Product:
    """A product without its call, unless it is wrong or ran in another precision than asked for."""
    is_allowed = bf16_method == "fastmath" or requested == "tf32"
    wanted = requested if product.operands == "fp32" and is_allowed else product.operands
    # cuDNN and cuBLAS need not use TF32 where it is allowed.
    expected = (None, wanted, "fp32") if requested == "tf32" else (None, wanted)
    is_other = product.operands == "fp32" and product.shown not in expected
    is_kept = product.wrong is not None or is_other or is_narrower(product.shown or "", wanted)
    if product.call is None or not is_kept or wanted not in ERRORS:
        return replace(product, call=None)
    least, below = ERRORS[wanted]
    return replace(product, call=replace(product.call, wanted=wanted, least=least, below=below))


def _class_verdicts(findings: _Findings, reduced: str) -> tuple[ClassVerdict, ...]:
    products, checks = findings.audit.products, findings.checks
    verdicts = []
    for kind in OperatorClass:
        parts = [part for part in findings.compute if part.operator_class is kind]
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
                bf16_share=findings.share(reduced, parts),
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
    share = findings.share(name, findings.asked)
    if share >= ACTIVE_SHARE and other is None:
        return ProofVerdict.ACTIVE, None
    if share >= INACTIVE_SHARE or any(part.precision == PARTLY_IN_FP32 for part in findings.compute):
        return ProofVerdict.PARTLY, other
    audit, compute = findings.audit, findings.compute
    return ProofVerdict.NOT_ACTIVE, other or NotUsed(
        precision=longest(compute, lambda part: part.precision)[0],
        kernels=tuple(longest(compute, lambda part: part.implementation)[:2]),
        library=audit.library,
        allowed=audit.bf16_allowed,
        dequantized=audit.dequantized if name in QUANTIZED else (),
    )


def _judge_what_is_known(findings: _Findings) -> ProofVerdict:
    """PARTLY if what is known already shows both precisions, whatever the rest is; otherwise UNKNOWN."""
    name, audit = findings.requested, findings.audit
    total = sum(part.seconds for part in audit.parts)

    def of_all(parts: Sequence[Node]) -> float:
        if audit.lists_all:
            return fraction((part.seconds for part in parts), total)
        return audit.arithmetic_share(parts) or 0.0

    in_name = of_all([part for part in findings.asked if part.precision == name])
    in_others = of_all([part for part in findings.asked if part.precision not in (name, UNKNOWN)])
    shows_both = in_name >= INACTIVE_SHARE and in_others >= 1 - ACTIVE_SHARE
    return ProofVerdict.PARTLY if shows_both else ProofVerdict.UNKNOWN


def _other_precision(parts: Sequence[Node]) -> OtherPrecision | None:
    """What ran in another precision; ``None`` if there are no ``parts``."""
    if not parts:
        return None
    return OtherPrecision(
        classes=tuple(sorted({part.operator_class for part in parts if part.operator_class is not None}, key=str)),
        precisions=tuple(sorted({part.precision for part in parts})),
        kernels=tuple(sorted({part.implementation for part in parts})[:3]),
    )


def _judge_fp32(findings: _Findings, classes: Sequence[ClassVerdict]) -> Conclusion:
    """fp32 is proven only if an error confirms it, of each product or of the canary for those that showed none
    themselves: a BLAS may round inside its fp32 product. A product in fp64 is not what was asked for either.
    """
    other = [part for part in findings.compute if part.precision not in ("fp32", UNKNOWN)]
    if other:
        return ProofVerdict.NOT_FP32, findings.disagreement or _other_precision(other)
    if findings.disagreement is not None:
        return ProofVerdict.UNKNOWN, findings.disagreement
    is_left_to_canary = any(not each.is_replayed for each in classes)
    inexact = (CanaryLevel.REDUCED, CanaryLevel.BF16, CanaryLevel.BROKEN)
    checks = tuple(check for check in findings.checks.values() if check.level in inexact)
    if checks and (is_left_to_canary or not classes):
        return ProofVerdict.NOT_FP32, InexactCanary(checks)
    is_confirmed = all(each.is_replayed or each.canary_level is CanaryLevel.FP32 for each in classes)
    is_proven = findings.coverage.is_enough and classes and is_confirmed
    return (ProofVerdict.FP32 if is_proven else ProofVerdict.UNKNOWN), None


CONTROL_FLOW = ("If", "Loop", "Scan", "TensorIterator")
_MOVEMENT = re.compile(
    r"Broadcast|Cast(Like)?|Concat\w*|ConstantOfShape|Convert|DepthToSpace|Expand|EyeLike|Flatten|Gather\w*|Identity|"
    r"Mem(ory|cpy)\w+|NonZero|OneHot|Pad|Range|Reorder\w*|Reshape|ReverseSequence|Scatter\w*|"
    r"Sequence(At|Construct|Empty|Erase|Insert|Length)|Shape(Of)?|ShuffleChannels|Size|(Strided)?Slice|SpaceToDepth|"
    r"Split\w*|Squeeze|Tile|Transpose|Trilu|Unsqueeze"
)
"""Operators of ONNX, ONNX Runtime and OpenVINO that create, copy or rearrange tensors only."""


def judge_nodes(
    listed: AttributedAudit,
    canary: Canary | None,
    requested: str,
    bf16_method: str | None,
    counted: Flops | None = None,
) -> Evidence:
    """Judge what an engine lists.

    Args:
        listed: all that ran, and the time in none of the nodes; ``lists_all`` unless a product may be missing.
        canary: what the canary showed under the same options, if it ran.
        requested: ``fp32``, ``bf16`` or ``int8``.
        bf16_method: as in the setting.
        counted: the operations that torch counts in a pass of the same model.
    """
    prover = PrecisionProver(canary, bf16_method)
    parts = []
    for node in listed.parts:
        if node.operator_class is not None:
            proof = prover.prove_operands(node.precision, node.canary, node.decided_by)
            node = replace(node, **proof._asdict())
        parts.append(node)
    audit = replace(
        listed,
        parts=parts,
        bf16_allowed=bf16_method is not None if any(part.is_compute for part in parts) else None,
        counted=counted,
        lists_all=listed.lists_all and not can_be_compared(parts, counted),
    )
    return judge_attributed(audit, canary, requested, bf16_method)


def node_digest(nodes: Sequence[Node]) -> KernelDigest | None:
    """Summarize which kernels the nodes of one pass are; ``None`` if none of them multiplies matrices.

    The first size of each operand is left out: it is the number of items, which in detectors depends on the data.
    """
    return digest_of(
        (node.implementation, node.precision, tuple(shape[1:] for shape in node.shapes), 1)
        for node in nodes
        if node.operator_class is not None
    )


def category_of(operator: str, *, is_known: bool) -> str:
    """Return what a node spends its time on that is no product, given whether it is known to be none."""
    if operator in CONTROL_FLOW:
        return DISPATCH
    if _MOVEMENT.fullmatch(operator):
        return MOVEMENT
    return NATIVE if is_known else UNKNOWN_KERNEL


def is_pointwise(shapes: Sequence[Shape]) -> bool:
    """Return whether the weights of a convolution, the second of its operands, are 1×1."""
    weights = shapes[1] if len(shapes) > 1 else ()
    return len(weights) > 2 and set(weights[2:]) == {1}


def canary_convolution(shapes: Sequence[Shape]) -> str | None:
    """Return the canary's operator for a convolution of these operands; ``None`` for one in groups, as it has none."""
    image, weights = (*shapes[:2], (), ())[:2]
    if len(weights) > len(image) > 0 or (len(weights) > 1 and len(image) > 1 and weights[1] < image[1]):
        return None
    return "pointwise" if is_pointwise(shapes) else "conv"
