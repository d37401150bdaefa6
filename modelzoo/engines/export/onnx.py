"""Write a torch module as an ONNX model; this module imports torch and onnx when used.

    model.onnx     the graph, with the outputs of the torch module
    heads.onnx     of detectors: the same graph, with the outputs of the raw heads too
    weights.bin    the large constants of both

Neither file holds a tensor twice, so what is timed and what is compared differ in nothing but the list of outputs.
"""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelzoo.engines import INSTALL
from modelzoo.engines.export.source import ARRAY, LIST, Structure
from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.installation import installed_release, installed_version
from modelzoo.records.workload import Conversion

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

    Raises:
        EnvironmentProblem: the package ``onnx`` is not installed.
    """
    versions = {name: installed_version(name) for name in ("torch", "onnx", "onnxscript")}
    if versions["onnx"] is None:
        raise EnvironmentProblem(f"the package onnx is not installed: run {INSTALL['onnxruntime']}")
    is_newer = installed_release("torch") >= GRAPH_TORCH and newest_opset >= GRAPH_OPSET
    dynamo = versions["onnxscript"] is not None and is_newer
    if dynamo and not dynamic_sizes(source):
        used, opset = ["torch", "onnx", "onnxscript"], GRAPH_OPSET
    else:
        dynamo = False
        used, opset = ["torch", "onnx"], TRACED_OPSET
    text = ", ".join(f"{name} {versions[name]}" for name in used)
    return Conversion("torch.onnx.export", text, opset, {"dynamo": dynamo})


def write_onnx(source: TorchSource, conversion: Conversion, directory: Path) -> tuple[str, ...]:
    """Write the files of ``source`` into ``directory``; return its parts: none, because it is converted whole."""
    import onnx
    import torch

    expected = source.expected
    outputs = [f"output.{name}" for name in expected.structure.names()]
    heads = [f"head.{name}" for name in expected.head_names]
    exported = directory / "exported"
    exported.mkdir()
    # What only one of the exporters takes.
    if conversion.options["dynamo"]:
        options: dict[str, Any] = {"dynamo": True, "external_data": True, "verbose": False}
    else:
        options = {"dynamo": False, "dynamic_axes": dynamic_sizes(source)}
    with quiet(), torch.no_grad():
        torch.onnx.export(
            source.flat_module(heads=bool(heads)),
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
    return ()


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
