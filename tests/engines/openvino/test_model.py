"""An exported model that OpenVINO compiled: its outputs, and what it proves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exportable_workloads import CLASSIFIER, DETECTOR, resolved, source_of

from modelzoo.engines.export import store
from modelzoo.engines.export.store import read_inputs
from modelzoo.engines.openvino import engine
from modelzoo.engines.openvino.engine import MODEL, PRECISION_HINT, OpenVinoEngine, OpenVinoModel, compile_options
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.measure.observing import output_agreement
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.codec import encode_json
from modelzoo.records.evidence import KernelDigest, ProofVerdict
from modelzoo.records.workload import Conversion, Export, OutputAgreement, Weights, WeightsKind
from modelzoo.workload import Workload

openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")

SETTING = resolved("openvino")
WEIGHTS = Weights(WeightsKind.PATH, "in the export", "", "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with weights, and the cache of this module's exports."""
    found = tmp_path_factory.mktemp("model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODELZOO_CACHE", str(found / "cache"))
        yield found


@pytest.fixture(autouse=True)
def _same_cache(folder: Path, monkeypatch: pytest.MonkeyPatch, _isolated_directories: None) -> None:
    monkeypatch.setenv("MODELZOO_CACHE", str(folder / "cache"))


def exported(workload: Workload, folder: Path) -> Export:
    """The export of ``workload``, made by the first test that asks for it."""
    return OpenVinoEngine().export(SETTING, source_of(workload, folder, SETTING))


def loaded(workload: Workload, export: Export) -> tuple[OpenVinoModel, tuple[Any, ...]]:
    """The model of ``export``, and its batch as the model takes it."""
    inputs = read_inputs(export)
    model = OpenVinoEngine().open(SETTING).load(workload, WEIGHTS, inputs, export)
    return model, model.prepare(inputs.args)


def agreement(workload: Workload, export: Export) -> OutputAgreement:
    """How far the model of ``export`` is from torch."""
    model, args = loaded(workload, export)
    return output_agreement(export, model.outputs(args), "fp32")


@pytest.mark.parametrize("workload", [CLASSIFIER, DETECTOR], ids=lambda each: each.name)
def test_the_outputs_are_those_of_torch(workload: Workload, folder: Path) -> None:
    """Within the bound of fp32; of a detector its raw heads, and its detections."""
    found = agreement(workload, exported(workload, folder))
    assert found.is_same, found.outputs
    assert (found.detections is not None) == (workload is DETECTOR)


def test_weights_compressed_to_fp16_are_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the default of ``openvino.save_model``."""
    compressed = Conversion("openvino", "1", options={"compress_to_fp16": True})
    monkeypatch.setattr(engine, "openvino_conversion", lambda: compressed)
    found = agreement(CLASSIFIER, exported(CLASSIFIER, folder))
    assert found.is_same is False
    assert found.worst is not None
    assert found.worst.relative is not None
    assert 1e-5 < found.worst.relative < 1e-3


def test_a_layer_that_is_off_by_one_percent_is_caught(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although only one of three layers is changed."""
    monkeypatch.setattr(store, "_is_unchanged", lambda *given, in_full: True)  # the change is planted
    export = exported(CLASSIFIER, folder)
    graph = openvino.Core().read_model(Path(export.path) / MODEL)
    layer = next(each for each in graph.get_ops() if list(each.get_output_partial_shape(0)) == [16, 16, 1, 1])
    layer.output(0).replace(openvino.opset8.constant(layer.data * np.float32(1.01)).output(0))
    openvino.save_model(graph, tmp_path / MODEL, compress_to_fp16=False)
    for kept in (*Path(export.path).glob("batch-*"), Path(export.path) / store.MANIFEST):
        (tmp_path / kept.name).write_bytes(kept.read_bytes())
    changed = Export(str(tmp_path), export.batch, export.conversion, export.state_sha256, export.sha256)
    assert agreement(CLASSIFIER, changed).is_same is False


def test_the_default_precision_is_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernels, by the canary and by the outputs, if the CPU has bf16."""
    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("OpenVINO has no bf16 kernels for this CPU")
    default = {
        name: value
        for name, value in compile_options(SETTING).items()
        if name not in (PRECISION_HINT, "EXECUTION_MODE_HINT")
    }
    monkeypatch.setattr(engine, "compile_options", lambda setting: default)
    export = exported(CLASSIFIER, folder)
    model, args = loaded(CLASSIFIER, export)
    canary = OpenVinoEngine().open(SETTING).canary()
    assert canary.verdict("fp32") is CanaryVerdict.NOT_FP32
    assert model.audit(args, canary=None).verdict is ProofVerdict.NOT_FP32
    assert output_agreement(export, model.outputs(args), "fp32").is_same is False


def test_predictions_are_tensors_nested_as_torch_nests_them(folder: Path) -> None:
    """Pictures of other sizes than those of the batch, as a data set has them, and of the same."""
    model, _ = loaded(DETECTOR, exported(DETECTOR, folder))
    module = source_of(DETECTOR, folder, SETTING).module
    for pictures in ([torch.randn(3, 9, 7), torch.randn(3, 5, 12)], [torch.randn(3, 6, 8), torch.randn(3, 6, 8)]):
        with torch.no_grad():
            expected = module(pictures)
        found = model.predict(pictures)
        model.predict(pictures[::-1])  # a later call leaves it as it is
        assert [list(each) for each in found] == [["boxes", "labels", "scores"]] * 2
        for mine, theirs in zip(found, expected):
            torch.testing.assert_close(mine["boxes"], theirs["boxes"])
            torch.testing.assert_close(mine["scores"], theirs["scores"])
            assert mine["labels"].dtype == theirs["labels"].dtype


def test_a_measuring_process_does_not_import_torch(folder: Path) -> None:
    """All that it does with a model, in a process of its own; prediction is for judging alone."""
    export = exported(CLASSIFIER, folder)
    code = """
import json
import sys
from modelzoo.engines.export.store import read_inputs
from modelzoo.engines.openvino.engine import OpenVinoEngine
from modelzoo.records.codec import decode
from modelzoo.records.workload import Export
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import Workload

export = decode(Export, json.loads(sys.argv[1]))
engine, setting = OpenVinoEngine(), ResolvedSetting(engine="openvino", batch=2, threads=1)
engine.load()
session = engine.open(setting)
workload = Workload("classifier", "", "pictures", build=None, inputs=None)
with session.active():
    inputs = read_inputs(export)
    model = session.load(workload, None, inputs, export)
    args = model.prepare(inputs.args)
    model.call(*args), model.outputs(args), model.kernels(args)
    model.audit(args, canary=session.canary())
engine.versions(), engine.libraries()
sys.exit("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, encode_json(export).decode()], check=False)
    assert done.returncode == 0


def test_an_audit_proves_fp32_with_the_canary(folder: Path) -> None:
    """And not without it."""
    model, args = loaded(CLASSIFIER, exported(CLASSIFIER, folder))
    canary = OpenVinoEngine().open(SETTING).canary()
    assert [each.operator for each in canary.operators] == ["matmul", "linear", "conv", "pointwise"]
    assert canary.verdict("fp32") is CanaryVerdict.FP32, canary.summary
    evidence = model.audit(args, canary=canary)
    assert evidence.verdict is ProofVerdict.FP32
    assert evidence.iterations == 1
    assert evidence.compute_seconds > 0
    assert evidence.problems == ()
    assert model.audit(args, canary=None).verdict is ProofVerdict.UNKNOWN


def test_two_processes_that_run_the_same_kernels_have_the_same_digest(folder: Path) -> None:
    """Here two compiled models."""
    export = exported(CLASSIFIER, folder)
    digests = []
    for _ in range(2):
        model, args = loaded(CLASSIFIER, export)
        digests.append(model.kernels(args))
    assert isinstance(digests[0], KernelDigest)
    assert digests[0] == digests[1]
    assert sum(each.count for each in digests[0].kernels) == 3


def test_a_profile_has_the_layers(folder: Path) -> None:
    """With the number of passes."""
    model, args = loaded(CLASSIFIER, exported(CLASSIFIER, folder))
    profile = model.profile(args, evidence=None)
    assert profile.iterations == 2
    assert {row.name for row in profile.operators} >= {"Convolution", "FullyConnected"}
    assert {row.count for row in profile.operators if row.name == "FullyConnected"} == {2}


def test_operations_are_those_of_torch(folder: Path) -> None:
    """As they were counted when the model was exported."""
    model, args = loaded(CLASSIFIER, exported(CLASSIFIER, folder))
    found, expected = model.flops(args), source_of(CLASSIFIER, folder, SETTING).flops
    assert (found.total, found.bytes) == (expected.total, 0)
    assert model.counts(args, ()) == ()
    assert model.compilation.seconds > 0


def test_an_error_of_openvino_is_one_line(folder: Path) -> None:
    """It names the workload, the setting and the way out; other errors pass."""
    model, args = loaded(CLASSIFIER, exported(CLASSIFIER, folder))
    line = "^classifier cannot run with fp32 openvino: .*--engine torch$"
    with pytest.raises(UsageError, match=line) as caught, model.explained_errors():
        model.call(args[0][:, :3].copy())
    assert "\n" not in str(caught.value)
    with pytest.raises(ZeroDivisionError), model.explained_errors():
        raise ZeroDivisionError


def test_a_model_without_its_weights_is_explained(folder: Path, tmp_path: Path) -> None:
    """As if the cache had been cleaned by hand."""
    export = exported(CLASSIFIER, folder)
    weights = Path(export.path) / "model.bin"
    weights.rename(tmp_path / weights.name)
    try:
        with pytest.raises(EnvironmentProblem, match="cannot be read any more; run again"):
            loaded(CLASSIFIER, export)
    finally:
        (tmp_path / weights.name).rename(weights)
