"""Count the operations of one pass from the nodes that ran, by their shapes. Pure.

As with torch, only products of matrices count, and a multiplication and an addition are two operations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from modelzoo.engines.onnxruntime.evidence import operator_class
from modelzoo.engines.onnxruntime.profile_log import NodeCall, Tensor
from modelzoo.records.profile import Flops, Shape

_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float": 4,
    "int64": 8,
    "double": 8,
}

_WITHOUT_TRAFFIC = ("Flatten", "Identity", "If", "Loop", "Reshape", "Scan", "Shape", "Squeeze", "Unsqueeze")
"""Operators that return their input in another shape, and those whose subgraph's nodes are counted."""
_LOOKUPS = ("Gather", "GatherElements", "GatherND")
"""Operators that read as much of their first input as they write."""


def count_flops(calls: Sequence[NodeCall]) -> Flops:
    """Return the operations and bytes of ``calls``, which are those of one pass."""
    by_operator: Counter[str] = Counter()
    missing = set()
    moved = 0
    for call in calls:
        moved += _moved(call)
        if operator_class(call.operator) is None:
            continue
        flop = _operations(call)
        if flop is None:
            missing.add(call.operator)
        else:
            by_operator[call.operator] += flop
            moved += _packed_bytes(call, flop)
    return Flops(sum(by_operator.values()), moved, dict(by_operator), tuple(sorted(missing)))


def _operations(call: NodeCall) -> int | None:
    """The operations of one product; ``None`` if there is no formula for its operator and shapes."""
    inputs, outputs = [each.shape for each in call.inputs], [each.shape for each in call.outputs]
    if not inputs or not outputs or not inputs[0] or not outputs[0]:
        return None
    if call.operator in ("Conv", "FusedConv", "ConvTranspose"):
        if len(inputs) < 2 or len(inputs[1]) < 3:
            return None
        # Each output (or, if transposed, each input) is multiplied by one filter: in channels × kernel.
        positions = inputs[0] if call.operator == "ConvTranspose" else outputs[0]
        return 2 * math.prod(positions) * math.prod(inputs[1][1:])
    if call.operator in ("Gemm", "FusedGemm", "MatMul", "FusedMatMul"):
        return 2 * math.prod(outputs[0]) * _depth(inputs[0], outputs[0])
    if (
        call.operator in ("Attention", "MultiHeadAttention")
        and len(inputs) > 2
        and len(inputs[1]) == len(inputs[0]) > 2
    ):
        keys = inputs[1][-2]
        return 2 * keys * (math.prod(inputs[0]) + math.prod(outputs[0]))  # Q·Kᵀ and P·V
    return None


def _depth(left: Shape, output: Shape) -> int:
    """How many products each element of the output sums up; the left operand may be transposed."""
    return left[-1] if min(len(left), len(output)) < 2 else math.prod(left[-2:]) // max(output[-2], 1)


def _moved(call: NodeCall) -> int:
    """The size of inputs and outputs, as far as the node reads and writes them."""
    if call.operator in _WITHOUT_TRAFFIC:
        return 0
    outputs = sum(map(_size, call.outputs))
    if call.operator in _LOOKUPS:
        return 2 * outputs + sum(map(_size, call.inputs[1:]))
    return outputs + sum(map(_size, call.inputs))


def _packed_bytes(call: NodeCall, flop: int) -> int:
    """The size of constant weights that have been packed, and so are missing among the inputs."""
    if call.operator not in ("Gemm", "FusedGemm", "MatMul", "FusedMatMul") or not call.outputs[0].shape:
        return 0
    if len(call.inputs) > 1 and len(call.inputs[1].shape) > 1:
        return 0
    output = call.outputs[0]
    return flop // (2 * max(math.prod(output.shape), 1)) * output.shape[-1] * _BYTES.get(output.dtype, 0)


def _size(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * _BYTES.get(tensor.dtype, 0)
