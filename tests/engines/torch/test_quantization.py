"""int8: which recipe runs, what is refused, and what a quantized copy of a model is."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
import torch

from modelzoo.engines.torch import quantization
from modelzoo.engines.torch.engine import TorchEngine, TorchSession
from modelzoo.engines.torch.quantization import quantized, resolve_recipe
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import ResolvedSetting, Setting

INT8 = Setting("int8")


@pytest.mark.parametrize(
    ("recipe", "engines", "expected"),
    [
        (None, ("qnnpack", "none", "onednn", "x86", "fbgemm"), "dynamic-x86"),
        ("dynamic", ("qnnpack", "none", "onednn"), "dynamic-onednn"),
        (None, ("qnnpack", "none"), "dynamic-qnnpack"),
        ("dynamic-onednn", ("qnnpack", "none", "onednn", "x86"), "dynamic-onednn"),
    ],
)
def test_a_recipe_names_the_library(recipe: str | None, engines: tuple[str, ...], expected: str) -> None:
    """The first that this torch has, unless one was asked for; what is resolved stays so."""
    resolved = resolve_recipe(INT8.replace(recipe=recipe), engines, architecture="aarch64")
    assert resolved == expected
    assert resolve_recipe(INT8.replace(recipe=resolved), engines) == expected
    assert resolve_recipe(Setting("bf16", recipe=recipe), engines) is None


@pytest.mark.parametrize(
    ("architecture", "version", "expected"),
    [("x86_64", "0.16.0", "torchao"), ("x86_64", None, "dynamic-x86"), ("aarch64", "0.16.0", "dynamic-x86")],
)
def test_the_recipe_that_suits_the_machine(
    architecture: str, version: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchao where it is installed and its products have a kernel."""
    monkeypatch.setattr(quantization, "installed_version", lambda name: version)
    assert resolve_recipe(INT8, ("x86",), architecture=architecture) == expected


@pytest.mark.parametrize(
    ("setting", "engines", "message"),
    [
        (INT8.replace(recipe="dynamic-x86"), ("qnnpack",), "recipe=dynamic-x86: this torch has no x86 engine on this "),
        (INT8.replace(recipe="dynamic"), ("none",), "recipe=dynamic: this torch has no engine for quantized layers"),
    ],
)
def test_a_library_that_is_not_there_is_an_error(setting: Setting, engines: tuple[str, ...], message: str) -> None:
    """Before anything runs, and never by taking another one."""
    with pytest.raises(EnvironmentProblem, match=message):
        resolve_recipe(setting, engines)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            Setting("int8", recipe="dynamic", mode="compile"),
            "recipe=dynamic runs with --mode eager or script, not comp",
        ),
        (Setting("int8", recipe="torchao", mode="script"), "recipe=torchao runs with --mode eager, not script"),
        (Setting("int8", device="cuda"), "int8 is for CPUs, not for cuda; use --bf16 or --fp16"),
    ],
)
def test_where_no_torch_can_run_it(setting: Setting, message: str) -> None:
    """One line says what to use instead."""
    with pytest.raises(UsageError, match=re.escape(message)):
        quantization.check_recipe(setting)


def test_a_missing_package_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or one that does not fit this torch."""
    setting = Setting("int8", recipe="torchao")
    monkeypatch.setitem(sys.modules, "torchao", None)
    for version, problem in ((None, "is not installed"), ("0.18.0", r"0.18.0 cannot be imported \(.*\)")):
        monkeypatch.setattr(quantization, "installed_version", lambda name, version=version: version)
        with pytest.raises(
            EnvironmentProblem, match=f"^recipe=torchao: torchao {problem}: run pip install torchao==0.16.0"
        ):
            TorchEngine().check(setting)


def test_an_engine_resolves_checks_and_records_it() -> None:
    """The library is a switch of the process, which is restored."""
    engine, before, setting = TorchEngine(), torch.backends.quantized.engine, INT8.replace(recipe="dynamic")
    engine.check(setting)
    resolved = engine.resolve(setting, batch=1, threads=1)
    assert resolved.recipe is not None
    name = resolved.recipe.partition("-")[2]
    with TorchSession(resolved).active() as names:
        assert f"torch.backends.quantized.engine={name}" in names
        assert torch.backends.quantized.engine == name
    assert torch.backends.quantized.engine == before


def test_a_quantized_model_is_a_copy() -> None:
    """Of a model with Linear layers, or of one such layer; its subclasses stay, and without any it is refused."""

    class Own(torch.nn.Linear):
        pass

    def package(layer: Any) -> str:
        return type(layer).__module__.partition(".nn.")[2].partition(".")[0]

    mixed = torch.nn.Sequential(torch.nn.Linear(4, 4), Own(4, 4))
    setting = ResolvedSetting("int8", recipe=resolve_recipe(INT8.replace(recipe="dynamic")))
    with TorchSession(setting).active():
        found = quantized(mixed, setting.recipe or "")
        assert [package(each) for each in found] == ["quantized", package(Own(1, 1))]
        assert package(quantized(torch.nn.Linear(4, 4), setting.recipe or "")) == "quantized"
        with pytest.raises(ValueError, match=re.escape("the model has no torch.nn.Linear layer")):
            quantized(torch.nn.Sequential(Own(4, 4)), setting.recipe or "")
    assert type(mixed[0]) is torch.nn.Linear
