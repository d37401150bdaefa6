"""Judge the nodes of a graph that an engine lists itself, each with its kernel, its types and its time. Pure.

An engine yields ``Node``, whose ``precision`` is that of the operands of a product. What the kernel made of
them, an operator of the canary shows that runs the same kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from modelzoo.evidence.audited import AttributedAudit, Node
from modelzoo.evidence.coverage import can_be_compared
from modelzoo.evidence.kernel_names import UNKNOWN_KERNEL
from modelzoo.evidence.observation import digest_of
from modelzoo.evidence.precision import PrecisionProver
from modelzoo.evidence.verdict import judge_attributed
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary
from modelzoo.records.coverage import DISPATCH, MOVEMENT, NATIVE
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.profile import Flops, Shape

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
            node = replace(node, precision=proof.precision, decided_by=proof.decided_by)
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
    products = [node for node in nodes if node.operator_class is not None]
    return digest_of(
        (node.implementation, node.precision, tuple(shape[1:] for shape in node.shapes), 1) for node in products
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
