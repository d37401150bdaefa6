"""Exported models in ONNX Runtime and OpenVINO: their outputs are torch's, and their precision is proven."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from exportable_workloads import CLASSIFIER, DETECTOR, Classifier, resolved, source_of

from modelzoo.engines import create_engine
from modelzoo.engines import onnxruntime as onnxruntime_engine
from modelzoo.engines.export import store
from modelzoo.engines.onnxruntime import onnx
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.measure.observing import output_agreement
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.codec import encode_json
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.workload import Export, Weights, WeightsKind
from modelzoo.workload import Workload

WEIGHTS = Weights(WeightsKind.PATH, "in the export", "", "")
OPENVINO = "openvino"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with weights, and the cache of this module's exports."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(autouse=True)
def _same_cache(folder: Path, monkeypatch: pytest.MonkeyPatch, _isolated_directories: None) -> None:
    """Tracing takes a tenth of the other exporter's time, which ``tests/engines/export/test_onnx.py`` tests."""
    monkeypatch.setenv("MODELZOO_CACHE", str(folder / "cache"))
    monkeypatch.setattr(onnxruntime_engine, "newest_opset", lambda: onnx.TRACED_OPSET)


@pytest.fixture(params=["onnxruntime", OPENVINO])
def name(request: pytest.FixtureRequest) -> str:
    """Of the engine."""
    engine: str = request.param
    for package in (engine, "onnx") if engine != OPENVINO else (engine,):
        pytest.importorskip(package, reason=f"{package} is not installed")
    return engine


def exported(name: str, workload: Workload, folder: Path) -> Export:
    """The export of ``workload``, made by the first test that asks for it."""
    setting = resolved(name)
    return create_engine(name).export(setting, source_of(workload, folder, setting))


def loaded(name: str, workload: Workload, export: Export) -> tuple[Any, tuple[Any, ...]]:
    """The model of ``export``, and its batch as the model takes it."""
    inputs = store.read_inputs(export)
    model = create_engine(name).open(resolved(name)).load(workload, WEIGHTS, inputs, export)
    return model, model.prepare(inputs.args)


@pytest.mark.parametrize("workload", [CLASSIFIER, DETECTOR], ids=lambda each: each.name)
def test_the_outputs_are_those_of_torch(name: str, workload: Workload, folder: Path) -> None:
    """Within the bound of fp32; of a detector its raw heads, and its detections."""
    export = exported(name, workload, folder)
    model, args = loaded(name, workload, export)
    found = output_agreement(export, model.outputs(args), "fp32")
    assert found.is_same, found.outputs
    assert (found.detections is not None) == (workload is DETECTOR)


def scaled(options: object) -> Classifier:
    """A classifier of which one of three layers is off."""
    made = Classifier()
    made.narrow.weight.data.mul_(1.01)
    return made


def test_a_layer_that_is_off_by_one_percent_is_caught(name: str, folder: Path) -> None:
    """Its outputs are not those of torch with the right weights."""
    changed = replace(CLASSIFIER, name="changed", build=scaled)
    model, args = loaded(name, changed, exported(name, changed, folder))
    right = exported(name, CLASSIFIER, folder)
    assert output_agreement(right, model.outputs(args), "fp32").is_same is False


def test_predictions_are_tensors_nested_as_torch_nests_them(name: str, folder: Path) -> None:
    """Pictures of other sizes than those of the batch, as a data set has them, and of the same."""
    model, _ = loaded(name, DETECTOR, exported(name, DETECTOR, folder))
    module = source_of(DETECTOR, folder, resolved(name)).module
    for pictures in ([torch.randn(3, 9, 7), torch.randn(3, 5, 12)], [torch.randn(3, 6, 8), torch.randn(3, 6, 8)]):
        with torch.no_grad():
            expected = module(pictures)
        found = model.predict(pictures)
        model.predict(pictures[::-1])  # a later call leaves it as it is
        assert [list(each) for each in found] == [["boxes", "labels", "scores"]] * 2
        for mine, theirs in zip(found, expected):
            torch.testing.assert_close(mine, theirs)


def test_a_measuring_process_does_not_import_torch(name: str, folder: Path) -> None:
    """All that it does with a model, in a process of its own; prediction is for judging alone."""
    export = exported(name, CLASSIFIER, folder)
    code = """
import json
import sys
from modelzoo.engines import create_engine
from modelzoo.engines.export.store import read_inputs
from modelzoo.records.codec import decode
from modelzoo.records.workload import Export
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import Workload

name, export = sys.argv[1], decode(Export, json.loads(sys.argv[2]))
engine, setting = create_engine(name), ResolvedSetting(engine=name, batch=2, threads=1)
engine.load()
session = engine.open(setting)
workload = Workload("classifier", "", "pictures", build=None, inputs=None)
with session.active():
    inputs = read_inputs(export)
    model = session.load(workload, None, inputs, export)
    args = model.prepare(inputs.args)
    model.call(*args), model.outputs(args), model.kernels(args)
    model.audit(args, canary=session.canary())
line, own = engine.libraries().build_line, engine.versions()[name]
assert line.startswith(f"{name} {own}"), line
sys.exit("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, name, encode_json(export).decode()], check=False)
    assert done.returncode == 0


def test_an_audit_proves_fp32_with_the_canary(name: str, folder: Path) -> None:
    """And not without it; the kernels of another session are the same, and the operations are those of torch."""
    export = exported(name, CLASSIFIER, folder)
    model, args = loaded(name, CLASSIFIER, export)
    canary: Any = create_engine(name).open(resolved(name)).canary()
    own = ["projection"] if name != OPENVINO else []
    assert [each.operator for each in canary.operators] == ["matmul", "linear", "conv", "pointwise", *own]
    assert canary.verdict("fp32") is CanaryVerdict.FP32, canary.summary
    evidence, profile, flops = model.audit(args, canary=canary), model.profile(args, evidence=None), model.flops(args)
    assert (evidence.verdict, evidence.iterations, evidence.problems) == (ProofVerdict.FP32, 1, ())
    assert model.audit(args, canary=None).verdict is ProofVerdict.UNKNOWN
    digest = model.kernels(args)
    assert sum(each.count for each in digest.kernels) == 3
    assert loaded(name, CLASSIFIER, export)[0].kernels(args) == digest
    counted = source_of(CLASSIFIER, folder, resolved(name)).flops
    assert (flops.total, flops.bytes) == (counted.total if counted else None, 0)
    layer = "Gemm" if name != OPENVINO else "FullyConnected"
    assert {row.count for row in profile.operators if row.name == layer} == {profile.iterations}


def test_an_error_of_the_framework_is_one_line(name: str, folder: Path) -> None:
    """It names the workload, the setting and the way out."""
    model, args = loaded(name, CLASSIFIER, exported(name, CLASSIFIER, folder))
    (given,) = args
    wrong = given[:, :3].copy() if name == OPENVINO else {key: array[:, :3] for key, array in given.items()}
    line = f"^classifier cannot run with fp32 {name}: [^\n]*; run it with --engine torch$"
    with pytest.raises(UsageError, match=line), model.explained_errors():
        model.call(wrong)
