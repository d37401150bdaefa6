"""OpenVINO as an engine: what it refuses, resolves and records."""

from __future__ import annotations

from pathlib import Path

import pytest
from exportable_workloads import CLASSIFIER, resolved, source_of

from modelzoo.engines.openvino.engine import OpenVinoEngine
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import Setting

SETTING = Setting(engine="openvino")
ENGINE = OpenVinoEngine()


def test_bf16_needs_a_cpu_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO would compute in fp32 without a word."""
    monkeypatch.setattr(OpenVinoEngine, "_capabilities", lambda self: ["FP32", "FP16", "INT8"])
    ENGINE.check(SETTING)
    with pytest.raises(EnvironmentProblem, match="OpenVINO has no bf16 kernels for this CPU"):
        ENGINE.check(SETTING.replace(precision="bf16"))
    monkeypatch.setattr(OpenVinoEngine, "_capabilities", lambda self: ["BF16", "FP32"])
    ENGINE.check(SETTING.replace(precision="bf16"))
    assert ENGINE.resolve(SETTING.replace(precision="bf16"), batch=1, threads=2).bf16_method == "hint"


@pytest.mark.parametrize("method", ["autocast", "cast", "fastmath"])
def test_other_ways_to_bf16_are_refused(method: str) -> None:
    """They are torch's."""
    with pytest.raises(UsageError, match=f"--bf16={method}: OpenVINO takes a hint .* use --bf16=hint"):
        ENGINE.check(SETTING.replace(precision="bf16", bf16_method=method))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"mode": "script"}, "--mode script is an option of torch, and OpenVINO runs"),
        ({"precision": "fp16"}, "--precision fp16: OpenVINO runs fp32 and bf16"),
    ],
)
def test_settings_that_it_does_not_have_are_refused(changes: dict[str, str], line: str) -> None:
    """A mode of torch, and other precisions."""
    with pytest.raises(UsageError, match=line):
        ENGINE.check(SETTING.replace(**changes))


def test_versions_and_build_are_recorded() -> None:
    """So that results of two builds can be told apart."""
    pytest.importorskip("openvino", reason="OpenVINO is not installed")
    opened = OpenVinoEngine()
    opened.load()
    with opened.open(resolved("openvino")).active() as switches:
        assert "INFERENCE_PRECISION_HINT=f32" in switches
    libraries = opened.libraries()
    assert libraries.build_line.startswith(f"openvino {opened.versions()['openvino']}")
    assert (libraries.backends, libraries.threads, libraries.interop_threads) == (("openvino",), 1, 1)


def test_a_model_is_exported_once(tmp_path: Path) -> None:
    """The second time it comes from the cache; a model that was not exported is refused."""
    pytest.importorskip("openvino", reason="OpenVINO is not installed")
    setting = resolved("openvino")
    source = source_of(CLASSIFIER, tmp_path, setting)
    first = ENGINE.export(setting, source)
    files = {path: path.stat().st_mtime_ns for path in Path(first.path).glob("model.*")}
    assert ENGINE.export(setting, source_of(CLASSIFIER, tmp_path, setting)) == first
    assert {path: path.stat().st_mtime_ns for path in Path(first.path).glob("model.*")} == files
    with pytest.raises(UsageError, match="classifier has not been exported for OpenVINO"):
        ENGINE.open(setting).load(CLASSIFIER, source.weights, source.inputs, None)
