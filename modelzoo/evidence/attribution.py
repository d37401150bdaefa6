"""Attribute the time of a recorded pass to kernels and precisions. Pure.

An operator's seconds are divided by what was printed during its call: the kernels of a product, oneDNN's reorders, its
set-up, and what nothing explains (``UNATTRIBUTED``). The rest of the pass was spent between operators: in Python, in an
interpreter, or in generated code. What the libraries print outside every operator ran there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from modelzoo.evidence.audited import AttributedAudit, AttributedTime
from modelzoo.evidence.coverage import can_be_compared
from modelzoo.evidence.device_attribution import DeviceKernel, kernel_part
from modelzoo.evidence.kernel_names import (
    BETWEEN_OPERATORS,
    DISPATCH,
    INDUCTOR,
    MOVEMENT,
    NATIVE,
    PASS_EVENT,
    UNATTRIBUTED,
    UNKNOWN_KERNEL,
    UNREAD_KERNEL,
    converts_back,
    is_native_loop,
    library_kernel,
    moves_memory,
    multiplies_nothing,
    onednn_kernels,
    operator_class,
    precision_of,
)
from modelzoo.evidence.mkl_log import BlasCall
from modelzoo.evidence.onednn_log import OneDnnLog, Primitive, logged_types, problem_flop
from modelzoo.evidence.precision import PrecisionProver, operand_precision, own_proof
from modelzoo.evidence.recording import RecordedCall, Recording
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import OperatorClass, Product, ProofSource

SETUP_SECONDS = 1e-3
"""The longest time per call of a oneDNN operator that is attributed to set-up.

oneDNN logs every kernel, so the operator's other time is set-up: creating the primitive descriptor, looking it up in
the cache, allocating scratch memory. It takes 0.07 to 0.3 ms per call on a quiet x86 server and 0.8 ms on a contended
one (measured). Time beyond 1 ms has another cause and stays unattributed.
"""


def attribute_recording(
    recording: Recording, canary: Canary | None, bf16_method: str | None, *, is_compiled: bool = False
) -> AttributedAudit:
    """Attribute a recorded pass of torch.

    Args:
        recording: what ran.
        canary: what the canary showed under the same setting, if it ran.
        bf16_method: how bf16 was requested; ``None`` for other precisions.
        is_compiled: whether ``torch.compile`` generated the code between operators.
    """
    if recording.device != "cpu":
        return _attribute_device(recording, canary, bf16_method)
    prover = PrecisionProver(canary, bf16_method)
    parts = [part for each in recording.calls for part in _call_parts(each, recording, prover)]
    in_operators = sum(part.seconds for part in parts)
    rest = max(sum(recording.seconds.values()) - in_operators, 0.0)
    hidden = [part for each in recording.outside for part in log_parts(each.log, each.blas_calls, prover)]
    needed = sum(part.seconds for part in hidden)
    scale = min(1.0, rest / needed) if needed else 0.0
    parts += [replace(part, seconds=part.seconds * scale) for part in hidden]
    if left := rest - needed * scale:
        where = (INDUCTOR, NATIVE) if is_compiled else (BETWEEN_OPERATORS, DISPATCH)
        parts.append(AttributedTime(PASS_EVENT, None, (), *where, ProofSource.NOTHING, left))
    printed = [each.printed for each in recording.calls] + list(recording.outside)
    replayed = recording.products if recording.replay_seconds is not None else ()
    unread, unread_in_products = _unread(recording)
    primitives = [primitive for each in printed for primitive in each.log.primitives]
    return AttributedAudit(
        parts=parts,
        iterations=recording.iterations,
        log_source=recording.log_source,
        library="oneDNN",
        bf16_allowed=onednn_allowed_bf16(primitives),
        counted=recording.counted(),
        logged=logged_types(primitives),
        dequantized=tuple(sorted({each.call.name for each in recording.calls if _converts_back(each)})),
        unread=unread,
        unread_in_products=unread_in_products,
        products=answered(replayed, parts),
        replay_seconds=recording.replay_seconds,
        foreign=recording.foreign,
        subnormal=recording.subnormal,
        outputs_differ=recording.outputs_differ,
        onednn_version=next((each.log.version for each in printed if each.log.version), recording.onednn_version),
        onednn_isa=next((each.log.isa for each in printed if each.log.isa), ""),
        blas=recording.blas,
        problems=recording.problems,
    )


def _attribute_device(recording: Recording, canary: Canary | None, bf16_method: str | None) -> AttributedAudit:
    """Attribute a pass of an accelerator to its kernels; the times of calls stand for those that are not known."""
    prover = PrecisionProver(canary, bf16_method)
    parts = [part for each in recording.calls for part in _device_parts(each, recording, prover)]
    for each in recording.outside:
        parts += [kernel_part(k, None, recording.operands.get(k.name, "unknown"), prover) for k in each.kernels]
    counted, products = recording.counted(), recording.products if recording.replay_seconds is not None else ()
    ran = {(part.product, part.implementation): None for part in parts if part.is_compute}
    products = tuple(
        replace(each, kernels=tuple(name for place, name in ran if place == n)) for n, each in enumerate(products)
    )
    # Kernels that no operator launched have no sizes; those of a graph may do all of the work.
    has_others = any(each.kernels for each in recording.outside)
    return AttributedAudit(
        parts=parts,
        iterations=recording.iterations,
        log_source=recording.log_source,
        library="the device's libraries",
        bf16_allowed=None,
        counted=counted,
        lists_all=has_others and not can_be_compared(parts, counted),
        dequantized=tuple(sorted({each.call.name for each in recording.calls if _converts_back(each)})),
        products=answered(products, parts),
        replay_seconds=recording.replay_seconds,
        outputs_differ=recording.outputs_differ,
        problems=recording.problems,
    )


def _device_parts(noted: RecordedCall, recording: Recording, prover: PrecisionProver) -> Iterator[AttributedTime]:
    """What an operator's time was spent on: by its kernels, the longest of which multiplies if no name says so."""
    call, kernels = noted.call, noted.printed.kernels
    product = recording.products[noted.product] if noted.product is not None else None
    proof, given = own_proof(product) if product is not None else None, operand_precision(call.dtypes)
    if not kernels:
        if product is None:
            named = _other_kernel(call.name, ())
            yield AttributedTime(call.name, None, call.shapes, *named, ProofSource.DATA_TYPES, noted.seconds)
            return
        kernels = (DeviceKernel(call.name, noted.seconds),)
    parts = [replace(kernel_part(each, proof, given, prover, call.name), shapes=call.shapes) for each in kernels]
    longest = max(range(len(parts)), key=lambda n: (parts[n].is_compute, parts[n].seconds))
    if proof is not None and product is not None:
        kind, how = product.operator_class, (proof.precision, proof.decided_by)
        parts[longest] = replace(parts[longest], operator_class=kind, precision=how[0], decided_by=how[1])
    for n, part in enumerate(parts):
        if not part.is_compute or product is None:
            yield part
        else:
            place = noted.product if recording.replay_seconds is not None else None
            yield replace(part, flop=call.flop if n == longest or call.flop is None else 0, product=place)


def answered(products: Sequence[Product], parts: Sequence[AttributedTime]) -> tuple[Product, ...]:
    """``products`` with their precision, and the share of the time of ``parts``; those that no part is of are left."""
    total = sum(part.seconds for part in parts)
    seconds: dict[int, float] = defaultdict(float)
    proofs: dict[int, tuple[str, ProofSource]] = {}
    for part in parts:
        if part.product is not None:
            seconds[part.product] += part.seconds
            if part.is_compute:
                proofs[part.product] = (part.precision, part.decided_by)
    return tuple(
        replace(
            product,
            precision=proofs[place][0],
            known_by=proofs[place][1],
            share=seconds[place] / total if total else 0.0,
        )
        if place in proofs
        else product
        for place, product in enumerate(products)
    )


def onednn_allowed_bf16(primitives: Sequence[Primitive]) -> bool | None:
    """Whether oneDNN was allowed to round fp32 operands; ``None`` if it multiplied nothing."""
    modes = {each.attributes.get("fpmath", "strict") for each in primitives if each.is_compute}
    return not modes <= {"strict", ""} if modes else None


def _call_parts(noted: RecordedCall, recording: Recording, prover: PrecisionProver) -> Iterator[AttributedTime]:
    """What an operator's time was spent on."""
    call, log = noted.call, noted.printed.log
    kind = operator_class(call.name)
    computing = [each for each in log.primitives if each.is_compute]
    if kind is None or noted.product is None:
        hidden = list(log_parts(OneDnnLog(primitives=tuple(computing)), noted.printed.blas_calls, prover))
        inside = sum(part.seconds for part in hidden)
        scale = min(1.0, noted.seconds / inside) if inside else 0.0
        yield from (replace(part, seconds=part.seconds * scale) for part in hidden)
        kernel, category = _other_kernel(call.name, log.primitives)
        rest = noted.seconds - inside * scale
        yield AttributedTime(call.name, None, call.shapes, kernel, category, ProofSource.DATA_TYPES, rest)
        return
    product = recording.products[noted.product]
    proof = prover.prove_product(product, noted.printed.log, noted.printed.blas_calls, recording.shows_onednn)
    in_kernels, in_reorders = sum(each.seconds for each in computing), _reorder_seconds(log)
    # Attention calls oneDNN from several threads at once, whose times overlap.
    is_whole = not computing or kind is OperatorClass.ATTENTION or in_kernels + in_reorders > noted.seconds
    part = AttributedTime(
        operator=call.name,
        operator_class=kind,
        shapes=call.shapes,
        implementation=_kernel(noted, kind, product, recording),
        precision=proof.precision,
        decided_by=proof.decided_by,
        seconds=noted.seconds if is_whole else in_kernels,
        is_reference=recording.shows_onednn and not computing and is_native_loop(call.name),
        flop=_logged_flop(computing) if call.flop is None else call.flop,
        product=noted.product if recording.replay_seconds is not None else None,
    )
    yield from _with_reference_apart(part, computing)
    if not is_whole:
        rest = noted.seconds - in_kernels - in_reorders
        around = replace(part, count=0, flop=None, is_reference=False, decided_by=ProofSource.KERNEL_LOG)
        yield replace(around, implementation="oneDNN reorder", precision=MOVEMENT, seconds=in_reorders)
        yield replace(around, implementation="oneDNN set-up", precision=DISPATCH, seconds=min(rest, SETUP_SECONDS))
        unexplained = max(rest - SETUP_SECONDS, 0.0)
        yield replace(around, implementation=UNATTRIBUTED, precision=UNATTRIBUTED, seconds=unexplained)


def _logged_flop(primitives: Sequence[Primitive]) -> int | None:
    """The operations of an operator whose arguments do not show them, as of packed weights; ``None`` if no log does."""
    found = [problem_flop(each) for each in primitives]
    return None if None in found or not found else sum(each for each in found if each is not None)


def _reorder_seconds(log: OneDnnLog) -> float:
    return sum(each.seconds for each in log.primitives if each.kind == "reorder")


def _other_kernel(name: str, primitives: Sequence[Primitive]) -> tuple[str, str]:
    """Kernel and category of an operator that is no product."""
    if moves_memory(name):
        return "native memory movement", MOVEMENT
    if not multiplies_nothing(name):
        return name, UNKNOWN_KERNEL
    named = (f"oneDNN {each.kernel}" for each in primitives if not each.is_compute and each.kind != "reorder")
    return next(named, "native"), NATIVE


def _kernel(noted: RecordedCall, kind: OperatorClass, product: Product, recording: Recording) -> str:
    """What multiplied: by the libraries' logs, by the operator's name, or by the library that has no log."""
    log, calls = noted.printed.log, [each for each in noted.printed.blas_calls if each.is_product]
    computing = [each for each in log.primitives if each.is_compute]
    if computing:
        return onednn_kernels(computing, kind)
    if log.unread:
        return UNREAD_KERNEL
    if not recording.shows_onednn and not calls:
        return "no kernel log"
    functions = sorted({each.function.lower() for each in calls}) if recording.logs_mkl else None
    return library_kernel(noted.call.name, kind, product.operands, functions, recording.blas, recording.sbgemm)


def _with_reference_apart(part: AttributedTime, products: Sequence[Primitive]) -> Iterator[AttributedTime]:
    """Divide a product's time by what its kernels took, reference kernels and others, if it ran both."""
    slow, others = ([each for each in products if each.is_reference is wanted] for wanted in (True, False))
    if not slow or not others or part.operator_class is None:
        yield replace(part, is_reference=bool(slow) or part.is_reference)
        return
    total = sum(each.seconds for each in products)
    taken = part.seconds * (sum(each.seconds for each in slow) / total if total else 1.0)
    fast, reference = (onednn_kernels(some, part.operator_class) for some in (others, slow))
    yield replace(part, implementation=fast, seconds=part.seconds - taken)
    part = replace(part, implementation=reference, seconds=taken, count=0, is_reference=True)
    yield replace(part, flop=None if part.flop is None else 0)


def log_parts(log: OneDnnLog, blas_calls: Sequence[BlasCall], prover: PrecisionProver) -> Iterator[AttributedTime]:
    """What the libraries' logs alone show."""
    for each in log.primitives:
        if each.is_compute:
            proof = prover.prove_primitive(each)
            kind = OperatorClass.CONV if "convolution" in each.kind else OperatorClass.LINEAR
            kernel = onednn_kernels([each], kind)
            precision, decided_by, flop = proof.precision, proof.decided_by, problem_flop(each)
        else:
            kind, kernel, flop, decided_by = None, f"oneDNN {each.kernel}", None, ProofSource.KERNEL_LOG
            precision = MOVEMENT if each.kind in ("reorder", "transform") else NATIVE
        operator = f"onednn::{each.kind}"
        yield AttributedTime(
            operator, kind, (), kernel, precision, decided_by, each.seconds, 1, each.is_reference, flop
        )
    for call in blas_calls:
        if call.is_product:
            proof = prover.prove_library_call(call.precision, "aten::mm", ProofSource.KERNEL_LOG)
            name = call.function.lower()
            yield AttributedTime(
                operator=f"mkl::{name}",
                operator_class=OperatorClass.MATMUL,
                shapes=(),
                implementation=f"mkl {name}",
                precision=proof.precision,
                decided_by=proof.decided_by,
                seconds=call.main_seconds,
                count=call.count,
                flop=call.flop,
            )


def _unread(recording: Recording) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of the log that could not be read: all but those that replayed products printed, and those."""
    outside = [line for each in recording.outside for line in each.log.unread]
    inside: list[str] = []
    for noted in recording.calls:
        is_replayed = noted.product is not None and recording.products[noted.product].shown is not None
        (inside if is_replayed else outside).extend(noted.printed.log.unread)
    return tuple(outside), tuple(inside)


def _converts_back(noted: RecordedCall) -> bool:
    return converts_back(noted.call.name, [precision_of(each) for each in (*noted.call.dtypes, noted.call.output)])
