"""What an audit of OpenVINO proves: which kernels multiplied matrices, in which precision. Pure.

The runtime model names the layers that OpenVINO compiled, with kernel, precision and time of each. A layer need not be
one of the model: a convolution may have been fused with what follows it, and reorders may have been inserted. Whether
a kernel rounds its operands inside, the canary shows.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo.evidence.audited import AttributedAudit, AttributedTime
from modelzoo.evidence.coverage import can_be_compared
from modelzoo.evidence.kernel_names import BETWEEN_OPERATORS, DISPATCH, MOVEMENT, NATIVE, PASS_EVENT, UNKNOWN_KERNEL
from modelzoo.evidence.precision import decide_precision
from modelzoo.evidence.verdict import judge_attributed
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel
from modelzoo.records.evidence import Evidence, KernelCalls, KernelDigest, LogSource, OperatorClass, ProofSource
from modelzoo.records.profile import Flops, Shape

if TYPE_CHECKING:
    import openvino


UNKNOWN = "unknown"
_NOT_LAYERS = ("Input", "Const", "Output")
_PRECISIONS = {
    "f64": "fp64",
    "f32": "fp32",
    "bf16": "bf16",
    "f16": "fp16",
    "i8": "int8",
    "u8": "int8",
    "i4": "int4",
    "u4": "int4",
}


class Layer(msgspec.Struct, frozen=True):
    """A layer of the runtime model.

    Attributes:
        name: unique in the model.
        kind: what it computes, such as ``Convolution``, ``FullyConnected`` or ``Subgraph`` (a generated kernel).
        kernel: how, such as ``brgconv_avx512_f32``.
        precision: ``fp32``, ``bf16`` …, or ``UNKNOWN`` for integers and what OpenVINO does not say.
        originals: names of the operations that it computes.
        shapes: of its inputs; empty if one of them is not static.
        average: seconds of one pass, the average of all passes; ``None`` if it has not run, or is not timed.
        written: shape of its first output; empty if it is not static.
    """

    name: str
    kind: str
    kernel: str
    precision: str
    originals: tuple[str, ...] = ()
    shapes: tuple[Shape, ...] = ()
    average: Optional[float] = None
    written: Shape = ()


Node = tuple[str, dict[str, str], tuple[Shape, ...]]
"""Name, attributes and the shapes of the inputs; no shapes if one of them is not static.

The attributes are those of ``rt_info``, the types of the inputs (``inputTypes``) and the shape of the first output
(``outputShape``).
"""


def read_layers(compiled: openvino.CompiledModel) -> tuple[Layer, ...]:
    """Return the layers of ``compiled``, without its inputs, constants and outputs, in the order of execution.

    Kernels of layers whose shapes depend on the data are known after the first pass.
    """
    return parse_nodes(read_nodes(compiled))


def read_nodes(compiled: openvino.CompiledModel) -> list[Node]:
    """Return the runtime model of ``compiled`` as plain data."""
    return [
        (
            node.get_friendly_name(),
            {
                **{name: str(value.astype(str)) for name, value in node.get_rt_info().items()},
                "inputTypes": ",".join(port.get_element_type().get_type_name() for port in node.inputs()),
                "outputShape": _output_shape(node),
            },
            _static_shapes(node),
        )
        for node in compiled.get_runtime_model().get_ordered_ops()
    ]


def _static_shapes(node: openvino.Node) -> tuple[Shape, ...]:
    shapes = [port.get_partial_shape() for port in node.inputs()]
    if any(shape.is_dynamic for shape in shapes):
        return ()
    return tuple(tuple(shape.to_shape()) for shape in shapes)


def _output_shape(node: openvino.Node) -> str:
    """``1,64,56,56``; empty if it is not static."""
    shapes = [port.get_partial_shape() for port in node.outputs()[:1]]
    return ",".join(str(size) for shape in shapes if not shape.is_dynamic for size in shape.to_shape())


def parse_nodes(nodes: Sequence[Node]) -> tuple[Layer, ...]:
    """Return the nodes of a runtime model that are layers."""
    layers = [_layer(*node) for node in nodes]
    return tuple(layer for layer in layers if layer.kind not in _NOT_LAYERS)


def _layer(name: str, attributes: Mapping[str, str], shapes: Sequence[Shape]) -> Layer:
    kernel = attributes.get("primitiveType", "")
    time = attributes.get("execTimeMcs", "")
    return Layer(
        name=name,
        kind=attributes.get("layerType", ""),
        kernel=kernel,
        precision=_precision(kernel, attributes.get("runtimePrecision", ""), attributes.get("inputTypes", "")),
        originals=tuple(each for each in attributes.get("originalLayersNames", "").split(",") if each),
        shapes=tuple(tuple(shape) for shape in shapes),
        average=int(time) * 1e-6 if time.isdigit() else None,
        written=tuple(int(size) for size in attributes.get("outputShape", "").split(",") if size),
    )


def _precision(kernel: str, runtime_precision: str, input_types: str) -> str:
    """That of the kernel, which its name ends with; ``runtimePrecision`` is that of a layer's first input.

    A kernel for fp32 may have quantized weights, its second input.
    """
    operands = [_PRECISIONS.get(each) for each in input_types.split(",")[:2]]
    for quantized in ("int4", "int8"):
        if quantized in operands:
            return quantized
    suffix = kernel.rpartition("_")[2].lower()
    return _PRECISIONS.get(suffix) or _PRECISIONS.get(runtime_precision.lower(), UNKNOWN)


def time_of_passes(first: Sequence[Layer], last: Sequence[Layer], passes: int) -> dict[str, float]:
    """Return the seconds of each layer in the last ``passes`` passes, by name.

    OpenVINO reports averages of all passes, and in the first one it prepares kernels and weights.

    Args:
        first: the layers after the first pass.
        last: the layers after ``passes`` more.
        passes: number of passes.
    """
    before = {layer.name: layer.average or 0.0 for layer in first}
    return {layer.name: max((passes + 1) * (layer.average or 0.0) - before.get(layer.name, 0.0), 0.0) for layer in last}


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


class Audited(msgspec.Struct, frozen=True):
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
