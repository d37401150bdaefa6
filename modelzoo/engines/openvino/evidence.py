"""What an audit of OpenVINO proves: which kernels multiplied matrices, in which precision. Pure.

The runtime model names the kernel of each layer. Whether a kernel rounds its operands inside, the canary shows.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelzoo.engines.openvino.runtime_model import Layer
from modelzoo.evidence.attribution import AttributedTime, decide_precision
from modelzoo.evidence.coverage import can_be_compared
from modelzoo.evidence.kernel_names import BETWEEN_OPERATORS, DISPATCH, MOVEMENT, NATIVE, PASS_EVENT, UNKNOWN_KERNEL
from modelzoo.evidence.verdict import AttributedAudit, judge_attributed
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel
from modelzoo.records.evidence import Evidence, KernelCalls, KernelDigest, LogSource, OperatorClass, ProofSource
from modelzoo.records.profile import Flops

LIBRARY = "OpenVINO"
_CLASSES = {
    OperatorClass.CONV: ("Convolution", "GroupConvolution", "Deconvolution", "DeformableConvolution"),
    OperatorClass.LINEAR: ("FullyConnected", "RNNCell", "RNNSeq", "QKVProjection", "LLMMLP"),
    OperatorClass.MATMUL: ("MatMul", "BatchGatherMatmul", "GatherMatmul"),
    OperatorClass.ATTENTION: ("ScaledDotProductAttention", "PagedAttention", "MHA"),
}
_CLASS_OF = {kind: found for found, kinds in _CLASSES.items() for kind in kinds}
_GENERATED = "Subgraph"
_PRODUCT_NAME = re.compile(r"MatMul|ScaledDotProductAttention|Einsum")
_MOVEMENT = re.compile(
    r"^(Reorder|Transpose|Reshape|Concatenation|Split|(Strided)?Slice|Gather\w*|Scatter\w*|Convert|Broadcast|Tile|Pad|"
    r"DepthToSpace|SpaceToDepth|ShuffleChannels|Memory\w+|OneHot|NonZero|ShapeOf)$"
)
_OTHERS = frozenset(
    """
    AdaptivePooling Bucketize CausalMaskPreprocess ColorConvert CumSum DetectionOutput Eltwise EmbeddingBagOffsetsSum
    EmbeddingBagPackedSum EmbeddingSegmentsSum ExperimentalDetectronDetectionOutput
    ExperimentalDetectronGenerateProposalsSingleImage ExperimentalDetectronPriorGridGenerator
    ExperimentalDetectronROIFeatureExtractor ExperimentalDetectronTopKROIs ExtractImagePatches Eye FakeQuantize
    GenerateProposals GridSample Interpolate LogSoftmax Lrn MVN Math MatrixNms MulticlassNms NonMaxSuppression
    NormalizeL2 PSROIPooling Pooling Priorbox PriorboxClustered Proposal RMS ROIAlign ROIPooling RandomUniform Range
    Reduce RegionYolo ReorgYolo ReverseSequence RoPE Roll SearchSorted Softmax Subgraph TopK Unique
    """.split()  # noqa: SIM905 - a list of words
)
"""Layers that multiply no matrices; those that move memory are in ``_MOVEMENT``. Any other layer is unknown."""
_CONTROL_FLOW = ("If", "Loop", "TensorIterator")


@dataclass(frozen=True)
class Audited:
    """The passes of an audit.

    Attributes:
        layers: as ``read_layers`` returns them.
        seconds: the time of each layer in all passes together, by name.
        total: wall time of all passes together.
        passes: number of passes.
        isa: the instruction set that OpenVINO uses.
        problems: what could not be observed.
    """

    layers: tuple[Layer, ...]
    seconds: Mapping[str, float]
    total: float
    passes: int
    isa: str = ""
    problems: tuple[str, ...] = ()


def build_evidence(
    audited: Audited,
    canary: Canary | None,
    requested: str,
    bf16_method: str | None,
    counted: Flops | None = None,
) -> Evidence:
    """Judge an audit.

    Args:
        audited: what ran.
        canary: what the canary showed under the same options, if it ran.
        requested: ``fp32`` or ``bf16``.
        bf16_method: as in the setting.
        counted: the operations that torch counts in a pass of the same model.
    """
    levels = {check.operator: check.level for check in canary.operators} if canary is not None else {}
    parts = [
        _attributed(layer, audited.seconds.get(layer.name, 0.0), audited.passes, levels, bf16_method)
        for layer in audited.layers
        if layer.average is not None
    ]
    between = max(audited.total - sum(part.seconds for part in parts), 0.0)
    parts.append(
        AttributedTime(
            PASS_EVENT, None, (), BETWEEN_OPERATORS, DISPATCH, ProofSource.NOTHING, between, count=audited.passes
        )
    )
    audit = AttributedAudit(
        parts=parts,
        iterations=audited.passes,
        log_source=LogSource.ENGINE,
        library=LIBRARY,
        bf16_allowed=bf16_method is not None if any(part.is_compute for part in parts) else None,
        counted=counted,
        lists_all=not can_be_compared(parts, counted),
        onednn_isa=audited.isa,
        problems=audited.problems,
    )
    return judge_attributed(audit, canary, requested, bf16_method)


def kernel_digest(layers: Sequence[Layer]) -> KernelDigest | None:
    """Summarize which kernels a compiled model runs; ``None`` if none of them multiplies matrices."""
    calls: Counter[tuple[str, str, str]] = Counter()
    for layer in layers:
        if operator_class(layer) is not None:
            # The first size is the number of items, which in detectors depends on the data.
            calls[_kernel(layer), layer.precision, json.dumps([shape[1:] for shape in layer.shapes])] += 1
    if not calls:
        return None
    by_kernel: Counter[tuple[str, str]] = Counter()
    for (kernel, precision, _), count in calls.items():
        by_kernel[kernel, precision] += count
    content = json.dumps(sorted([*key, count] for key, count in calls.items()))
    return KernelDigest(
        sha256=hashlib.sha256(content.encode()).hexdigest(),
        kernels=tuple(
            KernelCalls(kernel, precision, count) for (kernel, precision), count in sorted(by_kernel.items())
        ),
    )


def operator_class(layer: Layer) -> OperatorClass | None:
    """Return the class of a layer that multiplies matrices, otherwise ``None``."""
    if layer.kind == _GENERATED and any(_PRODUCT_NAME.search(name) for name in layer.originals):
        return OperatorClass.ATTENTION  # OpenVINO generates kernels with products for attention only
    return _CLASS_OF.get(layer.kind)


def _attributed(
    layer: Layer, seconds: float, passes: int, levels: Mapping[str, CanaryLevel], bf16_method: str | None
) -> AttributedTime:
    kind = operator_class(layer)
    part = AttributedTime(
        operator=layer.kind,
        operator_class=kind,
        shapes=layer.shapes,
        implementation=_kernel(layer),
        precision=_category(layer),
        decided_by=ProofSource.KERNEL_LOG,
        seconds=seconds,
        count=passes,
    )
    if kind is None:
        return part
    level = levels.get(_canary_operator(layer, kind))
    # The canary is compiled with the same hint, so that an error of bf16 shows nothing about a layer left in fp32.
    proof = decide_precision(
        layer.precision, level, ProofSource.KERNEL_LOG, canary_has_bf16_operands=bf16_method is not None
    )
    is_reference = layer.kernel.startswith("ref")
    flop = operations(layer)
    return replace(
        part,
        precision=proof.precision,
        decided_by=proof.decided_by,
        is_reference=is_reference,
        flop=None if flop is None else passes * flop,
    )


def _canary_operator(layer: Layer, kind: OperatorClass) -> str:
    """The operator of the canary that is most like this layer."""
    if kind is OperatorClass.CONV:
        weights = layer.shapes[1] if len(layer.shapes) > 1 else ()
        return "pointwise" if len(weights) > 2 and set(weights[2:]) == {1} else "conv"
    return "linear" if kind is OperatorClass.LINEAR else "matmul"


def _kernel(layer: Layer) -> str:
    return f"{LIBRARY} {layer.kind} {layer.kernel}"


def _category(layer: Layer) -> str:
    """What a layer spends its time on if it multiplies no matrices."""
    if layer.kind in _CONTROL_FLOW:
        return DISPATCH
    if _MOVEMENT.match(layer.kind):
        return MOVEMENT
    return NATIVE if layer.kind in _OTHERS else UNKNOWN_KERNEL


def operations(layer: Layer) -> int | None:
    """Return the operations of one pass of a product; ``None`` if there is no formula, or a shape is not static."""
    if len(layer.shapes) < 2 or not layer.written:
        return None
    left, right = layer.shapes[:2]
    if layer.kind in ("Convolution", "GroupConvolution", "Deconvolution"):
        # Each output (or, of a deconvolution, each input) is multiplied by one filter. Groups are an axis of their own.
        positions = left if layer.kind == "Deconvolution" else layer.written
        return 2 * math.prod(positions) * math.prod(right[1 + len(right) - len(left) :])
    if layer.kind == "FullyConnected":
        return 2 * math.prod(left) * layer.written[-1]
    if layer.kind == "MatMul" and min(len(left), len(layer.written)) > 1:
        return 2 * math.prod(layer.written) * (math.prod(left[-2:]) // layer.written[-2])
    return None
