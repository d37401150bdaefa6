"""int8: which recipe runs, what is refused, and what a quantized copy of a model is."""

from __future__ import annotations

import platform
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from evidence_samples import judge, sentence
from exportable_workloads import CLASSIFIER, int8_error_limit, source_of
from planted_kernels import replayed

from modelzoo.engines.torch import quantization
from modelzoo.engines.torch.engine import TorchEngine, TorchSession
from modelzoo.engines.torch.quantization import quantized, resolve_recipe
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofSource, ProofVerdict
from modelzoo.setting import ResolvedSetting, Setting

INT8 = Setting("int8")
needs_torchao = pytest.mark.skipif(
    find_spec("torchao") is None, reason="torchao is not installed: pip install torchao==0.16.0"
)


class Residual(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """Two convolutions, the second of which adds what the first returned, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.Conv2d(32, 32, 1)
        self.layer = torch.nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x) + x)
        return self.layer(x.mean((2, 3)))


ENGINES = ("qnnpack", "none", "onednn", "x86", "fbgemm")
NO_X86 = EnvironmentProblem("recipe=dynamic-x86: this torch has no x86 engine on this machine; it has qnnpack")
NO_ENGINE = EnvironmentProblem("recipe=dynamic: this torch has no engine for quantized layers on this machine")
FOREIGN = UsageError("recipe=dynamic-per-tensor is one of ONNX Runtime's; use --engine onnxruntime, or recipe=dynamic")


@pytest.mark.parametrize(
    ("recipe", "architecture", "torchao", "engines", "expected"),
    [
        (None, "x86_64", "0.16.0", ENGINES, "torchao"),
        (None, "x86_64", None, ENGINES, "dynamic-x86"),
        (None, "aarch64", "0.16.0", ENGINES[:3], "dynamic-onednn"),
        ("dynamic", "x86_64", "0.16.0", ENGINES, "dynamic-x86"),
        ("dynamic", "aarch64", None, ENGINES[:2], "dynamic-qnnpack"),
        ("dynamic-onednn", "x86_64", None, ENGINES, "dynamic-onednn"),
        ("dynamic-x86", "aarch64", None, ENGINES[:2], NO_X86),
        ("dynamic", "aarch64", None, ENGINES[1:2], NO_ENGINE),
        ("dynamic-per-tensor", "x86_64", None, ENGINES, FOREIGN),
    ],
)
def test_the_recipe_that_suits_the_machine(
    recipe: str | None,
    architecture: str,
    torchao: str | None,
    engines: tuple[str, ...],
    expected: str | Exception,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torchao where it has a kernel, or the first library of this torch; what was asked for is never replaced."""
    monkeypatch.setattr(platform, "machine", lambda: architecture)
    monkeypatch.setattr(quantization, "installed_version", lambda name: torchao)
    monkeypatch.setattr(torch.backends, "quantized", SimpleNamespace(supported_engines=engines))
    if isinstance(expected, Exception):
        with pytest.raises(type(expected), match=f"^{expected}$"):
            resolve_recipe(INT8.replace(recipe=recipe))
        return
    assert resolve_recipe(INT8.replace(recipe=recipe)) == expected
    assert resolve_recipe(INT8.replace(recipe=expected)) == expected
    assert resolve_recipe(Setting("bf16", recipe=recipe)) is None


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            Setting("int8", recipe="dynamic", mode="compile"),
            "recipe=dynamic runs with --mode eager or script, not comp",
        ),
        (Setting("int8", recipe="torchao", mode="script"), "recipe=torchao runs with --mode eager, not script"),
        (Setting("int8", recipe="static"), "recipe=static runs with --mode compile, not eager"),
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
    missing, other = "is not installed", r"0.18.0 cannot be imported \(.*\)"
    for version, release, problem, advice in (
        (None, "2.10.0+cpu", missing, "pip install torchao==0.16.0"),
        ("0.18.0", "2.15.0", other, r"pip install the release of torchao that is built for torch 2\.15\.0"),
    ):
        installed = {"torchao": version, "torch": release}
        monkeypatch.setattr(quantization, "installed_version", installed.get)
        with pytest.raises(EnvironmentProblem, match=f"^recipe=torchao: torchao {problem}: {advice}"):
            TorchEngine().check(setting)


def test_an_engine_resolves_checks_and_records_it() -> None:
    """The library is a switch of the process, which is restored."""
    engine, before, setting = TorchEngine(), torch.backends.quantized.engine, INT8.replace(recipe="dynamic")
    engine.check(setting)
    resolved = engine.resolve(setting, batch=1, threads=1)
    name = resolved.recipe.partition("-")[2]
    with TorchSession(resolved).active() as names:
        assert f"torch.backends.quantized.engine={name}" in names
        assert torch.backends.quantized.engine == name
    assert torch.backends.quantized.engine == before


def test_a_static_recipe_is_for_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no other quantizer of the kind here."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(EnvironmentProblem, match="recipe=static is for x86 CPUs"):
        quantization.check_recipe(Setting("int8", recipe="static", mode="compile"))


@needs_torchao
def test_static_quantization_includes_convolutions(tmp_path: Path) -> None:
    """What oneDNN logs is int8, also of a sum that a convolution computes; the ranges are of other inputs."""
    setting = ResolvedSetting("int8", recipe="static", mode="compile", batch=2, threads=1)
    work = replace(CLASSIFIER, build=lambda options: Residual())
    source = source_of(work, tmp_path, setting)
    session = TorchSession(setting)
    with session.active():
        model = session.load(work, source.weights, source.inputs)
        args = model.prepare(source.inputs.args)
        canary = session.canary()
        found = model.audit(args, canary=canary, replay=True)
        output = model.call(*args)
        expected = source.module(*args)
    assert canary.verdict("int8") == "active", canary.summary
    assert {(each.precision, each.decided_by) for each in found.operators} == {("int8", ProofSource.KERNEL_LOG)}
    assert re.match(r"int8: ACTIVE \(int8 kernels took (100|99) % of the time", sentence(found))
    assert found.arithmetic_share == 1
    assert {each.operator for each in found.operators} >= {"onednn::qconv2d_pointwise", "onednn::qlinear_pointwise"}
    assert 0.002 < (output - expected).norm() / expected.norm() < int8_error_limit()
    weights = 16 * 32 * 9 + 32 * 32 + 32 * 5
    assert weights < (model.stored_bytes() or 0) < 2 * weights  # a byte each, scales and biases
    assert len(model.compilation.calibration or "") == 64


@needs_torchao
def test_a_graph_that_is_not_compiled_is_not_int8() -> None:
    """Its int8 numbers are converted back before they are multiplied, and the verdict says so."""
    x = torch.randn(2, 16, 8, 8)
    with torch.inference_mode():
        graph = quantized(Residual().eval(), "static", [(x,)])
    found = judge(replayed(lambda: graph(x), replays=False), None, "int8")
    assert found.verdict is ProofVerdict.NOT_ACTIVE
    assert "quantized_decomposed::dequantize_per_tensor" in getattr(found.reason, "dequantized", ())


@needs_torchao
def test_an_exported_graph_in_which_nothing_is_quantized_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a model without layers, and what torch exports of any model unless it is strict."""
    x = torch.randn(2, 16, 8, 8)
    with pytest.raises(ValueError, match="torchao has found no layer to quantize"):
        quantized(torch.nn.ReLU(), "static", [(x,)])
    export = torch.export.export
    monkeypatch.setattr(torch.export, "export", lambda *args, strict: export(*args, strict=False))
    with pytest.raises(ValueError, match="torchao has found no layer to quantize"):
        quantized(Residual().eval(), "static", [(x,)])


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
