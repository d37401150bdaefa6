"""OpenVINO as an engine: what it refuses, resolves and records."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from modelzoo.engines import openvino as engine
from modelzoo.engines.export.engine import option_names
from modelzoo.engines.openvino import OpenVinoEngine, compile_options, require_options
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import ResolvedSetting, Setting

SETTING = Setting(engine="openvino")
ENGINE = OpenVinoEngine()


def test_bf16_needs_a_cpu_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO would compute in fp32 without a word."""
    found = ["FP32", "FP16", "INT8"]
    monkeypatch.setattr(engine, "_core", lambda: SimpleNamespace(get_property=lambda *asked: found))
    ENGINE.check(SETTING)
    with pytest.raises(EnvironmentProblem, match="OpenVINO has no bf16 kernels for this CPU"):
        ENGINE.check(SETTING.replace(precision="bf16"))
    found.append("BF16")
    ENGINE.check(SETTING.replace(precision="bf16"))
    assert ENGINE.resolve(SETTING.replace(precision="bf16"), batch=1, threads=2).bf16_method == "hint"
    with pytest.raises(UsageError, match="--bf16=cast: OpenVINO takes a hint .* use --bf16=hint"):
        ENGINE.check(SETTING.replace(precision="bf16", bf16_method="cast"))
    with pytest.raises(UsageError, match="--precision fp16: OpenVINO runs fp32 and bf16"):
        ENGINE.check(SETTING.replace(precision="fp16"))


@pytest.mark.parametrize(("precision", "hints"), [("fp32", ("f32", "ACCURACY")), ("bf16", ("bf16", "PERFORMANCE"))])
def test_every_option_is_recorded_by_name_and_must_be_taken(precision: str, hints: tuple[str, str]) -> None:
    """With fewer threads, for example, the comparison would not be fair; with OpenVINO's defaults fp32 is none."""
    method = "hint" if precision == "bf16" else None
    options = compile_options(ResolvedSetting(precision, method, threads=3, engine="openvino"))
    names = {f"INFERENCE_PRECISION_HINT={hints[0]}", f"EXECUTION_MODE_HINT={hints[1]}", "INFERENCE_NUM_THREADS=3"}
    assert set(option_names(options)) >= names
    taken = {**options, "ENABLE_HYPER_THREADING": False, "INFERENCE_NUM_THREADS": 2}
    with pytest.raises(EnvironmentProblem, match="INFERENCE_NUM_THREADS=2 instead of 3"):
        require_options(SimpleNamespace(get_property=taken.get), options)
