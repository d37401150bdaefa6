"""Read OpenVINO's runtime model: the layers that it compiled, with kernel, precision and time of each.

A layer need not be a layer of the model: a convolution may have been fused with what follows it, and reorders may have
been inserted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from modelzoo.records.profile import Shape

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


@dataclass(frozen=True)
class Layer:
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
