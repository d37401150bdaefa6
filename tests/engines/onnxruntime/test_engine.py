"""ONNX Runtime as an engine: what it refuses, resolves and records."""

from __future__ import annotations

import importlib
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from exportable_workloads import DETECTOR, resolved, source_of

from modelzoo.engines import create_engine
from modelzoo.engines.export import engine as export_engine
from modelzoo.engines.onnxruntime import engine
from modelzoo.engines.onnxruntime.engine import OnnxRuntimeEngine
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine import installation
from modelzoo.setting import Setting

SETTING = Setting(engine="onnxruntime")
ENGINE = OnnxRuntimeEngine()


def test_it_is_created_by_name_and_imports_nothing() -> None:
    """Neither torch nor ONNX Runtime, before it is loaded."""
    code = (
        "import sys; from modelzoo.engines import create_engine; create_engine('onnxruntime');"
        "sys.exit('torch' in sys.modules or 'onnxruntime' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert create_engine("onnxruntime").name == "onnxruntime"


@pytest.mark.parametrize("package", ["onnxruntime", "onnx"])
def test_a_missing_package_is_named_with_its_install_command(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line."""

    def absent(name: str) -> None:
        if name == package:
            raise ModuleNotFoundError(name)

    monkeypatch.setattr(export_engine, "installed_version", lambda name: None)
    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(EnvironmentProblem, match=rf"^{package} is not installed: run pip install onnxruntime "):
        ENGINE.load()


def test_bf16_is_refused_on_x86_and_fast_math_on_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only ARM has such kernels."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(UsageError, match="ONNX Runtime has no bf16 kernels on x86_64"):
        ENGINE.check(SETTING.replace(precision="bf16"))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    ENGINE.check(SETTING.replace(precision="bf16"))
    found = ENGINE.resolve(SETTING.replace(precision="bf16"), batch=1, threads=2)
    assert found.bf16_method == "fastmath"


@pytest.mark.parametrize("method", ["autocast", "cast"])
def test_other_ways_to_bf16_are_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are torch's."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(UsageError, match=f"--bf16={method}: ONNX Runtime has fast math only"):
        ENGINE.check(SETTING.replace(precision="bf16", bf16_method=method))


def test_a_setting_of_torch_is_refused() -> None:
    """A mode, for example."""
    with pytest.raises(UsageError, match="--mode script is an option of torch, and ONNX Runtime runs"):
        ENGINE.check(SETTING.replace(mode="script"))


def test_open_values_are_decided() -> None:
    """What the user gave stays."""
    found = ENGINE.resolve(SETTING.replace(batch=4), batch=1, threads=2)
    assert (found.batch, found.threads, found.bf16_method, found.engine) == (4, 2, None, "onnxruntime")
    assert ENGINE.reference(found).engine == "torch"
    assert ENGINE.variables(found)["OMP_NUM_THREADS"] == "2"


def test_versions_and_build_are_recorded(tmp_path: Path) -> None:
    """So that results of two builds can be told apart."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    opened = OnnxRuntimeEngine()
    opened.load()
    with opened.open(resolved("onnxruntime")).active() as switches:
        assert "intra_op_num_threads=1" in switches
    libraries = opened.libraries()
    assert libraries.build_line.startswith(f"onnxruntime {opened.versions()['onnxruntime']}: ")
    assert "build type=" in libraries.build_line
    assert (libraries.backends, libraries.threads, libraries.interop_threads) == (("mlas",), 1, 1)


def test_a_model_is_exported_once(tmp_path: Path) -> None:
    """The second time it comes from the cache; a model that was not exported is refused."""
    pytest.importorskip("onnx", reason="onnx is not installed")
    setting = resolved("onnxruntime")
    source = source_of(DETECTOR, tmp_path, setting)
    first = ENGINE.export(setting, source)
    files = {path: path.stat().st_mtime_ns for path in Path(first.path).glob("model.*")}
    assert ENGINE.export(setting, source_of(DETECTOR, tmp_path, setting)) == first
    assert {path: path.stat().st_mtime_ns for path in Path(first.path).glob("model.*")} == files
    with pytest.raises(UsageError, match="detector has not been exported for ONNX Runtime"):
        ENGINE.open(setting).load(DETECTOR, source.weights, source.inputs, None)


@pytest.mark.parametrize(("version", "opset"), [("1.22.1", 17), ("1.23.0", 23), ("2.0", 23), (None, 17)])
def test_older_versions_get_older_operators(version: str | None, opset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1.23 is the first with ``Attention``."""
    monkeypatch.setattr(installation, "installed_version", lambda name: version)
    assert engine.newest_opset() == opset
