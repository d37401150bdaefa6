"""The options that models are compiled with."""

from __future__ import annotations

from typing import Any

import pytest

from modelzoo.engines.export.engine import option_names
from modelzoo.engines.openvino.engine import compile_options, property_text, require_options
from modelzoo.errors import EnvironmentProblem
from modelzoo.setting import ResolvedSetting

FP32 = ResolvedSetting(threads=3, engine="openvino")
BF16 = ResolvedSetting(precision="bf16", bf16_method="hint", threads=3, engine="openvino")


def test_every_option_is_recorded_by_name() -> None:
    """Precision, streams, threads and their placement, quantization and denormals."""
    assert option_names(compile_options(FP32)) == (
        "INFERENCE_PRECISION_HINT=f32",
        "EXECUTION_MODE_HINT=ACCURACY",
        "PERFORMANCE_HINT=LATENCY",
        "NUM_STREAMS=1",
        "INFERENCE_NUM_THREADS=3",
        "ENABLE_CPU_PINNING=NO",
        "ENABLE_HYPER_THREADING=YES",
        "SCHEDULING_CORE_TYPE=ANY_CORE",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE=0",
        "CPU_DENORMALS_OPTIMIZATION=NO",
    )


def test_bf16_is_a_hint() -> None:
    """Nothing else differs but the execution mode, which would keep fp32."""
    differing = set(compile_options(BF16).items()) - set(compile_options(FP32).items())
    assert differing == {("INFERENCE_PRECISION_HINT", "bf16"), ("EXECUTION_MODE_HINT", "PERFORMANCE")}


class Compiled:
    """A compiled model that has other options than those asked for."""

    def __init__(self, **changes: Any) -> None:
        self._found = {**compile_options(FP32), **changes}

    def get_property(self, name: str) -> Any:
        return self._found[name]


def test_an_option_that_was_not_taken_is_an_error() -> None:
    """With fewer threads, for example, the comparison would not be fair."""
    options = compile_options(FP32)
    require_options(Compiled(), options)
    require_options(Compiled(ENABLE_HYPER_THREADING=False), options)
    with pytest.raises(EnvironmentProblem, match="INFERENCE_NUM_THREADS=2 instead of 3"):
        require_options(Compiled(INFERENCE_NUM_THREADS=2), options)


def test_values_are_written_as_in_options() -> None:
    """OpenVINO returns booleans, enumerators and types of its own."""
    openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")
    from openvino.properties.hint import ExecutionMode

    values = [True, False, openvino.Type.f32, ExecutionMode.ACCURACY, 2, "LATENCY"]
    assert list(map(property_text, values)) == ["YES", "NO", "f32", "ACCURACY", "2", "LATENCY"]
