"""Attribute every second of an audit to a kernel and a precision. Pure.

``attribute_time`` works in these steps:

1. Match each operator with the oneDNN primitive that ran in it (``modelzoo.evidence.matching``).
2. Attribute each operator's self time. With a primitive: the primitive's time to its kernel; the remaining time is left
   for step 3. A product without a primitive: to BLAS or to a native kernel. Any other operator: to memory movement,
   dispatch or a native kernel (``modelzoo.evidence.kernel_names``).
3. Divide the remaining time of the operators with a primitive into reorders, set-up and unattributed time.
4. Take the primitives that match no operator, and what MKL's log shows beyond the operators, out of the time between
   operators, where a compiler or TorchScript calls the libraries directly. All of them are kept, even if that time is
   too short for them.

Time that no source explains stays ``unattributed``; it is never spread over other rows. The parts therefore add up to
the time of the audited passes.

The precision of a product is decided by ``modelzoo.evidence.precision``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from modelzoo.evidence.flops import Call, CostTable, product_flop, tensor_shapes
from modelzoo.evidence.kernel_names import (
    BETWEEN_OPERATORS,
    DISPATCH,
    INDUCTOR,
    MOVEMENT,
    NATIVE,
    UNKNOWN_KERNEL,
    UNREAD_KERNEL,
    attention_kernel,
    display_name,
    is_native_loop,
    library_kernel,
    named_precision,
    operator_class,
    other_kernel,
    product_type,
)
from modelzoo.evidence.matching import classify, is_gemm, is_of_attention, match_primitives, owners
from modelzoo.evidence.observation import Audit, Event, Replays
from modelzoo.evidence.onednn_log import Primitive, problem_flop
from modelzoo.evidence.precision import NO_PROOF, PrecisionProof, PrecisionProver, own_proof
from modelzoo.frozen import replace
from modelzoo.records.evidence import OperatorClass, Product, ProofSource
from modelzoo.records.profile import Shape

UNATTRIBUTED = "unattributed"
_NOT_A_PRECISION = (MOVEMENT, NATIVE, DISPATCH, UNATTRIBUTED, UNKNOWN_KERNEL)

SETUP_SECONDS = 1e-3
"""The longest time per call of a oneDNN operator that is attributed to set-up.

oneDNN logs every kernel, so the operator's other time is set-up: creating the primitive descriptor, looking it up in
the cache, allocating scratch memory. It takes 0.07 to 0.3 ms per call on a quiet x86 server and 0.8 ms on a contended
one (measured). Time beyond 1 ms has another cause and stays unattributed.
"""


class AttributedTime(msgspec.Struct, frozen=True):
    """A part of one operator's self time, and what it was spent on.

    ``precision`` is that of the product, or a category (``MOVEMENT``, ``NATIVE``, ``DISPATCH``, ``UNATTRIBUTED``,
    ``UNKNOWN_KERNEL``) if it is not known to be one. ``count`` is the number of calls that this part stands for: the
    parts of one call count only once. ``flop`` are the operations of a product, ``None`` if they are not known.
    ``product`` is the place of the product that was replayed, ``None`` if it is a part of none; ``is_confirmed`` says
    that the replay ran the same kernel.
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
    flop: int | None = None
    product: int | None = None
    is_confirmed: bool = False

    @property
    def is_compute(self) -> bool:
        """Whether the time was spent multiplying matrices."""
        return self.precision not in _NOT_A_PRECISION


def attribute_time(
    audit: Audit, prover: PrecisionProver, calls: Sequence[Call] = (), replays: Replays | None = None
) -> list[AttributedTime]:
    """Attribute the time of ``audit``.

    Args:
        audit: what ran.
        prover: decides the precision of products that show none themselves.
        calls: the recorded calls of one eager pass, for operations that an operator's shapes do not show, and for data
            types that the profiler did not record.
        replays: what the products of one pass showed themselves.

    Returns:
        The parts, whose seconds add up to the time of the audited passes.
    """
    if not audit.events:
        return _attribute_log(audit, prover)
    classes = classify(audit.events)
    table = CostTable(calls)
    matches, unmatched = match_primitives(audit.events, classes, audit.log.primitives)
    calls_of = owners(audit.events, replays, audit.iterations) if replays is not None else {}
    unread_in = {place for place, lines in enumerate(replays.unread) if lines} if replays is not None else set()
    # Attention calls oneDNN from several threads at once: its products match no operator, and their times overlap.
    has_attention = OperatorClass.ATTENTION in classes
    attention_products = [each for each in unmatched if has_attention and is_gemm(each)]
    unclaimed = [each for each in unmatched if not (has_attention and is_of_attention(each))]
    of_groups = _GroupCosts(audit.events, classes, table)
    parts: list[AttributedTime] = []
    remainders: list[AttributedTime] = []
    for index, (event, kind) in enumerate(zip(audit.events, classes)):
        place = calls_of.get(index)
        product = replays.products[place] if replays is not None and place is not None else None
        if index in matches:
            in_primitive, remainder = _attribute_matched(event, kind, matches[index], prover, table)
            in_primitive = _by_itself(in_primitive, product, matches[index])
            parts.append(replace(in_primitive, product=place))
            remainders.append(replace(remainder, product=place))
        elif kind is not None:
            typed = event if event.dtypes else replace(event, dtypes=table.dtypes(event, kind))
            part = _by_itself(_attribute_library_call(typed, kind, attention_products, audit, prover), product, None)
            flop = of_groups.flop(index)
            part = replace(part, flop=_event_flop(event, kind, table) if flop is None else flop, product=place)
            if product is not None and place in unread_in and not product.kernels:
                part = replace(part, implementation=UNREAD_KERNEL)
            parts += _with_reference_apart(part, attention_products) if kind is OperatorClass.ATTENTION else [part]
        else:
            parts.append(replace(_attribute_other(event), product=place))
    reorders = [primitive for primitive in audit.log.primitives if primitive.kind == "reorder"]
    parts += _divide_remainders(remainders, reorders)
    hidden = [_attribute_primitive(primitive, None, prover) for primitive in unclaimed]
    hidden += _hidden_blas_calls(audit, parts, prover)
    return _place(parts, hidden)


def _by_itself(part: AttributedTime, product: Product | None, primitive: Primitive | None) -> AttributedTime:
    """``part`` in the precision that its product showed itself, if the audited pass ran the same kernel in it."""
    if product is None or not part.is_compute or not _ran_in(part, product, primitive):
        return part
    proof = own_proof(product) or PrecisionProof(part.precision, part.decided_by)
    return replace(part, precision=proof.precision, decided_by=proof.decided_by, is_confirmed=True)


def _ran_in(part: AttributedTime, product: Product, primitive: Primitive | None) -> bool:
    """Whether an audited call ran the kernels that ``product`` ran in the recorded pass, as far as they are logged."""
    if product.kernels is None or part.operator_class is OperatorClass.ATTENTION:
        return True  # attention calls oneDNN from several threads, whose products match no operator
    in_onednn = [each for each in product.kernels if each.startswith("oneDNN ")]
    return not in_onednn if primitive is None else f"oneDNN {primitive.kernel}" in in_onednn


def _event_flop(event: Event, kind: OperatorClass, table: CostTable) -> int | None:
    """The operations of a product without a primitive."""
    found, shapes = product_flop(event.name, event.shapes), tensor_shapes(event)
    if found is not None:
        return found
    cost = (table.take(event.name, shapes) if named_precision(event.name) else None) or table.find(
        event.name, kind, shapes
    )
    return cost[0] if cost is not None else None


class _GroupCosts:
    """The operations of the groups of a convolution, each of which is a call of its own without oneDNN.

    Their shapes may be those of a layer with other strides, so they are not looked up.
    """

    def __init__(self, events: Sequence[Event], classes: Sequence[OperatorClass | None], table: CostTable) -> None:
        self._events, self._table = events, table
        whole = [self._whole(index) if kind is OperatorClass.CONV else None for index, kind in enumerate(classes)]
        self._groups = Counter(whole)
        self._whole_of = whole

    def flop(self, index: int) -> int | None:
        """Those of the event at ``index``: the convolution's, divided by its groups; ``None`` if it is of no group."""
        whole = self._whole_of[index]
        if whole is None:
            return None
        event = self._events[whole]
        cost = self._table.find(event.name, OperatorClass.CONV, tensor_shapes(event))
        return None if cost is None or cost[0] is None else cost[0] // self._groups[whole]

    def _whole(self, index: int) -> int | None:
        """The place of the outermost convolution that calls this one."""
        found = None
        while (index := self._events[index].parent) >= 0:
            if operator_class(self._events[index].name) is OperatorClass.CONV:
                found = index
        return found


def _attribute_matched(
    event: Event, kind: OperatorClass | None, primitive: Primitive, prover: PrecisionProver, table: CostTable
) -> tuple[AttributedTime, AttributedTime]:
    """Divide a call into the time inside its primitive and the remainder."""
    inside = min(primitive.seconds, event.seconds)
    in_primitive = _attribute_primitive(primitive, kind, prover)
    if primitive.is_compute and kind is OperatorClass.CONV and is_gemm(primitive):
        in_primitive = replace(in_primitive, implementation=f"im2col and {in_primitive.implementation}")
    if kind is not None and in_primitive.flop is None:
        in_primitive = replace(in_primitive, flop=_event_flop(event, kind, table))
    in_primitive = replace(in_primitive, operator=display_name(event), shapes=event.shapes, seconds=inside)
    remainder = replace(
        in_primitive,
        precision=UNATTRIBUTED,
        decided_by=ProofSource.NOTHING,
        seconds=event.seconds - inside,
        count=0,
        is_reference=False,
        flop=None,
    )
    return in_primitive, remainder


def _attribute_primitive(primitive: Primitive, kind: OperatorClass | None, prover: PrecisionProver) -> AttributedTime:
    """A primitive by itself; without a ``kind`` its own kind decides the class."""
    if primitive.is_compute:
        proof = prover.prove_primitive(primitive)
        implementation = f"oneDNN {primitive.implementation or primitive.kind}"
        precision, decided_by = proof.precision, proof.decided_by
        kind = kind or (OperatorClass.CONV if "convolution" in primitive.kind else OperatorClass.LINEAR)
    else:
        implementation = f"oneDNN {primitive.kernel}"
        precision = MOVEMENT if primitive.kind in ("reorder", "transform") else NATIVE
        decided_by = ProofSource.KERNEL_LOG
    return AttributedTime(
        operator=f"onednn::{primitive.kind}",
        operator_class=kind,
        shapes=(),
        implementation=implementation,
        precision=precision,
        decided_by=decided_by,
        seconds=primitive.seconds,
        is_reference=primitive.is_reference,
        flop=problem_flop(primitive) if primitive.is_compute else None,
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
        kernel, proof = attention_kernel(attention_products), _attention_proof(event, attention_products, prover)
    else:
        given = product_type(event)
        kernel = library_kernel(event, kind, audit)
        proof = prover.prove_library_call(given, event.name, ProofSource.DATA_TYPES)
        always_onednn = "mkldnn" in event.name or event.name == "aten::_convolution"
        if given == "fp32" and (always_onednn or not audit.shows_onednn):
            proof = NO_PROOF  # oneDNN may have run it, but no log shows how
    is_slow = audit.shows_onednn and is_native_loop(event.name)
    return AttributedTime(
        display_name(event), kind, event.shapes, kernel, proof.precision, proof.decided_by, event.seconds, 1, is_slow
    )


def _with_reference_apart(attention: AttributedTime, products: Sequence[Primitive]) -> list[AttributedTime]:
    """Divide attention by the time that its products took in reference kernels and in others, summed over threads."""
    slow, others = ([each for each in products if each.is_reference is wanted] for wanted in (True, False))
    if not slow:
        return [attention]
    if not others:
        return [replace(attention, is_reference=True)]
    in_slow = attention.seconds * sum(each.seconds for each in slow) / sum(each.seconds for each in products)
    known = replace(attention, implementation=attention_kernel(others), seconds=attention.seconds - in_slow)
    kernel, flop = attention_kernel(slow), None if attention.flop is None else 0
    return [known, replace(known, implementation=kernel, seconds=in_slow, count=0, is_reference=True, flop=flop)]


def _attention_proof(event: Event, products: Sequence[Primitive], prover: PrecisionProver) -> PrecisionProof:
    """What all products of attention ran in. Those without types in the log multiply what attention was given."""
    given = product_type(event)
    by_type = prover.prove_library_call(given, event.name, ProofSource.DATA_TYPES) if given != "fp32" else NO_PROOF
    proofs = [prover.prove_primitive(each) if each.tensors else by_type for each in products]
    return proofs[0] if len({proof.precision for proof in proofs}) == 1 else NO_PROOF


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


def _hidden_blas_calls(audit: Audit, parts: Sequence[AttributedTime], prover: PrecisionProver) -> list[AttributedTime]:
    """What MKL's log shows beyond the operators that called MKL: generated code calls it directly.

    Its log is of one further pass; the time of the calls is what MKL reports of the main thread.
    """
    products = [call for call in audit.blas_calls if call.is_product]
    hidden = []
    for precision in sorted({call.precision for call in products}):
        calls = [call for call in products if call.precision == precision]
        names = [call.function.lower() for call in calls]
        logged = audit.iterations * sum(call.flop for call in calls)
        known = sum(part.flop or 0 for part in parts if _calls_mkl(part, names))
        if logged - known <= _NEGLIGIBLE * logged:
            continue
        proof = prover.prove_library_call(precision, "aten::mm", ProofSource.KERNEL_LOG)
        hidden.append(
            AttributedTime(
                operator=f"mkl::{names[0]}",
                operator_class=OperatorClass.MATMUL,
                shapes=(),
                implementation=f"mkl {', '.join(names)}",
                precision=proof.precision,
                decided_by=proof.decided_by,
                seconds=audit.iterations * sum(call.main_seconds for call in calls) * (logged - known) / logged,
                count=audit.iterations * sum(call.count for call in calls),
                flop=logged - known,
            )
        )
    return hidden


_NEGLIGIBLE = 1e-3
"""What of MKL's operations may be left over: an operator's formula need not count what its kernel pads."""


def _calls_mkl(part: AttributedTime, functions: Sequence[str]) -> bool:
    """Whether an operator's products were attributed to MKL, and to any of these functions."""
    called = part.implementation.partition("mkl ")[2].split(", ")
    return any(name in functions for name in called)


def _place(parts: list[AttributedTime], hidden: Sequence[AttributedTime]) -> list[AttributedTime]:
    """Take the time of ``hidden`` out of the time between operators, longest part first.

    If that is too short, ``hidden`` gets what there is: it ran, whatever time can be found for it.
    """
    hosts = [index for index, part in enumerate(parts) if part.implementation in (BETWEEN_OPERATORS, INDUCTOR)]
    hosts.sort(key=lambda index: -parts[index].seconds)
    needed = sum(part.seconds for part in hidden)
    available = sum(parts[index].seconds for index in hosts)
    scale = min(1.0, available / needed) if needed > 0 else 0.0
    parts, left = list(parts), needed * scale
    for index in hosts:
        taken = min(parts[index].seconds, left)
        parts[index] = replace(parts[index], seconds=parts[index].seconds - taken)
        left -= taken
    return parts + [replace(part, seconds=part.seconds * scale) for part in hidden]


def _attribute_log(audit: Audit, prover: PrecisionProver) -> list[AttributedTime]:
    """Without profiler events: oneDNN's primitives, and the rest of the wall time unattributed."""
    parts = [_attribute_primitive(primitive, None, prover) for primitive in audit.log.primitives]
    rest = max(audit.seconds - sum(part.seconds for part in parts), 0.0)
    unattributed = AttributedTime(
        UNATTRIBUTED, None, (), UNATTRIBUTED, UNATTRIBUTED, ProofSource.NOTHING, rest, count=0
    )
    return [*parts, unattributed]
