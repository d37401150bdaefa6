"""Count the operations of one pass from the nodes that ran, by their shapes. Pure.

As with torch, only products of matrices count, and a multiplication and an addition are two operations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from modelzoo.engines.onnxruntime.operators import operations, operator_class
from modelzoo.engines.onnxruntime.profile_log import NodeCall, Tensor
from modelzoo.records.profile import Flops

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
        flop = operations(call.operator, [each.shape for each in call.inputs], [each.shape for each in call.outputs])
        if flop is None:
            missing.add(call.operator)
        else:
            by_operator[call.operator] += flop
            moved += _packed_bytes(call, flop)
    return Flops(sum(by_operator.values()), moved, dict(by_operator), tuple(sorted(missing)))


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
