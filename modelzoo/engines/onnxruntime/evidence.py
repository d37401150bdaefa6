"""What an audit of ONNX Runtime proves: which kernels multiplied matrices, in which precision. Pure.

Neither the profiler nor anything else names the functions of MLAS, ONNX Runtime's library of kernels, so a kernel is
named by its operator, layout and operands. Their data types show what the operands were; whether MLAS rounded them, the
canary shows, which has an operator for each of its entry points.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence

from modelzoo.engines.onnxruntime.profile_log import (
    CONSTANT,
    CPU_PROVIDER,
    NCHWC,
    fixed_sizes,
    marks_of,
    moves_memory,
    multiplies_nothing,
    named_precision,
    operator_class,
    operator_of,
)
from modelzoo.evidence.audited import AttributedAudit, AttributedTime
from modelzoo.evidence.coverage import can_be_compared
from modelzoo.evidence.kernel_names import BETWEEN_OPERATORS, DISPATCH, MOVEMENT, NATIVE, PASS_EVENT, UNKNOWN_KERNEL
from modelzoo.evidence.observation import Event
from modelzoo.evidence.onednn_log import BF16_ALLOWED
from modelzoo.evidence.precision import decide_precision
from modelzoo.evidence.verdict import judge_attributed
from modelzoo.records.canary import Canary, CanaryLevel
from modelzoo.records.evidence import Evidence, KernelCalls, KernelDigest, LogSource, OperatorClass, ProofSource
from modelzoo.records.profile import Flops

LIBRARY = "ONNX Runtime"
_CONTROL_FLOW = ("If", "Loop", "Scan")
_DTYPES = {
    "float": "fp32",
    "double": "fp64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "int8": "int8",
    "uint8": "int8",
    "int4": "int4",
    "uint4": "int4",
}


def build_evidence(
    events: Sequence[Event],
    passes: int,
    canary: Canary | None,
    requested: str,
    bf16_method: str | None,
    counted: Flops | None = None,
) -> Evidence:
    """Judge an audit.

    Args:
        events: the nodes of all audited passes, as ``parse_profile`` and ``nested_events`` return them.
        passes: number of audited passes.
        canary: what the canary showed under the same session options, if it ran.
        requested: ``fp32`` or ``bf16``.
        bf16_method: ``fastmath``, or ``None`` for fp32.
        counted: the operations that torch counts in a pass of the same model.
    """
    levels = {check.operator: check.level for check in canary.operators} if canary is not None else {}
    is_allowed = bf16_method == "fastmath"
    parts = [_attributed(event, levels, is_allowed) for event in events]
    audit = AttributedAudit(
        parts=parts,
        iterations=passes,
        log_source=LogSource.ENGINE,
        library=LIBRARY,
        bf16_allowed=is_allowed if any(part.is_compute for part in parts) else None,
        counted=counted,
        lists_all=not can_be_compared(parts, counted),
        problems=_problems(events),
    )
    return judge_attributed(audit, canary, requested, bf16_method)


def kernel_digest(events: Sequence[Event], bf16_method: str | None) -> KernelDigest | None:
    """Summarize which kernels one pass ran; ``None`` if none of them multiplies matrices."""
    calls: Counter[tuple[str, str, str]] = Counter()
    for event in events:
        kind = operator_class(event.name)
        if kind is not None:
            given = _operand_type(event, bf16_method == "fastmath")
            calls[_kernel(event, kind), given, json.dumps(fixed_sizes(event.shapes))] += 1
    if not calls:
        return None
    by_kernel: Counter[tuple[str, str]] = Counter()
    for (kernel, precision, _), count in calls.items():
        by_kernel[kernel, precision] += count
    content = json.dumps(sorted([*key, count] for key, count in calls.items()))
    kernels = tuple(KernelCalls(*key, count) for key, count in sorted(by_kernel.items()))
    return KernelDigest(hashlib.sha256(content.encode()).hexdigest(), kernels)


def _attributed(event: Event, levels: Mapping[str, CanaryLevel], is_allowed: bool) -> AttributedTime:
    kind = operator_class(event.name)
    if kind is None:
        kernel, category = _other_kernel(event.name)
        return AttributedTime(event.name, None, event.shapes, kernel, category, ProofSource.DATA_TYPES, event.seconds)
    given = _operand_type(event, is_allowed)
    level = levels.get(_canary_operator(event, kind) or "")
    proof = decide_precision(given, level, ProofSource.DATA_TYPES)
    return AttributedTime(
        operator=event.name,
        operator_class=kind,
        shapes=event.shapes,
        implementation=_kernel(event, kind),
        precision=proof.precision,
        decided_by=proof.decided_by,
        seconds=event.seconds,
        flop=event.flop,
    )


def _operand_type(event: Event, is_allowed: bool) -> str:
    named = named_precision(operator_of(event.name))
    if named is not None:
        return named
    if _providers([event]):
        return "unknown"  # another provider may round, or quantize
    dtypes = {_DTYPES.get(dtype, "unknown") for dtype in event.dtypes[:2]}
    for quantized in ("int4", "int8"):
        if quantized in dtypes:
            return quantized
    if len(dtypes) != 1:
        return "unknown"
    found = dtypes.pop()
    return BF16_ALLOWED if found == "fp32" and is_allowed else found


def _canary_operator(event: Event, kind: OperatorClass) -> str | None:
    """The operator of the canary that enters MLAS where this node does; ``None`` if there is none.

    With fast math, ``Attention`` and ``FusedMatMul`` with a transposed operand stay in fp32 where ``MatMul`` is in bf16
    (seen with 1.32 on an emulated Neoverse N2), so what the canary shows of one says nothing about the others.
    """
    operator = operator_of(event.name)
    if operator in ("Conv", "FusedConv"):
        if _is_grouped(event):
            return None  # the canary's convolutions have no groups
        return "pointwise" if _is_pointwise(event) else "conv"
    if operator in ("Gemm", "FusedGemm"):
        return "linear"
    if operator == "MatMul":
        return "projection" if kind is OperatorClass.LINEAR else "matmul"
    return None


def _is_grouped(event: Event) -> bool:
    """Whether the weights of a convolution have fewer input channels than its input."""
    image, weights = (*event.shapes[:2], (), ())[:2]
    return len(weights) > 1 and len(image) > 1 and weights[1] < image[1]


def _is_pointwise(event: Event) -> bool:
    """Whether the weights of a convolution are 1×1."""
    weights = event.shapes[1] if len(event.shapes) > 1 else ()
    return len(weights) > 2 and set(weights[2:]) == {1}


def _kernel(event: Event, kind: OperatorClass) -> str:
    marks = [mark for mark in marks_of(event.name) if mark != CONSTANT]
    kernel = " ".join(["MLAS", *marks, operator_of(event.name)])
    if kind is OperatorClass.CONV and _is_pointwise(event):
        kernel += " 1×1"
    return kernel


def _other_kernel(name: str) -> tuple[str, str]:
    """Kernel and category of a node that multiplies no matrices."""
    operator = operator_of(name)
    if name == PASS_EVENT:
        return BETWEEN_OPERATORS, DISPATCH
    if operator in _CONTROL_FLOW:
        return "control flow", DISPATCH
    if moves_memory(operator):
        return "memory movement", MOVEMENT
    return ("other operators", NATIVE) if multiplies_nothing(operator) else (operator, UNKNOWN_KERNEL)


def _problems(events: Sequence[Event]) -> tuple[str, ...]:
    """Nodes that another provider than the CPU's ran."""
    others = _providers(events)
    return (f"not all nodes ran on {CPU_PROVIDER}: {', '.join(others)}",) if others else ()


def _providers(events: Sequence[Event]) -> list[str]:
    """The other providers, which ``parse_profile`` names."""
    return sorted({mark for event in events for mark in marks_of(event.name)} - {NCHWC, CONSTANT})
