"""OpenVINO as an engine: what it refuses, resolves and records."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from exportable_workloads import CLASSIFIER, resolved, source_of

from modelzoo.engines import create_engine
from modelzoo.engines.export import engine as export_engine
from modelzoo.engines.openvino.engine import OpenVinoEngine
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import Setting

SETTING = Setting(engine="openvino")
ENGINE = OpenVinoEngine()


def test_it_is_created_by_name_and_imports_nothing() -> None:
    """Neither torch nor OpenVINO, before it is loaded."""
    code = (
        "import sys; from modelzoo.engines import create_engine; create_engine('openvino');"
        "sys.exit('torch' in sys.modules or 'openvino' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert create_engine("openvino").name == "openvino"


def test_a_missing_package_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line; one that is broken is told from one that is missing."""

    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"no {name}")

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(EnvironmentProblem, match=r"^openvino cannot be imported \(no openvino\): run pip install"):
        monkeypatch.setattr(export_engine, "installed_version", lambda name: "2026.4.1")
        ENGINE.load()
    monkeypatch.setattr(export_engine, "installed_version", lambda name: None)
    with pytest.raises(EnvironmentProblem, match=r"^openvino is not installed: run pip install openvino$"):
        ENGINE.load()


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


def test_open_values_are_decided() -> None:
    """What the user gave stays."""
    found = ENGINE.resolve(SETTING.replace(batch=4), batch=1, threads=2)
    assert (found.batch, found.threads, found.bf16_method, found.engine) == (4, 2, None, "openvino")
    assert ENGINE.reference(found).engine == "torch"
    assert ENGINE.variables(found)["OMP_NUM_THREADS"] == "2"


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
