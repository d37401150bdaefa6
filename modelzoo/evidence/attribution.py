"""Attribute the time of a recorded pass to kernels and precisions; profile it by operator and by layer. Pure.

An operator's seconds are divided by what was printed during its call: the kernels of a product, oneDNN's reorders, its
set-up, and what nothing explains (``UNATTRIBUTED``). The rest of the pass was spent between operators: in Python, in an
interpreter, or in generated code. What the libraries print outside every operator ran there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from modelzoo.evidence.coverage import AttributedAudit, Node, between_operators, can_be_compared
from modelzoo.evidence.flops import Call
from modelzoo.evidence.kernel_names import (
    INDUCTOR,
    PASS_EVENT,
    UNATTRIBUTED,
    UNKNOWN_KERNEL,
    UNREAD_KERNEL,
    base_name,
    converts_back,
    moves_memory,
    multiplies_nothing,
    shows_its_operands,
)
from modelzoo.evidence.logs import BlasCall, OneDnnLog, Primitive, logged_types, problem_flop
from modelzoo.evidence.precision import DeviceKernel, PrecisionProver, kernel_part, operand_precision, own_proof
from modelzoo.evidence.recording import RecordedCall, Recording
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary
from modelzoo.records.coverage import DISPATCH, MOVEMENT, NATIVE, REORDER
from modelzoo.records.evidence import Evidence, OperatorClass, Product, ProofSource
from modelzoo.records.profile import BETWEEN_OPERATORS as BETWEEN_ROW
from modelzoo.records.profile import OTHERS, Flops, LayerRow, OperatorRow, Profile, Shape

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
    prover, is_cpu = PrecisionProver(canary, bf16_method), recording.device == "cpu"
    replayed = recording.products if recording.replay_seconds is not None else ()
    counted, lists_all = recording.counted(), False
    if is_cpu:
        parts = [part for each in recording.calls for part in _call_parts(each, recording, prover)]
        rest = max(sum(recording.seconds.values()) - sum(part.seconds for part in parts), 0.0)
        hidden = [part for each in recording.outside for part in log_parts(each.log, each.blas_calls, prover)]
        hidden = _within(hidden, rest)
        parts += hidden
        if left := rest - sum(part.seconds for part in hidden):
            between = between_operators(left)
            parts.append(replace(between, implementation=INDUCTOR, precision=NATIVE) if is_compiled else between)
    else:
        parts = [part for each in recording.calls for part in _device_parts(each, recording, prover)]
        outside = [kernel for each in recording.outside for kernel in each.kernels]
        parts += [kernel_part(k, None, recording.operands.get(k.name, "unknown"), prover) for k in outside]
        # Kernels that no operator launched have no sizes; those of a graph may do all of the work.
        lists_all = bool(outside) and not can_be_compared(parts, counted)
        ran = {(part.product, part.implementation): None for part in parts if part.is_compute}
        replayed = tuple(
            replace(each, kernels=tuple(name for place, name in ran if place == n)) for n, each in enumerate(replayed)
        )
    # What a library of the host prints is not known to belong to the pass of an accelerator.
    printed = [*(each.printed for each in recording.calls), *recording.outside] if is_cpu else []
    primitives = [primitive for each in printed for primitive in each.log.primitives]
    modes = {each.attributes.get("fpmath", "strict") for each in primitives if each.is_compute}
    unread, unread_in_products = _unread(recording) if is_cpu else ((), ())
    calls = (each.call for each in recording.calls)
    back = {each.name for each in calls if converts_back(each.name, (*each.dtypes, each.output))}
    return AttributedAudit(
        parts=parts,
        iterations=recording.iterations,
        log_source=recording.log_source,
        library="oneDNN" if is_cpu else "the device's libraries",
        bf16_allowed=not modes <= {"strict", ""} if modes else None,
        counted=counted,
        lists_all=lists_all,
        logged=logged_types(primitives),
        dequantized=tuple(sorted(back)),
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


def _within(parts: Sequence[Node], seconds: float) -> list[Node]:
    """``parts``, which the logs of several threads show, in no more than so many ``seconds`` together."""
    total = sum(part.seconds for part in parts)
    scale = min(1.0, seconds / total) if total else 0.0
    return [replace(part, seconds=part.seconds * scale) for part in parts]


def _device_parts(noted: RecordedCall, recording: Recording, prover: PrecisionProver) -> Iterator[Node]:
    """What an operator's time was spent on: by its kernels, the longest of which multiplies if no name says so."""
    call, kernels = noted.call, noted.printed.kernels
    product = recording.products[noted.product] if noted.product is not None else None
    proof, given = own_proof(product) if product is not None else None, operand_precision(call.dtypes)
    if not kernels:
        if product is None:
            named = _other_kernel(call.name, ())
            yield Node(call.name, None, call.shapes, *named, ProofSource.DATA_TYPES, noted.seconds)
            return
        kernels = (DeviceKernel(call.name, noted.seconds),)
    parts = [replace(kernel_part(each, proof, given, prover, call.name), shapes=call.shapes) for each in kernels]
    longest = max(range(len(parts)), key=lambda n: (parts[n].is_compute, parts[n].seconds))
    if proof is not None and product is not None:
        parts[longest] = replace(parts[longest], operator_class=product.operator_class, **proof._asdict())
    place = noted.product if recording.replay_seconds is not None else None
    for n, part in enumerate(parts):
        if part.is_compute and product is not None:
            part = replace(part, flop=call.flop if n == longest or call.flop is None else 0, product=place)
        yield part


def answered(products: Sequence[Product], parts: Sequence[Node]) -> tuple[Product, ...]:
    """``products`` with their precision, and the share of the time of ``parts``; those that no part is of are left."""
    total, found = sum(part.seconds for part in parts), list(products)
    own: dict[int, list[Node]] = defaultdict(list)
    for part in parts:
        if part.product is not None:
            own[part.product].append(part)
    for place, some in own.items():
        if proofs := [part for part in some if part.is_compute]:
            share = sum(part.seconds for part in some) / total if total else 0.0
            last = proofs[-1]
            found[place] = replace(found[place], precision=last.precision, known_by=last.decided_by, share=share)
    return tuple(found)


def _call_parts(noted: RecordedCall, recording: Recording, prover: PrecisionProver) -> Iterator[Node]:
    """What an operator's time was spent on."""
    call, log = noted.call, noted.printed.log
    computing = [each for each in log.primitives if each.is_compute]
    if noted.product is None:
        hidden = log_parts(OneDnnLog(primitives=tuple(computing)), noted.printed.blas_calls, prover)
        inside = _within(list(hidden), noted.seconds)
        rest = noted.seconds - sum(part.seconds for part in inside)
        kernel, category = _other_kernel(call.name, log.primitives)
        yield from (*inside, Node(call.name, None, call.shapes, kernel, category, ProofSource.DATA_TYPES, rest))
        return
    product = recording.products[noted.product]
    proof = prover.prove_product(product, log, noted.printed.blas_calls, recording.shows_onednn)
    in_kernels = sum(each.seconds for each in computing)
    in_reorders = sum(each.seconds for each in log.primitives if each.kind == "reorder")
    # Attention calls oneDNN from several threads at once, whose times overlap.
    is_attention = product.operator_class is OperatorClass.ATTENTION
    is_whole = not computing or is_attention or in_kernels + in_reorders > noted.seconds
    flops = [problem_flop(each) for each in computing]
    logged = None if None in flops or not flops else sum(each for each in flops if each is not None)
    node = Node(
        operator=call.name,
        operator_class=product.operator_class,
        shapes=call.shapes,
        implementation="",
        precision=proof.precision,
        decided_by=proof.decided_by,
        seconds=noted.seconds if is_whole else in_kernels,
        flop=logged if call.flop is None else call.flop,
        product=noted.product if recording.replay_seconds is not None else None,
    )
    for is_reference in (False, True):
        own = [each for each in computing if each.is_reference is is_reference]
        if own or not (computing or is_reference):
            part = len(own) / len(computing) if computing else 1.0
            if in_kernels:
                part = sum(each.seconds for each in own) / in_kernels
            # A loop of torch's own, as slow as a reference kernel (aten/src/ATen/native/LinearAlgebra.cpp).
            is_loop = recording.shows_onednn and not computing and base_name(call.name) == "_int_mm"
            kernel = _kernel(noted, product, recording, own)
            yield replace(
                node, implementation=kernel, seconds=node.seconds * part, is_reference=is_reference or is_loop
            )
            node = replace(node, count=0, flop=0)  # the call and its operations count once
    if not is_whole:
        rest = noted.seconds - in_kernels - in_reorders
        around = replace(node, flop=None, decided_by=ProofSource.KERNEL_LOG)
        yield replace(around, implementation=REORDER, precision=MOVEMENT, seconds=in_reorders)
        yield replace(around, implementation="oneDNN set-up", precision=DISPATCH, seconds=min(rest, SETUP_SECONDS))
        unexplained = max(rest - SETUP_SECONDS, 0.0)
        yield replace(around, implementation=UNATTRIBUTED, precision=UNATTRIBUTED, seconds=unexplained)


def _other_kernel(name: str, primitives: Sequence[Primitive]) -> tuple[str, str]:
    """Kernel and category of an operator that is no product."""
    if moves_memory(name):
        return "native memory movement", MOVEMENT
    if not multiplies_nothing(name):
        return name, UNKNOWN_KERNEL
    named = (f"oneDNN {each.kernel}" for each in primitives if not each.is_compute and each.kind != "reorder")
    return next(named, "native"), NATIVE


def _kernel(noted: RecordedCall, product: Product, recording: Recording, computing: Sequence[Primitive]) -> str:
    """What multiplied: by the libraries' logs, by the operator's name, or by the library that has no log."""
    name, operands, library = noted.call.name, product.operands, recording.blas.split(" ")[0]
    functions = sorted({each.function.lower() for each in noted.printed.blas_calls if each.is_product})
    if computing:
        names = f"oneDNN {', '.join(sorted({each.implementation or each.kind for each in computing}))}"
    elif noted.printed.log.unread:
        return UNREAD_KERNEL
    elif not recording.shows_onednn and not functions:
        return "no kernel log"
    elif "nnpack" in name:
        return "nnpack"
    elif functions:
        names = f"mkl {', '.join(functions)}"
    elif not shows_its_operands(name):
        names = f"{name} ({operands})" if operands != "unknown" else name
    elif not recording.logs_mkl and operands in _IN_BLAS:
        names = _IN_BLAS[operands].format(blas=library)
    else:
        names = f"native {operands}"
    if product.operator_class is OperatorClass.ATTENTION:
        return f"{'flash attention' if computing or 'flash' in name else 'attention'} over {names}"
    is_matrix = all(each.kind in ("matmul", "gemm_api") for each in computing)
    return f"im2col and {names}" if product.operator_class is OperatorClass.CONV and is_matrix else names


_IN_BLAS = {"fp32": "{blas} sgemm", "fp64": "{blas} dgemm", "bf16": "{blas} sbgemm or native bf16"}
"""What computes a product in a BLAS without a log; torch passes bf16 on only if its build found ``sbgemm_``."""


def log_parts(log: OneDnnLog, blas_calls: Sequence[BlasCall], prover: PrecisionProver) -> Iterator[Node]:
    """What the libraries' logs alone show."""
    for each in log.primitives:
        operator = f"onednn::{each.kind}"
        if each.is_compute:
            proof = prover.prove_primitive(each)
            kind = OperatorClass.CONV if "convolution" in each.kind else OperatorClass.LINEAR
            name, flop = f"oneDNN {each.implementation or each.kind}", problem_flop(each)
            yield Node(operator, kind, (), name, *proof, each.seconds, is_reference=each.is_reference, flop=flop)
        else:
            category = MOVEMENT if each.kind in ("reorder", "transform") else NATIVE
            yield Node(operator, None, (), f"oneDNN {each.kernel}", category, ProofSource.KERNEL_LOG, each.seconds)
    for call in blas_calls:
        if call.is_product:
            proof = prover.prove_library_call(call.precision, "aten::mm", ProofSource.KERNEL_LOG)
            name, kind = call.function.lower(), OperatorClass.MATMUL
            yield Node(f"mkl::{name}", kind, (), f"mkl {name}", *proof, call.seconds, call.count, flop=call.flop)


def _unread(recording: Recording) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of the log that could not be read: all but those that replayed products printed, and those."""
    outside = [line for each in recording.outside for line in each.log.unread]
    inside: list[str] = []
    for noted in recording.calls:
        is_replayed = noted.product is not None and recording.products[noted.product].shown is not None
        (inside if is_replayed else outside).extend(noted.printed.log.unread)
    return tuple(outside), tuple(inside)


MOST_ROWS = 300
"""The most operator rows in a profile; a detector calls small operators with thousands of different shapes."""
WHOLE_MODEL = "(whole model)"
NO_LAYERS = "compiled and scripted models have no table by layer"
Operator = tuple[str, tuple[Shape, ...]]
"""Name and shapes."""


def recorded_profile(recording: Recording, kinds: Mapping[str, str], evidence: Evidence | None) -> Profile:
    """Return the profile of a recorded pass of torch.

    Args:
        recording: the pass.
        kinds: the class name of each module by path; empty if modules were not followed.
        evidence: the audit's, for kernel and precision of each operator.
    """
    rest = max(sum(recording.seconds.values()) - sum(each.seconds for each in recording.calls), 0.0)
    return summarize_profile(
        [*recording.calls, RecordedCall(Call(PASS_EVENT, (), None, 0), rest)],
        1,
        modules={path: (kinds.get(path, ""), count) for path, count in recording.modules.items()},
        evidence=evidence,
        flops=recording.counted(),
        problems=recording.problems if kinds else (*recording.problems, NO_LAYERS),
    )


def summarize_profile(
    calls: Sequence[RecordedCall],
    iterations: int,
    *,
    modules: Mapping[str, tuple[str, int]] | None = None,
    evidence: Evidence | None = None,
    flops: Flops | None = None,
    problems: Sequence[str] = (),
) -> Profile:
    """Build the profile.

    Args:
        calls: those of all passes.
        iterations: number of passes.
        modules: the class name of each module, and how often it ran, by path.
        evidence: the audit's, for kernel and precision of each operator.
        flops: the operations of one pass.
        problems: what could not be measured.
    """
    seconds = sum(each.seconds for each in calls)
    kernels: dict[Operator, tuple[str, str]] = {}  # if an operator's calls differ, those of the longest
    for use in evidence.operators if evidence else ():
        shapes = tuple(shape for shape in use.shapes if shape)
        kernels.setdefault((use.operator, shapes), (use.implementation, use.precision))
    alike: dict[Operator, list[RecordedCall]] = defaultdict(list)
    for each in calls:
        call = each.call
        alike[(BETWEEN_ROW, ()) if call.name == PASS_EVENT else (call.name, call.shapes)].append(each)
    rows = []
    for (name, shapes), some in alike.items():
        flop = [each.call.flop for each in some]
        kernel, precision = kernels.get((name, shapes), ("", ""))
        taken = sum(each.seconds for each in some)
        rows.append(
            OperatorRow(
                name=name,
                shapes=shapes,
                count=len(some),
                seconds=taken,
                share=taken / seconds if seconds > 0 else 0.0,
                flop=None if None in flop else sum(each for each in flop if each is not None),
                bytes=sum(each.call.bytes for each in some) or None,
                kernel=kernel,
                precision=precision,
            )
        )
    rows.sort(key=lambda row: -row.seconds)
    rows, rest = rows[:MOST_ROWS], rows[MOST_ROWS:]
    if rest:  # their sum, so that the shares still add up
        count, taken = sum(row.count for row in rest), sum(row.seconds for row in rest)
        rows.append(OperatorRow(OTHERS, (), count, taken, sum(row.share for row in rest)))
    layers = _layer_rows(calls, modules or {}, seconds)
    return Profile(iterations, seconds, tuple(rows), layers, flops, tuple(problems))


def _layer_rows(
    calls: Iterable[RecordedCall], modules: Mapping[str, tuple[str, int]], seconds: float
) -> tuple[LayerRow, ...]:
    alike: dict[str, list[RecordedCall]] = {path: [] for path in modules}
    for each in calls:
        for path in set(each.layers):  # each once, because a module may call itself
            alike[path].append(each)
    rows = []
    for path, some in alike.items():
        taken = sum((each.seconds for each in some), 0.0)
        rows.append(
            LayerRow(
                path=path or WHOLE_MODEL,
                kind=modules[path][0],
                count=modules[path][1],
                seconds=taken,
                own_seconds=sum((each.seconds for each in some if each.layers[-1] == path), 0.0),
                share=taken / seconds if seconds > 0 else 0.0,
                flop=sum(each.call.flop or 0 for each in some) or None,
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.own_seconds))
