"""Attribute the time of an accelerator's kernels to precisions. Pure.

What decides, the strongest first: the kernel's name (``modelzoo.evidence.device_kernel_names``); the data types of the
operator that launched it; for fp32 operands also the canary, since a kernel may round them to TF32. A kernel that is
launched without an operator, as by a graph, has the types of the operator that launched the same kernel elsewhere. What
none of them explains has an unknown precision: it is never guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelzoo.evidence.attribution import AttributedTime
from modelzoo.evidence.device_kernel_names import (
    is_movement,
    is_other,
    kernel_class,
    operand_precision,
    short_name,
)
from modelzoo.evidence.kernel_names import MOVEMENT, NATIVE, operand_type
from modelzoo.evidence.observation import Event
from modelzoo.evidence.operators import operator_class
from modelzoo.evidence.precision_proof import UNKNOWN, decide_precision
from modelzoo.evidence.verdict import AttributedAudit, judge_attributed
from modelzoo.records.canary import Canary, CanaryLevel
from modelzoo.records.evidence import (
    Evidence,
    KernelCalls,
    KernelDigest,
    LogSource,
    OperatorClass,
    ProofSource,
)
from modelzoo.records.profile import Shape

NO_OPERATOR = "no operator"
"""What launched a kernel if the profiler does not know it: a graph, or a compiler's own code."""


@dataclass(frozen=True)
class DeviceKernel:
    """One launch of one kernel.

    Attributes:
        name: as the driver reports it, with template arguments.
        seconds: how long it ran.
        operator: torch's operator that launched it; empty if unknown.
        shapes: of the operator's arguments.
        dtypes: their data types, in the profiler's words.
    """

    name: str
    seconds: float
    operator: str = ""
    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[str, ...] = ()


def device_evidence(
    kernels: Sequence[DeviceKernel],
    elsewhere: Sequence[DeviceKernel],
    *,
    iterations: int,
    canary: Canary | None,
    requested: str,
    method: str | None,
    problems: tuple[str, ...] = (),
) -> Evidence:
    """Judge the kernels of an audit.

    Args:
        kernels: every launch of the audited passes.
        elsewhere: launches of the same model in eager mode, whose operators are known; may be empty.
        iterations: number of audited passes.
        canary: what the canary showed under the same setting, if it ran.
        requested: the precision asked for.
        method: how it is enabled; ``None`` for fp32 and tf32.
        problems: what could not be observed.
    """
    levels = {check.operator: check.level for check in canary.operators} if canary is not None else {}
    types = {kernel.name: operand_type(_event(kernel)) for kernel in elsewhere if kernel.dtypes}
    audit = AttributedAudit(
        parts=[_attributed(kernel, types, levels, method) for kernel in kernels],
        iterations=iterations,
        log_source=LogSource.PROFILER if kernels else LogSource.NONE,
        library="the device's libraries",
        bf16_allowed=None,
        lists_all=True,
        problems=problems,
    )
    return judge_attributed(audit, canary, requested, method)


def device_digest(kernels: Sequence[DeviceKernel]) -> KernelDigest | None:
    """Say which kernels one pass ran; ``None`` if none of them multiplies matrices."""
    import hashlib
    import json

    calls = Counter(
        (short_name(kernel.name), operand_precision(kernel.name) or "unknown")
        for kernel in kernels
        if kernel_class(kernel.name) is not None
    )
    if not calls:
        return None
    content = json.dumps(sorted([*key, count] for key, count in calls.items()))
    listed = tuple(KernelCalls(name, precision, count) for (name, precision), count in sorted(calls.items()))
    return KernelDigest(hashlib.sha256(content.encode()).hexdigest(), listed)


def _attributed(
    kernel: DeviceKernel, types: Mapping[str, str], levels: Mapping[str, CanaryLevel], method: str | None
) -> AttributedTime:
    kind = _class_of(kernel)
    precision, decided_by = _category(kernel.name), ProofSource.KERNEL_NAME
    if kind is not None:
        precision, decided_by = _precision(kernel, kind, types, levels, method)
    elif precision is None:
        # A name that nobody knows may be a product.
        kind, precision, decided_by = OperatorClass.MATMUL, UNKNOWN, ProofSource.NOTHING
    return AttributedTime(
        operator=kernel.operator or NO_OPERATOR,
        operator_class=kind,
        shapes=kernel.shapes,
        implementation=short_name(kernel.name),
        precision=precision,
        decided_by=decided_by,
        seconds=kernel.seconds,
    )


def _class_of(kernel: DeviceKernel) -> OperatorClass | None:
    """What the kernel computes: by its operator, which may also launch kernels that only prepare; else by its name."""
    named = kernel_class(kernel.name)
    if is_movement(kernel.name) or is_other(kernel.name):
        return None
    return (operator_class(kernel.operator) if kernel.operator else None) or named


def _category(name: str) -> str | None:
    """What a kernel does that multiplies no matrices; ``None`` if its name does not say so."""
    if is_movement(name):
        return MOVEMENT
    return NATIVE if is_other(name) else None


def _precision(
    kernel: DeviceKernel,
    kind: OperatorClass,
    types: Mapping[str, str],
    levels: Mapping[str, CanaryLevel],
    method: str | None,
) -> tuple[str, ProofSource]:
    named = operand_precision(kernel.name)
    if named is not None:
        return named, ProofSource.KERNEL_NAME
    given = operand_type(_event(kernel)) if kernel.dtypes else types.get(kernel.name, "unknown")
    if given == "unknown":
        return UNKNOWN, ProofSource.NOTHING
    level = levels.get(OperatorClass.MATMUL if kind is OperatorClass.ATTENTION else kind)
    converted = method in ("autocast", "cast")
    proof = decide_precision(given, level, ProofSource.DATA_TYPES, canary_has_bf16_operands=converted)
    # Of fp32 operands, the libraries of CUDA devices make less than fp32 only by rounding to TF32.
    return "tf32" if proof.precision == CanaryLevel.REDUCED.value else proof.precision, proof.decided_by


def _event(kernel: DeviceKernel) -> Event:
    return Event(kernel.operator, kernel.seconds, -1, kernel.shapes, kernel.dtypes)
