"""The layers that OpenVINO compiled, with kernel, precision and time of each, from its runtime model. Pure.

A layer need not be one of the model: a convolution may have been fused with what follows it, and reorders may have been
inserted. Whether a kernel rounds its operands inside, the canary shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from modelzoo.evidence.coverage import Node, between_operators
from modelzoo.evidence.flops import product_flop
from modelzoo.evidence.kernel_names import precision_of
from modelzoo.evidence.verdict import canary_convolution, category_of
from modelzoo.records.evidence import OperatorClass, ProofSource
from modelzoo.records.profile import Shape

if TYPE_CHECKING:
    import openvino

LIBRARY = "OpenVINO"
Layer = tuple[str, Mapping[str, str], Sequence[Shape]]
"""Name, attributes and the shapes of the inputs; no shapes if one of them is not static.

The attributes are those of ``rt_info``, the types of the inputs (``inputTypes``) and the shape of the first output
(``outputShape``: ``1,64,56,56``, empty if it is not static). ``layerType`` is what it computes, such as
``Convolution``, ``FullyConnected`` or ``Subgraph`` (a generated kernel), ``primitiveType`` how, such as
``brgconv_avx512_f32``, and ``execTimeMcs`` the microseconds of one pass, the average of all passes; no number if it has
not run, or is not timed.
"""
_NOT_LAYERS = ("Input", "Const", "Output")
_CLASSES = {
    OperatorClass.CONV: "Convolution GroupConvolution Deconvolution DeformableConvolution",
    OperatorClass.LINEAR: "FullyConnected RNNCell RNNSeq QKVProjection LLMMLP",
    OperatorClass.MATMUL: "MatMul BatchGatherMatmul GatherMatmul",
    OperatorClass.ATTENTION: "ScaledDotProductAttention PagedAttention MHA",
}
_CLASS_OF = {name: kind for kind, names in _CLASSES.items() for name in names.split()}
_COUNTED = ("Convolution", "GroupConvolution", "Deconvolution", "FullyConnected", "MatMul")
"""The products whose operations follow from their shapes."""
_PRODUCT_NAME = re.compile(r"MatMul|ScaledDotProductAttention|Einsum")
_OTHERS = re.compile(
    r"^(AdaptivePooling|Bucketize|CausalMaskPreprocess|ColorConvert|CumSum|DetectionOutput|Eltwise|Embedding\w+|"
    r"ExperimentalDetectron\w+|ExtractImagePatches|Eye|FakeQuantize|GenerateProposals|GridSample|Interpolate|LogSoftmax|"
    r"Lrn|MVN|Math|MatrixNms|MulticlassNms|NonMaxSuppression|NormalizeL2|PSROIPooling|Pooling|Priorbox(Clustered)?|"
    r"Proposal|RMS|ROI(Align|Pooling)|RandomUniform|Reduce|Re(gion|org)Yolo|RoPE|Roll|"
    r"SearchSorted|Softmax|Subgraph|TopK|Unique)$"
)
"""Layers that multiply no matrices, besides those that move memory. Any other layer is unknown."""


def read_layers(compiled: openvino.CompiledModel) -> list[Layer]:
    """Return the runtime model of ``compiled`` as plain data, in the order of execution.

    Kernels of layers whose shapes depend on the data are known after the first pass.
    """
    return [
        (
            node.get_friendly_name(),
            {
                **{name: str(value.astype(str)) for name, value in node.get_rt_info().items()},
                "inputTypes": ",".join(port.get_element_type().get_type_name() for port in node.inputs()),
                "outputShape": ",".join(map(str, (*_static_shapes(node.outputs()[:1]), ())[0])),
            },
            _static_shapes(node.inputs()),
        )
        for node in compiled.get_runtime_model().get_ordered_ops()
    ]


def _static_shapes(ports: Sequence[openvino.Input | openvino.Output]) -> tuple[Shape, ...]:
    shapes = [port.get_partial_shape() for port in ports]
    return () if any(shape.is_dynamic for shape in shapes) else tuple(tuple(shape.to_shape()) for shape in shapes)


def layer_nodes(layers: Sequence[Layer]) -> tuple[Node, ...]:
    """Return the layers without times: all but inputs, constants and outputs."""
    return tuple(_node(*each) for each in layers if each[1].get("layerType") not in _NOT_LAYERS)


def timed_nodes(first: Sequence[Layer], last: Sequence[Layer], passes: int, total: float) -> tuple[Node, ...]:
    """Return the layers that ran, and the time in none of them, a ``PASS_EVENT``.

    OpenVINO reports averages of all passes, and in the first one it prepares kernels and weights.

    Args:
        first: the layers after the first pass.
        last: the layers after ``passes`` more.
        passes: number of passes, without the first.
        total: wall time of these, in seconds.
    """
    before = {name: _average(attributes) or 0.0 for name, attributes, _ in first}
    ran = [each for each in last if _average(each[1]) is not None and each[1].get("layerType") not in _NOT_LAYERS]
    nodes = []
    for name, attributes, shapes in ran:
        seconds = (passes + 1) * (_average(attributes) or 0.0) - before.get(name, 0.0)
        nodes.append(_node(name, attributes, shapes, max(seconds, 0.0), passes))
    rest = max(total - sum(node.seconds for node in nodes), 0.0)
    return (*nodes, between_operators(rest, passes))


def _average(attributes: Mapping[str, str]) -> float | None:
    time = attributes.get("execTimeMcs", "")
    return int(time) * 1e-6 if time.isdigit() else None


def _node(
    name: str, attributes: Mapping[str, str], sizes: Sequence[Shape], seconds: float = 0.0, count: int = 1
) -> Node:
    """A layer, with the time of ``count`` calls."""
    operator, kernel = attributes.get("layerType", ""), attributes.get("primitiveType", "")
    kind, shapes = _CLASS_OF.get(operator), tuple(tuple(shape) for shape in sizes)
    if operator == "Subgraph" and any(map(_PRODUCT_NAME.search, attributes.get("originalLayersNames", "").split(","))):
        kind = OperatorClass.ATTENTION  # OpenVINO generates kernels with products for attention only
    written = tuple(int(size) for size in attributes.get("outputShape", "").split(",") if size)
    flop = None
    if kind is not None and operator in _COUNTED and len(shapes) > 1:
        flop = product_flop(kind, shapes, written, is_transposed=operator == "Deconvolution")
    other = category_of(operator, is_known=_OTHERS.match(operator) is not None)
    like_layer = "linear" if kind is OperatorClass.LINEAR else "matmul"
    return Node(
        operator=operator,
        operator_class=kind,
        shapes=shapes,
        implementation=f"{LIBRARY} {operator} {kernel}",
        precision=_operand_type(kernel, attributes) if kind is not None else other,
        decided_by=ProofSource.KERNEL_LOG,
        seconds=seconds,
        count=count,
        is_reference=kind is not None and kernel.startswith("ref"),
        flop=None if flop is None else count * flop,
        canary=canary_convolution(shapes) if kind is OperatorClass.CONV else like_layer,
    )


def _operand_type(kernel: str, attributes: Mapping[str, str]) -> str:
    """That of the kernel, which its name ends with; ``runtimePrecision`` is that of a layer's first input.

    A kernel for fp32 may have quantized weights, its second input.
    """
    operands = [precision_of(each) for each in attributes.get("inputTypes", "").split(",")[:2]]
    for quantized in ("int4", "int8"):
        if quantized in operands:
            return quantized
    suffix, first = kernel.rpartition("_")[2].lower(), attributes.get("runtimePrecision", "").lower()
    return precision_of(suffix) or precision_of(first) or "unknown"
