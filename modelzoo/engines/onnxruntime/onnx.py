"""Write a torch module as an ONNX model, and quantize it; torch, onnx and onnxruntime are imported when used.

    model.onnx     the graph, with the outputs of the torch module
    heads.onnx     of detectors: the same graph, with the outputs of the raw heads too
    weights.bin    the large constants of both

Neither file holds a tensor twice, so what is timed and what is compared differ in nothing but the list of outputs.

Models are quantized by ONNX Runtime's own tools. ``dynamic`` quantizes every ``MatMul`` and ``Gemm`` with constant
weights: these are int8, symmetric, with one scale per layer or per output channel, and the other operand is quantized
in each call, to 8 bits with one scale per tensor. ``static`` also quantizes convolutions, and what lies between
quantized layers: the scales are those of the weights per output channel, and of every tensor in batches of the
workload's own inputs, which are neither those that are measured nor the user's.
"""

from __future__ import annotations

import logging
import math
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelzoo.engines.export.source import ARRAY, LIST, Structure, flatten
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine.installation import installed_release, installed_version
from modelzoo.records.profile import Shape
from modelzoo.records.workload import Conversion
from modelzoo.workload.declaration import inputs_digest

if TYPE_CHECKING:
    from modelzoo.engines.export.source import TorchSource

MODEL, WITH_HEADS, WEIGHTS = "model.onnx", "heads.onnx", "weights.bin"
TRACED_OPSET = 17
"""For the exporter that traces: the first with ``LayerNormalization``."""
GRAPH_OPSET = 23
"""For the exporter that is built on ``torch.export``: the first with ``Attention``."""
GRAPH_TORCH = (2, 9)
"""The first torch that can write ``GRAPH_OPSET``."""
EXTERNAL_BYTES = 1024
"""Constants from this size on are stored in ``weights.bin``: a file in ONNX format is limited to 2 GiB."""
_PICTURE_DIMENSIONS = 3


def onnx_conversion(source: TorchSource, newest_opset: int) -> Conversion:
    """How ``write_onnx`` converts the module of ``source``.

    The exporter that is built on ``torch.export`` keeps attention as one operator. It cannot convert torchvision's
    detectors (pytorch/vision#9306, #9462), whose pictures come in a list: these are traced.

    Args:
        source: the torch module and its batch.
        newest_opset: that the engine can read.
    """
    versions = {name: installed_version(name) for name in ("torch", "onnx", "onnxscript")}
    is_newer = installed_release("torch") >= GRAPH_TORCH and newest_opset >= GRAPH_OPSET
    dynamo = versions["onnxscript"] is not None and is_newer and not dynamic_sizes(source)
    text = ", ".join(f"{name} {version}" for name, version in versions.items() if dynamo or name != "onnxscript")
    opset = GRAPH_OPSET if dynamo else TRACED_OPSET
    return Conversion("torch.onnx.export", text, opset, {"dynamo": dynamo})


def write_onnx(source: TorchSource, conversion: Conversion, directory: Path) -> None:
    """Write the files of ``source`` into ``directory``."""
    import onnx
    import torch

    batch, _ = source.expected
    outputs = [f"output.{name}" for name in batch.outputs.names()]
    heads = [f"head.{name}" for name in batch.heads]
    exported = directory / "exported"
    exported.mkdir()
    # What only one of the exporters takes.
    if conversion.options["dynamo"]:
        options: dict[str, Any] = {"dynamo": True, "external_data": True, "verbose": False}
    else:
        options = {"dynamo": False, "dynamic_axes": dynamic_sizes(source)}
    with quiet(), torch.no_grad():
        torch.onnx.export(
            source.flat_module(),
            source.flat_inputs,
            str(exported / MODEL),
            opset_version=conversion.opset,
            input_names=input_names(source.input_structure),
            output_names=outputs + heads,
            **options,
        )
    model = onnx.load_model(str(exported / MODEL))
    shutil.rmtree(exported)
    # torch's exporter gives different sizes of outputs one name, such as the heights of all levels of a feature
    # pyramid, and ONNX Runtime then takes memory of one size for another.
    for output in model.graph.output:
        for size in output.type.tensor_type.shape.dim:
            if size.HasField("dim_param"):
                size.ClearField("dim_param")
    onnx.save_model(
        model,
        str(directory / (WITH_HEADS if heads else MODEL)),
        save_as_external_data=True,
        location=WEIGHTS,
        size_threshold=EXTERNAL_BYTES,
    )
    if heads:
        del model.graph.output[len(outputs) :]
        onnx.save_model(model, str(directory / MODEL))


def input_names(structure: Structure) -> list[str]:
    """Return the names of the graph's inputs, in order.

    Args:
        structure: of the inputs.
    """
    return [f"input.{name}" for name in structure.names()]


def dynamic_sizes(source: TorchSource) -> Mapping[str, Mapping[int, str]]:
    """Return the dimensions that may differ from call to call, by input: height and width of pictures in a list.

    Detectors take a list because its pictures may differ in size. Everything else has the shape of the batch.
    """
    found: dict[str, Mapping[int, str]] = {}
    inputs = iter(zip(input_names(source.input_structure), source.flat_inputs))

    def visit(part: Structure, *, is_in_list: bool) -> None:
        for name, value in islice(inputs, 0 if part.parts else part.count):
            if is_in_list and value.dim() == _PICTURE_DIMENSIONS:
                found[name] = {1: f"{name}.height", 2: f"{name}.width"}
        for each in part.parts:
            visit(each, is_in_list=part.kind == LIST and each.kind == ARRAY)

    visit(source.input_structure, is_in_list=False)
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the exporter's warnings, one for every Python value that it traces as a constant, and the advice of
    ONNX Runtime's tools to optimize a model first, which would also fuse what the timed fp32 model has not.

    Whether the exported model is right is found out by comparing its outputs with torch's.
    """
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)


CALIBRATION = "calibration"
"""The option of a conversion that holds the SHA-256 of the batches."""
PER_TENSOR, PER_CHANNEL, STATIC = "dynamic-per-tensor", "dynamic-per-channel", "static"
RECIPES: dict[str | None, str] = {
    None: PER_CHANNEL,
    "dynamic": PER_TENSOR,
    PER_TENSOR: PER_TENSOR,
    PER_CHANNEL: PER_CHANNEL,
    STATIC: STATIC,
}
"""What runs, by what was asked for: ``dynamic`` is what ``quantize_dynamic`` does by default. Without a recipe, it is
the one whose predictions are nearer to those of fp32."""


Calibration = Sequence[Mapping[str, Any]]
"""Arrays by the name of the model's input, for each batch."""


def calibration(source: TorchSource) -> Calibration:
    """The batches that ``static`` takes ranges from."""
    import numpy as np

    found = []
    for inputs in source.calibration_inputs():
        structure, values = flatten(inputs.args)
        found.append({name: np.asarray(value) for name, value in zip(input_names(structure), values)})
    return found


def quantized_conversion(conversion: Conversion, recipe: str, batches: Calibration = ()) -> Conversion:
    """``conversion``, followed by ``recipe``, with the SHA-256 of the batches that it takes ranges from."""
    version = f"{conversion.version}, onnxruntime {installed_version('onnxruntime')}"
    options = {**conversion.options, "recipe": recipe}
    if batches:
        options[CALIBRATION] = inputs_digest(batches) or ""
    return replace(conversion, version=version, options=options)


def quantize_files(directory: Path, recipe: str, batches: Calibration = ()) -> None:
    """Replace the exported models in ``directory`` by quantized ones.

    Raises:
        UsageError: they have nothing that the recipe quantizes.
    """
    for name in (MODEL, WITH_HEADS):
        if (directory / name).exists():
            made = directory / f"quantized-{name}"
            quantize(directory / name, made, recipe, batches)
            made.replace(directory / name)
    (directory / WEIGHTS).unlink(missing_ok=True)  # the quantized models hold their own


def quantize(model: Path, place: Path, recipe: str, batches: Calibration = ()) -> None:
    """Write a quantized model.

    Args:
        model: its file.
        place: of the file to write.
        recipe: a resolved one.
        batches: that ``static`` takes ranges from.

    Raises:
        UsageError: the model has nothing that the recipe quantizes.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with quiet():
        if recipe == STATIC:
            _quantize_static(model, place, batches)
        else:
            quantize_dynamic(
                str(model),
                str(place),
                op_types_to_quantize=["MatMul"],  # it makes one of every Gemm
                per_channel=recipe == PER_CHANNEL,
                weight_type=QuantType.QInt8,
            )
    made, layers = ("DequantizeLinear", "convolution or Linear") if recipe == STATIC else ("MatMulInteger", "Linear")
    if not any(node.op_type == made for node in _graph(place).node):
        raise UsageError(f"recipe={recipe}: the model has no {layers} layer; use another precision")


def _quantize_static(model: Path, place: Path, batches: Calibration) -> None:
    """By quantize and dequantize nodes around what is quantized, which ONNX Runtime fuses when it loads the model."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    folded = place.with_name(f"folded-{place.name}")
    known = _fold(model, folded)

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            # The exporter leaves out inputs that the outputs do not depend on.
            self._feeds = ({name: each[name] for name in known} for each in batches)

        def get_next(self) -> dict[str, Any] | None:
            return next(self._feeds, None)

    try:
        quantize_static(
            str(folded),
            str(place),
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    finally:
        folded.unlink()


def _fold(model: Path, place: Path) -> list[str]:
    """Write ``model`` as one file, with batch normalization as part of the convolutions; return its inputs' names.

    ``quant_pre_process`` does the same, but does not find the constants of a file that are stored in another one.
    """
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(place)
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    onnx.save_model(onnx.load_model(str(place)), str(place))  # what it wrote refers to the weights' file
    return [each.name for each in session.get_inputs()]


def _graph(model: Path) -> Any:
    """The graph of an ONNX model, without the constants that are stored in another file."""
    import onnx

    return onnx.load_model(str(model), load_external_data=False).graph


def initializer_bytes(model: Path) -> int:
    """Bytes of the constants in an ONNX model, in the types in which it holds them."""
    import onnx

    found = _graph(model).initializer
    size_of = onnx.helper.tensor_dtype_to_np_dtype
    return sum(math.prod(each.dims) * int(size_of(each.data_type).itemsize) for each in found)


def convolution_weights(model: Path) -> Mapping[str, Shape]:
    """The shapes of the weights of the convolutions in a model that ``static`` has made, by the name of the node."""
    graph = _graph(model)
    constants = {each.name: tuple(each.dims) for each in graph.initializer}
    # Each is a constant in int8 that a node dequantizes.
    dequantized = {each.output[0]: each.input[0] for each in graph.node if each.op_type == "DequantizeLinear"}
    weights = {each.name: dequantized.get(each.input[1], "") for each in graph.node if each.op_type == "Conv"}
    return {node: constants[name] for node, name in weights.items() if name in constants}
