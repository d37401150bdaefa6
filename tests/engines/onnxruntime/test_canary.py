"""The canary of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from modelzoo.engines.onnxruntime.model import PROVIDERS, SessionSettings, canary_model, run_canary
from modelzoo.evidence.canary import canary_cases
from modelzoo.records.canary import CanaryVerdict

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


def test_all_operators_compute_in_fp32() -> None:
    """Under the options of an fp32 setting; the products that a model may have are all there."""
    options = SessionSettings(threads=1, fast_math=False, spinning=False).options()
    canary = run_canary(options, PROVIDERS)
    assert [check.operator for check in canary.operators] == ["matmul", "linear", "conv", "pointwise", "projection"]
    assert canary.verdict("fp32") is CanaryVerdict.FP32
    assert canary.verdict("bf16") is CanaryVerdict.NOT_ACTIVE


def test_the_model_is_valid_and_old_versions_can_read_it() -> None:
    """Opset and format are those of ONNX 1.12."""
    model = onnx.load_from_string(canary_model(canary_cases()))
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Gemm", "Conv", "Conv"]


def test_constants_are_those_of_the_cases() -> None:
    """Only then does the error say something of the kernels."""
    model = onnx.load_from_string(canary_model(canary_cases()))
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    linear = next(case for case in canary_cases() if case.operator == "linear")
    assert np.array_equal(stored["linear.c0"], linear.constants[0])
