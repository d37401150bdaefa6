"""Torch modules as ONNX models."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from exportable_workloads import CLASSIFIER, DETECTOR, resolved, source_of

from modelzoo.engines.export.source import flatten
from modelzoo.engines.onnxruntime import onnx as exporter
from modelzoo.engines.onnxruntime.onnx import (
    GRAPH_OPSET,
    MODEL,
    WEIGHTS,
    WITH_HEADS,
    dynamic_sizes,
    onnx_conversion,
    write_onnx,
)
from modelzoo.machine import installation
from modelzoo.records.workload import Conversion
from modelzoo.workload import Workload

onnx = pytest.importorskip("onnx", reason="onnx is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("onnx")


def written(workload: Workload, folder: Path) -> Path:
    """The directory with the exported files of ``workload``."""
    directory = folder / workload.name
    if not directory.exists():
        directory.mkdir()
        source = source_of(workload, folder, resolved("onnxruntime"))
        write_onnx(source, onnx_conversion(source, GRAPH_OPSET), directory)
    return directory


def test_a_model_without_heads_is_one_graph_and_its_weights(folder: Path) -> None:
    """Its shapes are those of the batch."""
    directory = written(CLASSIFIER, folder)
    assert {path.name for path in directory.iterdir()} == {MODEL, WEIGHTS}
    (given,) = onnx.load_model(str(directory / MODEL)).graph.input
    assert [size.dim_value for size in given.type.tensor_type.shape.dim] == [2, 16, 8, 8]


def test_a_detector_has_a_second_graph_that_differs_in_its_outputs_only(folder: Path) -> None:
    """The raw heads are outputs of that one; both read the same weights."""
    directory = written(DETECTOR, folder)
    assert {path.name for path in directory.iterdir()} == {MODEL, WITH_HEADS, WEIGHTS}
    model = onnx.load_model(str(directory / MODEL), load_external_data=False).graph
    heads = onnx.load_model(str(directory / WITH_HEADS), load_external_data=False).graph
    assert [each.name for each in heads.output[len(model.output) :]] == ["head.head"]
    del heads.output[len(model.output) :]
    assert model == heads


def test_outputs_of_unknown_size_have_no_names_for_it(folder: Path) -> None:
    """torch's exporter gives one name to different sizes, and ONNX Runtime would reuse memory of the wrong size."""
    for file in (MODEL, WITH_HEADS):
        graph = onnx.load_model(str(written(DETECTOR, folder) / file), load_external_data=False).graph
        sizes = [size for each in graph.output for size in each.type.tensor_type.shape.dim]
        assert sizes
        assert {size.dim_param for size in sizes} == {""}


def test_only_pictures_in_a_list_may_have_other_sizes() -> None:
    """Everything else has the shape of the batch: tensors of another rank, and pictures that are arguments."""
    structure, inputs = flatten(([torch.zeros(1, 1, 1), torch.zeros(1, 1)], torch.zeros(1, 1, 1), 0.5))
    assert list(dynamic_sizes(SimpleNamespace(input_structure=structure, flat_inputs=inputs))) == ["input.0.0"]


def test_the_exporter_follows_from_the_model_and_the_versions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Detectors are traced, and so is everything if a package or the engine is too old for the newer exporter."""
    classifier, detector = (source_of(each, folder, resolved("onnxruntime")) for each in (CLASSIFIER, DETECTOR))
    versions: dict[str, str | None] = {"torch": "2.9.1", "onnx": "1.20.0", "onnxscript": "0.5.0"}
    for module in (exporter, installation):
        monkeypatch.setattr(module, "installed_version", versions.get)
    newest = Conversion("torch.onnx.export", "torch 2.9.1, onnx 1.20.0, onnxscript 0.5.0", 23, {"dynamo": True})
    traced = Conversion("torch.onnx.export", "torch 2.9.1, onnx 1.20.0", 17, {"dynamo": False})
    assert onnx_conversion(classifier, 23) == newest
    assert onnx_conversion(classifier, 17) == traced
    assert onnx_conversion(detector, 23) == traced
    versions["onnxscript"] = None
    assert onnx_conversion(classifier, 23) == traced
    versions.update(torch="2.8.0", onnxscript="0.5.0")
    assert onnx_conversion(classifier, 23).version == "torch 2.8.0, onnx 1.20.0"
