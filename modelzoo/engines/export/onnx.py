"""Write a torch module as an ONNX model; this module imports torch and onnx when used.

    model.onnx     the graph, with the outputs of the torch module
    heads.onnx     of detectors: the same graph, with the outputs of the raw heads too
    weights.bin    the large constants of both

Neither file holds a tensor twice, so what is timed and what is compared differ in nothing but the list of outputs.
"""

from __future__ import annotations

import inspect
import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.engines.export.structure import ARRAY, LIST, Structure
from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.installation import installed_version
from modelzoo.records.export import Conversion

if TYPE_CHECKING:
    from modelzoo.engines.export.source import TorchSource

MODEL, WITH_HEADS, WEIGHTS = "model.onnx", "heads.onnx", "weights.bin"
OPSET = 17
"""The first with ``LayerNormalization``, and the newest that ``torch.onnx.export`` of torch 2.0 can write."""
OPSET_TORCH_1 = 16
EXTERNAL_BYTES = 1024
"""Constants from this size on are stored in ``weights.bin``: a file in ONNX format is limited to 2 GiB."""
_PICTURE_DIMENSIONS = 3


def onnx_conversion() -> Conversion:
    """How ``write_onnx`` converts a module.

    It is traced: of the two exporters of torch, only the older one, which traces, converts torchvision's detectors
    (pytorch/vision#9306, #9462).

    Raises:
        EnvironmentProblem: the package ``onnx`` is not installed.
    """
    torch, onnx = installed_version("torch"), installed_version("onnx")
    if onnx is None:
        raise EnvironmentProblem("the package onnx is not installed: run pip install 'modelzoo[onnxruntime]'")
    opset = OPSET_TORCH_1 if (torch or "").startswith("1.") else OPSET
    return Conversion("torch.onnx.export", f"torch {torch}, onnx {onnx}", opset, {"dynamo": False})


def write_onnx(source: TorchSource, conversion: Conversion, directory: Path) -> tuple[str, ...]:
    """Write the files of ``source`` into ``directory``; return its parts: none, because it is converted whole."""
    import onnx
    import torch

    expected = source.expected
    outputs = [f"output.{name}" for name in expected.structure.names()]
    heads = [f"head.{name}" for name in expected.head_names]
    exported = directory / "exported"
    exported.mkdir()
    with _quiet(), torch.no_grad():
        torch.onnx.export(
            source.flat_module(heads=bool(heads)),
            source.flat_inputs,
            str(exported / MODEL),
            opset_version=conversion.opset,
            input_names=input_names(source.input_structure),
            output_names=outputs + heads,
            dynamic_axes=dynamic_sizes(source.input_structure, [each.dim() for each in source.flat_inputs]),
            **({"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}),
        )
    model = onnx.load_model(str(exported / MODEL))
    shutil.rmtree(exported)
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


def dynamic_sizes(structure: Structure, dimensions: list[int]) -> Mapping[str, Mapping[int, str]]:
    """Return the dimensions that may differ from call to call, by input: height and width of pictures in a list.

    Detectors take a list because its pictures may differ in size. Everything else has the shape of the batch.

    Args:
        structure: of the inputs.
        dimensions: number of dimensions of each.
    """
    in_lists = _in_lists(structure, is_in_list=False)
    return {
        name: {1: f"{name}.height", 2: f"{name}.width"}
        for name, is_in_list, count in zip(input_names(structure), in_lists, dimensions)
        if is_in_list and count == _PICTURE_DIMENSIONS
    }


def _in_lists(structure: Structure, *, is_in_list: bool) -> Iterator[bool]:
    if not structure.parts:
        yield from [is_in_list] * structure.count
    for part in structure.parts:
        yield from _in_lists(part, is_in_list=structure.kind == LIST and part.kind == ARRAY)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's warnings, one for every Python value that it traces as a constant.

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
