"""An exported model in a session: its outputs, and what it proves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exportable_workloads import CLASSIFIER, DETECTOR, resolved, source_of

from modelzoo.engines.export.onnx import MODEL, TRACED_OPSET, WEIGHTS
from modelzoo.engines.export.store import read_expected, read_inputs
from modelzoo.engines.onnxruntime import engine
from modelzoo.engines.onnxruntime.engine import (
    FAST_MATH,
    OnnxRuntimeEngine,
    OnnxRuntimeModel,
    canary_model,
    native_options,
    session_options,
)
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.evidence.canary import canary_cases
from modelzoo.evidence.flops import count_flops
from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.records.evidence import Evidence, KernelDigest, ProofVerdict
from modelzoo.records.profile import Flops, Profile
from modelzoo.records.workload import FP32_BOUND, Export, Weights, WeightsKind
from modelzoo.setting import ResolvedSetting
from modelzoo.workload import Workload

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

SETTING = resolved("onnxruntime")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with weights, and the cache of this module's exports."""
    found = tmp_path_factory.mktemp("model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODELZOO_CACHE", str(found / "cache"))
        patch.setattr(engine, "newest_opset", lambda: TRACED_OPSET)
        for workload in (CLASSIFIER, DETECTOR):
            exported(workload, found)
        yield found


@pytest.fixture(autouse=True)
def _same_cache(folder: Path, monkeypatch: pytest.MonkeyPatch, _isolated_directories: None) -> None:
    """Tracing takes a tenth of the other exporter's time, which ``tests/engines/export/test_onnx.py`` tests."""
    monkeypatch.setenv("MODELZOO_CACHE", str(folder / "cache"))
    monkeypatch.setattr(engine, "newest_opset", lambda: TRACED_OPSET)


def exported(workload: Workload, folder: Path) -> Export:
    """The export of ``workload``, made by the first test that asks for it."""
    return OnnxRuntimeEngine().export(SETTING, source_of(workload, folder, SETTING))


def loaded(workload: Workload, export: Export) -> tuple[OnnxRuntimeModel, tuple[Any, ...]]:
    """The model of ``export``, and its batch as the model takes it."""
    inputs = read_inputs(export)
    weights = Weights(WeightsKind.PATH, "in the export", "", "")
    model = OnnxRuntimeEngine().open(SETTING).load(workload, weights, inputs, export)
    return model, model.prepare(inputs.args)


def relative_error(found: Any, expected: Any) -> float:
    """Mean error ÷ mean |output|."""
    return float(np.abs(found - expected).mean() / np.abs(expected).mean())


@pytest.fixture(scope="module")
def canary(folder: Path) -> Canary:
    return OnnxRuntimeEngine().open(SETTING).canary()


@pytest.mark.parametrize("workload", [CLASSIFIER, DETECTOR], ids=lambda each: each.name)
def test_the_outputs_are_those_of_torch(workload: Workload, folder: Path) -> None:
    """Within the bound of fp32, and of the same number of detections; the raw heads of a detector too."""
    export = exported(workload, folder)
    model, args = loaded(workload, export)
    found, expected = model.outputs(args), read_expected(export)
    assert [len(found.outputs), len(found.heads)] == [len(expected.outputs), len(expected.heads)]
    for mine, theirs in zip((*found.outputs, *found.heads), (*expected.outputs, *expected.heads)):
        assert mine.shape == theirs.shape
        assert relative_error(mine, theirs) <= FP32_BOUND


def test_a_layer_that_is_off_by_one_percent_shows(folder: Path, tmp_path: Path) -> None:
    """The bound is far below it, although only one of three layers is changed."""
    export = exported(CLASSIFIER, folder)
    graph = onnx.load_model(str(Path(export.path) / MODEL))
    layer = next(each for each in graph.graph.initializer if each.name == "module.narrow.weight")
    layer.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(layer) * np.float32(1.01), layer.name))
    model, args = loaded(CLASSIFIER, export)
    onnx.save_model(graph, str(tmp_path / MODEL))
    model._directory = tmp_path
    model._session = model._open(MODEL)
    error = relative_error(model.outputs(args).outputs[0], read_expected(export).outputs[0])
    assert error > 100 * FP32_BOUND


def test_predictions_are_tensors_nested_as_torch_nests_them(folder: Path) -> None:
    """Pictures of another size than those of the batch, as a data set has them."""
    export = exported(DETECTOR, folder)
    model, _ = loaded(DETECTOR, export)
    pictures = [torch.randn(3, 9, 7), torch.randn(3, 5, 12)]
    with torch.no_grad():
        expected = source_of(DETECTOR, folder, SETTING).module(pictures)
    found = model.predict(pictures)
    assert [list(each) for each in found] == [["boxes", "labels", "scores"]] * 2
    for mine, theirs in zip(found, expected):
        torch.testing.assert_close(mine["boxes"], theirs["boxes"])
        torch.testing.assert_close(mine["scores"], theirs["scores"])
        assert mine["labels"].dtype == theirs["labels"].dtype


def test_an_audit_proves_fp32_with_the_canary(folder: Path, canary: Canary) -> None:
    """And not without it."""
    model, args = loaded(CLASSIFIER, exported(CLASSIFIER, folder))
    evidence = model.audit(args, canary=canary)
    assert isinstance(evidence, Evidence)
    assert evidence.verdict is ProofVerdict.FP32
    assert evidence.iterations == 1
    assert evidence.compute_seconds > 0
    assert any(share.name.startswith("MLAS") and "Conv" in share.name for share in evidence.by_implementation)


def test_two_processes_that_run_the_same_kernels_have_the_same_digest(folder: Path) -> None:
    """Here two sessions."""
    export = exported(CLASSIFIER, folder)
    digests = []
    for _ in range(2):
        model, args = loaded(CLASSIFIER, export)
        digests.append(model.kernels(args))
    assert isinstance(digests[0], KernelDigest)
    assert digests[0] == digests[1]
    assert sum(each.count for each in digests[0].kernels) == 3


def test_a_profile_has_the_nodes(folder: Path) -> None:
    """As ONNX Runtime's own profiler names them."""
    model, args = loaded(CLASSIFIER, exported(CLASSIFIER, folder))
    profile = model.profile(args, evidence=None)
    assert isinstance(profile, Profile)
    assert profile.iterations == 2
    assert {row.name for row in profile.operators} >= {"Gemm"}


def test_operations_are_those_of_torch(folder: Path) -> None:
    """Products have as many, whatever they were fused with; what moves between them is not known."""
    model, args = loaded(CLASSIFIER, exported(CLASSIFIER, folder))
    source = source_of(CLASSIFIER, folder, SETTING)
    found, expected = model.flops(args), count_flops(lambda: source.module(*source.inputs.args))
    assert isinstance(found, Flops)
    assert (found.total, found.missing, found.bytes) == (expected.total, (), 0)
    assert model.counts(args, ()) == ()


def test_an_error_of_onnx_runtime_is_one_line(folder: Path) -> None:
    """It names the workload, the setting and the way out; other errors pass."""
    model, args = loaded(CLASSIFIER, exported(CLASSIFIER, folder))
    wrong = {name: array[:, :3] for name, array in args[0].items()}
    line = "^classifier cannot run with fp32 onnxruntime: .*--engine torch$"
    with pytest.raises(UsageError, match=line) as caught, model.explained_errors():
        model.call(wrong)
    assert "\n" not in str(caught.value)
    with pytest.raises(ZeroDivisionError), model.explained_errors():
        raise ZeroDivisionError


def test_a_model_without_its_weights_is_explained(folder: Path, tmp_path: Path) -> None:
    """As if the cache had been cleaned by hand."""
    export = exported(CLASSIFIER, folder)
    weights = Path(export.path) / WEIGHTS
    weights.rename(tmp_path / WEIGHTS)
    try:
        with pytest.raises(EnvironmentProblem, match="cannot be read any more; run again"):
            loaded(CLASSIFIER, export)
    finally:
        (tmp_path / WEIGHTS).rename(weights)


def test_every_option_is_recorded_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads, execution, optimization, memory, spinning and fast math."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with OnnxRuntimeEngine().open(ResolvedSetting(threads=3, engine="onnxruntime")).active() as names:
        assert names == (
            "intra_op_num_threads=3",
            "inter_op_num_threads=1",
            "execution_mode=ORT_SEQUENTIAL",
            "graph_optimization_level=ORT_ENABLE_ALL",
            "enable_cpu_mem_arena=True",
            "enable_mem_pattern=True",
            "enable_mem_reuse=True",
            "use_deterministic_compute=False",
            "session.intra_op.allow_spinning=1",
            "session.inter_op.allow_spinning=0",
            "mlas.enable_gemm_fastmath_arm64_bfloat16=0",
            "session.set_denormal_as_zero=0",
            "session.disable_prepacking=0",
            "providers=CPUExecutionProvider",
        )


BF16 = ResolvedSetting(precision="bf16", bf16_method="fastmath", threads=2, engine="onnxruntime")


def test_fast_math_follows_the_bf16_method_and_keeps_layers_out_of_gemm() -> None:
    """It is the engine's only way to bf16, and ``Gemm`` has no bf16 kernel."""
    fast, plain = session_options(BF16), session_options(BF16.reference())
    assert (fast[FAST_MATH], plain[FAST_MATH]) == ("1", "0")
    assert fast["optimization.disable_specified_optimizers"] == "MatMulAddFusion"
    assert "optimization.disable_specified_optimizers" not in plain


def test_the_options_reach_onnx_runtime() -> None:
    """What its own object says is what is recorded. Threads do not spin beside torch, as in validation."""
    found = native_options(session_options(BF16))
    assert (found.intra_op_num_threads, found.inter_op_num_threads) == (2, 1)
    assert found.execution_mode.name == "ORT_SEQUENTIAL"
    assert found.graph_optimization_level.name == "ORT_ENABLE_ALL"
    assert (found.enable_mem_pattern, found.use_deterministic_compute) == (True, False)
    assert found.get_session_config_entry(FAST_MATH) == "1"
    assert found.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert found.enable_profiling is False


def test_all_operators_compute_in_fp32(canary: Canary) -> None:
    """Under the options of an fp32 setting; the products that a model may have are all there."""
    assert [check.operator for check in canary.operators] == ["matmul", "linear", "conv", "pointwise", "projection"]
    assert canary.verdict("fp32") is CanaryVerdict.FP32
    assert canary.verdict("bf16") is CanaryVerdict.NOT_ACTIVE


def test_the_model_is_valid_and_old_versions_can_read_it() -> None:
    """Opset and format are those of ONNX 1.12."""
    model = onnx.load_from_string(canary_model(canary_cases()))
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Gemm", "Conv", "Conv"]
