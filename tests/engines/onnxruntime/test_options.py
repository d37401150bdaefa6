"""The options of a session."""

from __future__ import annotations

import sys

import pytest

from modelzoo.engines.onnxruntime.model import FAST_MATH, SessionSettings, session_settings
from modelzoo.setting import ResolvedSetting


def test_every_option_is_recorded_by_name() -> None:
    """Threads, execution, optimization, memory, spinning and fast math."""
    names = SessionSettings(threads=3, fast_math=False, spinning=True).names
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


def test_fast_math_follows_the_bf16_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the engine's only way to bf16."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    setting = ResolvedSetting(precision="bf16", bf16_method="fastmath", threads=2, engine="onnxruntime")
    assert session_settings(setting) == SessionSettings(threads=2, fast_math=True, spinning=True)
    assert session_settings(setting.reference()).fast_math is False


def test_fast_math_keeps_layers_out_of_gemm() -> None:
    """``Gemm`` has no bf16 kernel."""
    entries = SessionSettings(threads=2, fast_math=True, spinning=True).entries
    assert entries["optimization.disable_specified_optimizers"] == "MatMulAddFusion"


def test_threads_do_not_spin_beside_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation runs torch in the same process."""
    monkeypatch.setitem(sys.modules, "torch", sys)
    assert session_settings(ResolvedSetting(threads=2)).spinning is False


def test_the_options_reach_onnx_runtime() -> None:
    """What its own object says is what is recorded."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    found = SessionSettings(threads=2, fast_math=True, spinning=False).options()
    assert (found.intra_op_num_threads, found.inter_op_num_threads) == (2, 1)
    assert found.execution_mode.name == "ORT_SEQUENTIAL"
    assert found.graph_optimization_level.name == "ORT_ENABLE_ALL"
    assert found.get_session_config_entry(FAST_MATH) == "1"
    assert found.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert found.enable_profiling is False
