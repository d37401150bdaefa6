"""The canary in OpenVINO."""

from __future__ import annotations

import pytest

from modelzoo.engines.openvino.engine import compile_options
from modelzoo.evidence.canary import canary_cases
from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.setting import ResolvedSetting

openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")

CORE = openvino.Core()


def run(**setting: str) -> Canary:
    from modelzoo.engines.openvino.engine import run_canary

    return run_canary(CORE, compile_options(ResolvedSetting(engine="openvino", threads=1, **setting)))


def test_fp32_shows_fp32() -> None:
    """All operators, so the model that was built computes what it should."""
    found = run()
    assert [each.operator for each in found.operators] == [case.operator for case in canary_cases()]
    assert found.verdict("fp32") is CanaryVerdict.FP32, found.summary


def test_bf16_shows_bf16() -> None:
    """If the CPU has it."""
    if "BF16" not in CORE.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("OpenVINO has no bf16 kernels for this CPU")
    found = run(precision="bf16", bf16_method="hint")
    assert found.verdict("bf16") is CanaryVerdict.ACTIVE, found.summary
