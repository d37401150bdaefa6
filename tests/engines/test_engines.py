"""Engines are found, created without their frameworks, and refuse what is another engine's."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from modelzoo.engines import create_engine
from modelzoo.engines.export import engine as export_engine
from modelzoo.engines.export.engine import ExportedEngine
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import Setting


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("onnx", "^no engine 'onnx': use one of torch, .*, jittor, or module:class$"),
        ("nowhere:Engine", "^engine 'nowhere:Engine' cannot be loaded: No module named 'nowhere'$"),
        ("json:Engine", "^engine 'json:Engine' cannot be loaded: .*no attribute 'Engine'$"),
    ],
)
def test_an_engine_that_does_not_exist_is_one_line(name: str, message: str) -> None:
    """Nothing is registered: an engine from elsewhere is named by its module and its class."""
    with pytest.raises(UsageError, match=message):
        create_engine(name)


def test_creating_engines_imports_no_framework() -> None:
    """An engine is asked for variables before its libraries may be loaded."""
    code = (
        "import sys\nfrom modelzoo.engines import ENGINES, create_engine\n"
        "from modelzoo.setting import ResolvedSetting\n"
        "found = {name: create_engine(name).variables(ResolvedSetting(threads=3)) for name in ENGINES}\n"
        "assert {each['OMP_NUM_THREADS'] for each in found.values()} == {'3'}\n"
        "assert not {'torch', 'numpy', 'onnxruntime', 'openvino', 'jittor'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Fast(ExportedEngine):
    """An engine of two packages."""

    name, title = "fast", "Some Engine"
    packages = ("fast", "format")
    bf16_method = "hint"


def test_a_package_that_is_missing_is_told_from_one_that_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both with the command that installs it; packages before it are imported."""
    imported = []

    def load(name: str) -> None:
        imported.append(name)
        if name == "format":
            raise ImportError("no symbol")

    monkeypatch.setattr(importlib, "import_module", load)
    for version, problem in ((None, "is not installed"), ("1.0", r"cannot be imported \(no symbol\)")):
        monkeypatch.setattr(export_engine, "installed_version", lambda name, found=version: found)
        with pytest.raises(EnvironmentProblem, match=rf"^format {problem}: run pip install fast format$"):
            Fast().load()
    assert imported == ["fast", "format"] * 2


def test_what_a_setting_leaves_open_is_decided() -> None:
    """What the user gave stays; bf16 runs in the way of the engine; the reference is torch's."""
    asked = Setting(engine="openvino", precision="bf16", batch=4, weights="random", malloc="glibc")
    Fast().check(asked)
    found = Fast().resolve(asked, batch=1, threads=2)
    assert (found.batch, found.threads, found.bf16_method) == (4, 2, "hint")
    assert Fast().reference(found).engine == "torch"


@pytest.mark.parametrize(
    ("setting", "option"),
    [
        (Setting(device="cuda"), "--device cuda"),
        (Setting(mode="compile"), "--mode compile"),
        (Setting(backend="blas"), "--backend blas"),
        (Setting(channels_last=True), "--channels-last"),
        (Setting(linear="onednn"), "--linear onednn"),
    ],
)
def test_options_of_torch_are_refused_in_one_line(setting: Setting, option: str) -> None:
    """The line names the option, the engine and the way out."""
    with pytest.raises(UsageError, match=f"^{option} is an option of torch, and Some Engine .*--engine torch$"):
        Fast().check(setting)
