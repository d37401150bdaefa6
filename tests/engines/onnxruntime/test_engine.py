"""ONNX Runtime as an engine: what it refuses, resolves and records."""

from __future__ import annotations

import platform
import sys

import pytest

from modelzoo.engines.onnxruntime import (
    FAST_MATH,
    OnnxRuntimeEngine,
    canary_model,
    native_options,
    newest_opset,
    session_options,
)
from modelzoo.errors import UsageError
from modelzoo.evidence.canary import canary_cases
from modelzoo.machine import installation
from modelzoo.setting import ResolvedSetting, Setting

SETTING = Setting(engine="onnxruntime")
ENGINE = OnnxRuntimeEngine()


def test_bf16_is_refused_on_x86_and_fast_math_on_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only ARM has such kernels."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(UsageError, match="ONNX Runtime has no bf16 kernels on x86_64"):
        ENGINE.check(SETTING.replace(precision="bf16"))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    ENGINE.check(SETTING.replace(precision="bf16"))
    found = ENGINE.resolve(SETTING.replace(precision="bf16"), batch=1, threads=2)
    assert found.bf16_method == "fastmath"
    with pytest.raises(UsageError, match="--bf16=cast: ONNX Runtime has fast math only"):
        ENGINE.check(SETTING.replace(precision="bf16", bf16_method="cast"))


@pytest.mark.parametrize(("version", "opset"), [("1.22.1", 17), ("1.23.0", 23), ("2.0", 23), (None, 17)])
def test_older_versions_get_older_operators(version: str | None, opset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1.23 is the first with ``Attention``."""
    monkeypatch.setattr(installation, "installed_version", lambda name: version)
    assert newest_opset() == opset


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_option_is_recorded_by_name_and_reaches_onnx_runtime(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fast math, layers stay out of ``Gemm``; threads do not spin beside torch, as in validation."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    method = "fastmath" if precision == "bf16" else None
    setting = ResolvedSetting(precision=precision, bf16_method=method, threads=3, engine="onnxruntime")
    found = native_options(session_options(setting))
    assert (found.intra_op_num_threads, found.inter_op_num_threads) == (3, 1)
    assert (found.execution_mode.name, found.graph_optimization_level.name) == ("ORT_SEQUENTIAL", "ORT_ENABLE_ALL")
    assert (found.enable_mem_pattern, found.use_deterministic_compute, found.enable_profiling) == (True, False, False)
    assert found.get_session_config_entry(FAST_MATH) == ("1" if method else "0")
    monkeypatch.setitem(sys.modules, "torch", sys)
    assert session_options(setting)["session.intra_op.allow_spinning"] == "0"
    monkeypatch.delitem(sys.modules, "torch")
    with OnnxRuntimeEngine().open(setting).active() as names:
        assert set(names) >= {"intra_op_num_threads=3", "session.intra_op.allow_spinning=1"}
        assert ("optimization.disable_specified_optimizers=MatMulAddFusion" in names) == (precision == "bf16")


def test_old_versions_can_read_the_canary() -> None:
    """Opset and format are those of ONNX 1.12."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    model = onnx.load_from_string(canary_model(canary_cases()))
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)
