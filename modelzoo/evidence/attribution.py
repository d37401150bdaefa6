"""Attribute every second of an audit to a kernel and a precision. Pure.

``attribute_time`` works in these steps:

1. Match each operator with the oneDNN primitive that ran in it (``modelzoo.evidence.matching``).
2. Attribute each operator's self time. With a primitive: the primitive's time to its kernel; the remaining time is left
   for step 3. A product without a primitive: to BLAS or to a native kernel. Any other operator: to memory movement,
   dispatch or a native kernel (``modelzoo.evidence.kernel_names``).
3. Divide the remaining time of the operators with a primitive into reorders, set-up and unattributed time.
4. Take the primitives that match no operator out of the time between operators, where a compiler or TorchScript calls
   oneDNN directly.

Time that no source explains stays ``unattributed``; it is never spread over other rows. The parts therefore add up to
the time of the audited passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelzoo.evidence.kernel_names import (
    BETWEEN_OPERATORS,
    DISPATCH,
    INDUCTOR,
    MOVEMENT,
    NATIVE,
    attention_kernel,
    display_name,
    library_kernel,
    operand_type,
    other_kernel,
)
from modelzoo.evidence.matching import classify, is_gemm, match_primitives
from modelzoo.evidence.observation import Audit, Event
from modelzoo.evidence.onednn_log import Primitive
from modelzoo.evidence.precision_proof import PrecisionProver
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import OperatorClass, ProofSource
from modelzoo.records.profile import Shape

UNATTRIBUTED = "unattributed"
_NOT_A_PRECISION = (MOVEMENT, NATIVE, DISPATCH, UNATTRIBUTED)

SETUP_SECONDS = 1e-3
"""The longest time per call of a oneDNN operator that is attributed to set-up.

oneDNN logs every kernel, so the operator's other time is set-up: creating the primitive descriptor, looking it up in
the cache, allocating scratch memory. It takes 0.07 to 0.3 ms per call on a quiet x86 server and 0.8 ms on a contended
one (measured). Time beyond 1 ms has another cause and stays unattributed.
"""


@dataclass(frozen=True)
class AttributedTime:
    """A part of one operator's self time, and what it was spent on.

    ``precision`` is that of the product, or a category (``MOVEMENT``, ``NATIVE``, ``DISPATCH``, ``UNATTRIBUTED``) if
    nothing was multiplied. ``count`` is the number of calls that this part stands for: the parts of one call count
    only once.
    """

    operator: str
    operator_class: OperatorClass | None
    shapes: tuple[Shape, ...]
    implementation: str
    precision: str
    decided_by: ProofSource
    seconds: float
    count: int = 1
    is_reference: bool = False

    @property
    def is_compute(self) -> bool:
        """Whether the time was spent multiplying matrices."""
        return self.precision not in _NOT_A_PRECISION


def attribute_time(
    audit: Audit, levels: Mapping[str, CanaryLevel], bf16_method: str | None
) -> tuple[list[AttributedTime], list[str]]:
    """Attribute the time of ``audit``.

    Args:
        audit: what ran.
        levels: the canary's level by operator (``matmul``, ``linear``, ``conv``); may be empty.
        bf16_method: how bf16 was requested, ``None`` for fp32.

    Returns:
        The parts, whose seconds add up to the time of the audited passes, and messages about what could not be
        attributed.
    """
    classes = classify(audit.events)
    matches, unmatched = match_primitives(audit.events, classes, audit.log.primitives)
    onednn_classes = {kind for kind in (classes[index] for index in matches) if kind is not None}
    prover = PrecisionProver(levels, bf16_method, onednn_classes)
    if not audit.events:
        return _attribute_log(audit, prover), []
    # Attention calls oneDNN from several threads at once: its products match no operator, and their times overlap.
    has_attention = OperatorClass.ATTENTION in classes
    attention_products = [primitive for primitive in unmatched if has_attention and is_gemm(primitive)]
    unclaimed = [primitive for primitive in unmatched if not (has_attention and is_gemm(primitive))]
    parts: list[AttributedTime] = []
    remainders: list[AttributedTime] = []
    for index, (event, kind) in enumerate(zip(audit.events, classes)):
        if index in matches:
            in_primitive, remainder = _attribute_matched(event, kind, matches[index], prover)
            parts.append(in_primitive)
            remainders.append(remainder)
        elif kind is not None:
            parts.append(_attribute_library_call(event, kind, attention_products, audit, prover))
        else:
            parts.append(_attribute_other(event))
    reorders = [primitive for primitive in audit.log.primitives if primitive.kind == "reorder"]
    parts += _divide_remainders(remainders, reorders)
    return _place_unclaimed(parts, unclaimed, prover)


def _attribute_matched(
    event: Event, kind: OperatorClass | None, primitive: Primitive, prover: PrecisionProver
) -> tuple[AttributedTime, AttributedTime]:
    """Divide a call into the time inside its primitive and the remainder."""
    inside = min(primitive.seconds, event.seconds)
    in_primitive = _attribute_primitive(primitive, kind, prover)
    if primitive.is_compute and kind is OperatorClass.CONV and is_gemm(primitive):
        in_primitive = replace(in_primitive, implementation=f"im2col and {in_primitive.implementation}")
    in_primitive = replace(in_primitive, operator=display_name(event), shapes=event.shapes, seconds=inside)
    remainder = replace(
        in_primitive,
        precision=UNATTRIBUTED,
        decided_by=ProofSource.NOTHING,
        seconds=event.seconds - inside,
        count=0,
        is_reference=False,
    )
    return in_primitive, remainder


def _attribute_primitive(primitive: Primitive, kind: OperatorClass | None, prover: PrecisionProver) -> AttributedTime:
    """A primitive by itself; without a ``kind`` its own kind decides the class."""
    if primitive.is_compute:
        own_kind = OperatorClass.LINEAR if is_gemm(primitive) else OperatorClass.CONV
        # An unfolded convolution computes a plain product, so the canary's Linear shows its precision.
        canary_kind = own_kind if kind in (None, OperatorClass.CONV) else kind
        proof = prover.prove_primitive(primitive, canary_kind)
        implementation = f"oneDNN {primitive.implementation}"
        precision, decided_by = proof.precision, proof.decided_by
        kind = kind or own_kind
    else:
        implementation = f"oneDNN {primitive.kind} {primitive.implementation}"
        precision, decided_by = MOVEMENT if primitive.kind == "reorder" else NATIVE, ProofSource.KERNEL_LOG
    return AttributedTime(
        operator=f"onednn::{primitive.kind}",
        operator_class=kind,
        shapes=(),
        implementation=implementation,
        precision=precision,
        decided_by=decided_by,
        seconds=primitive.seconds,
        is_reference=primitive.is_reference,
    )


def _attribute_library_call(
    event: Event,
    kind: OperatorClass,
    attention_products: Sequence[Primitive],
    audit: Audit,
    prover: PrecisionProver,
) -> AttributedTime:
    """A product without a primitive of its own."""
    if kind is OperatorClass.ATTENTION and attention_products:
        kernel, given = attention_kernel(attention_products)
    else:
        kernel, given = library_kernel(event, kind, audit), operand_type(event)
    proof = prover.prove_library_call(given, event.name, kind)
    return AttributedTime(
        display_name(event), kind, event.shapes, kernel, proof.precision, proof.decided_by, event.seconds
    )


def _attribute_other(event: Event) -> AttributedTime:
    """An operator that multiplies no matrices."""
    kernel, category = other_kernel(event)
    name = display_name(event)
    return AttributedTime(name, None, event.shapes, kernel, category, ProofSource.DATA_TYPES, event.seconds)


def _divide_remainders(remainders: Sequence[AttributedTime], reorders: Sequence[Primitive]) -> list[AttributedTime]:
    """Divide the time that oneDNN's operators spent outside their primitive: reorders, set-up, unattributed.

    The log does not show which operator a reorder belongs to, so reorders take the same fraction of every remainder.
    """
    available = sum(remainder.seconds for remainder in remainders)
    logged = sum(primitive.seconds for primitive in reorders)
    fraction = min(1.0, logged / available) if available > 0 else 0.0
    parts = []
    for remainder in remainders:
        reorder = remainder.seconds * fraction
        setup = min(remainder.seconds - reorder, SETUP_SECONDS)
        known = replace(remainder, decided_by=ProofSource.KERNEL_LOG)
        parts.append(replace(known, implementation="oneDNN reorder", precision=MOVEMENT, seconds=reorder))
        parts.append(replace(known, implementation="oneDNN set-up", precision=DISPATCH, seconds=setup))
        unexplained = remainder.seconds - reorder - setup
        parts.append(replace(remainder, implementation=UNATTRIBUTED, seconds=unexplained))
    return parts


def _place_unclaimed(
    parts: list[AttributedTime], unclaimed: Sequence[Primitive], prover: PrecisionProver
) -> tuple[list[AttributedTime], list[str]]:
    """Take primitives that match no operator out of the time between operators, longest part first.

    If they took longer than that time, they are left out and a message says so.
    """
    needed = sum(primitive.seconds for primitive in unclaimed)
    hosts = [index for index, part in enumerate(parts) if part.implementation in (BETWEEN_OPERATORS, INDUCTOR)]
    hosts.sort(key=lambda index: -parts[index].seconds)
    if needed > sum(parts[index].seconds for index in hosts):
        kernels = ", ".join(sorted({primitive.implementation for primitive in unclaimed}))
        return parts, [f"{len(unclaimed)} oneDNN primitives ({kernels}) could not be matched with an operator"]
    parts = list(parts)
    for index in hosts:
        taken = min(parts[index].seconds, needed)
        parts[index] = replace(parts[index], seconds=parts[index].seconds - taken)
        needed -= taken
    return parts + [_attribute_primitive(primitive, None, prover) for primitive in unclaimed], []


def _attribute_log(audit: Audit, prover: PrecisionProver) -> list[AttributedTime]:
    """Without profiler events: oneDNN's primitives, and the rest of the wall time unattributed."""
    parts = [_attribute_primitive(primitive, None, prover) for primitive in audit.log.primitives]
    rest = max(audit.seconds - sum(part.seconds for part in parts), 0.0)
    unattributed = AttributedTime(
        UNATTRIBUTED, None, (), UNATTRIBUTED, UNATTRIBUTED, ProofSource.NOTHING, rest, count=0
    )
    return [*parts, unattributed]
