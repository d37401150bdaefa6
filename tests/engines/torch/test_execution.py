"""Every mode and precision computes the same model, and what torch refuses is one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from modelzoo.engines.torch import execution
from modelzoo.engines.torch.execution import Executable
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import Setting
from modelzoo.workload.declaration import InputRequest, Inputs, Workload


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Two spinning threads on a busy machine take many times as long as one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def build(options: Mapping[str, Any]) -> Any:
    """A convolution, a normalization and a linear layer."""
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten())
    return torch.nn.Sequential(*layers, torch.nn.Linear(8 * 6 * 6, 5)).eval()


def make_inputs(request: InputRequest) -> Inputs:
    """Two small pictures of noise."""
    return Inputs((torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)),), ("a", "b"))


TOY = Workload("toy", "a toy", "images", build, make_inputs)
INPUTS = make_inputs(InputRequest(2, 0, None, {}))


def run(setting: Setting, workload: Workload = TOY) -> tuple[Executable, torch.Tensor]:
    """Build under ``setting`` as the worker does; return the executable and its output."""
    bf16_method = execution.resolve_bf16_method(setting)
    with torch.inference_mode(), execution.applied(setting, bf16_method):
        made = execution.build(workload, workload.build({}), INPUTS, setting, bf16_method)
        return made, made.call(*made.prepare(INPUTS.args))


@pytest.fixture(scope="module")
def expected() -> torch.Tensor:
    """The model's plain output."""
    with torch.inference_mode():
        return build({})(*INPUTS.args)


@pytest.mark.parametrize(
    "setting",
    [
        Setting(),
        Setting(channels_last=True),
        Setting(backend="onednn"),
        Setting(backend="blas"),
        Setting(mode="script"),
        Setting(mode="script", channels_last=True),
        pytest.param(Setting(mode="compile"), marks=pytest.mark.slow),
    ],
    ids=lambda setting: setting.label,
)
def test_every_fp32_setting_computes_the_same(setting: Setting, expected: torch.Tensor) -> None:
    """Mode, backend and memory format change the speed, never the result; compile time stands apart."""
    made, output = run(setting)
    torch.testing.assert_close(output, expected)
    assert output.dtype == torch.float32
    assert (made.compile_seconds is None) == (setting.mode == "eager")
    assert made.bf16_method is None


@pytest.mark.parametrize("mode", ["eager", "script", pytest.param("compile", marks=pytest.mark.slow)])
@pytest.mark.parametrize("bf16_method", ["autocast", "cast"])
def test_bf16_is_close_and_is_bf16(bf16_method: str, mode: str, expected: torch.Tensor) -> None:
    """Both ways round to bf16, in eager and frozen form, and stay near the fp32 result."""
    _, output = run(Setting("bf16", bf16_method, mode))
    # A frozen graph under autocast adds the last bias in fp32; its kernels are bf16 all the same.
    assert output.dtype == torch.bfloat16 or (bf16_method, mode) == ("autocast", "script")
    difference = (output.float() - expected).abs().max()
    assert 1e-5 < difference < 0.05


def test_fast_math_keeps_fp32_tensors(expected: torch.Tensor) -> None:
    """Its outputs are fp32, whatever the kernels rounded inside."""
    made, output = run(Setting("bf16", "fastmath"))
    assert made.bf16_method == "fastmath"
    torch.testing.assert_close(output, expected, atol=0.05, rtol=0.05)
    assert output.dtype == torch.float32


def test_cast_and_channels_last_reach_the_inputs() -> None:
    """``prepare`` does to inputs what was done to the model; ids stay integers."""
    bf16_method = "cast"
    setting = Setting("bf16", bf16_method, channels_last=True)
    with torch.inference_mode(), execution.applied(setting, bf16_method):
        made = execution.build(TOY, build({}), INPUTS, setting, bf16_method)
    picture, ids = made.prepare((INPUTS.args[0], torch.ones(2, dtype=torch.long)))
    assert picture.dtype == torch.bfloat16
    assert picture.is_contiguous(memory_format=torch.channels_last)
    assert ids.dtype == torch.long
    ((inner,),) = made.prepare(([INPUTS.args[0]],))
    assert inner.dtype == torch.bfloat16, "lists of pictures are walked"


def test_switches_are_named_and_undone() -> None:
    """What ``applied`` sets is in the record, and gone afterwards."""
    before = torch.backends.mkldnn.enabled
    with execution.applied(Setting(backend="blas"), None) as switches:
        assert switches[0] == "torch.backends.mkldnn.enabled=False"
        assert len(switches) > 1, "fp32's own switches too"
        assert torch.backends.mkldnn.enabled is False
    assert torch.backends.mkldnn.enabled == before


def test_onednn_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for, not built in: an error, not another backend."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with (
        pytest.raises(EnvironmentProblem, match="--backend onednn: torch .* was built without oneDNN"),
        execution.applied(Setting(backend="onednn"), None),
    ):
        pass


def test_the_way_is_resolved_only_for_bf16() -> None:
    """fp32 has none; a forced way stays; otherwise one is picked."""
    assert execution.resolve_bf16_method(Setting()) is None
    assert execution.resolve_bf16_method(Setting("bf16", "cast")) == "cast"
    assert execution.resolve_bf16_method(Setting("bf16")) in ("autocast", "fastmath")


def test_compile_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler, or a torch without torch.compile: named before anything is tried."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(torch, "compile", None, raising=False)
    for check in (lambda: run(Setting(mode="compile")), lambda: execution.require_mode("compile")):
        with pytest.raises(EnvironmentProblem, match="--mode compile needs a C\\+\\+ compiler: install g\\+\\+"):
            check()
    monkeypatch.delattr(torch, "compile")
    with pytest.raises(EnvironmentProblem, match="--mode compile needs torch 2.1 or newer, .*; use --mode script"):
        execution.require_mode("compile")
    execution.require_mode("script")


def test_a_source_compiled_workload_refuses_autocast() -> None:
    """TorchScript from source would ignore autocast: it is refused with what to do instead."""
    with pytest.raises(UsageError, match="--mode script of toy .* where autocast does not reach; use --bf16=fastmath"):
        run(Setting("bf16", "autocast", "script"), replace(TOY, script="script"))
    _, output = run(Setting(mode="script"), replace(TOY, script="script"))
    assert output.shape == (2, 5)


def test_what_torch_refuses_is_one_sentence() -> None:
    """An operator without a bf16 kernel: workload, setting and torch's own reason in one line."""

    class Inverse(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(x[:, 0, :3, :3])

    work = replace(TOY, build=lambda options: Inverse())
    setting = Setting("bf16", "cast")
    with torch.inference_mode(), execution.applied(setting, "cast"):
        made = execution.build(work, work.build({}), INPUTS, setting, "cast")
        with pytest.raises(RuntimeError) as raised:
            made.call(*made.prepare(INPUTS.args))
    message = str(execution.refusal(work, setting, "cast", raised.value))
    assert message.startswith("toy cannot run with bf16=cast: ")
    assert message.endswith("; choose another --bf16 way or --mode")
    assert "\n" not in message
    picked = execution.refusal(work, Setting("bf16"), "autocast", raised.value)
    assert str(picked).startswith("toy cannot run with bf16 by autocast: ")


def test_a_model_that_cannot_be_traced_is_one_sentence() -> None:
    """Compilers raise what they like; the user gets one line."""

    class Untraceable(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return object()

    with pytest.raises(UsageError, match="toy cannot run with fp32 script: ") as caught:
        run(Setting(mode="script"), replace(TOY, build=lambda options: Untraceable()))
    assert "\n" not in str(caught.value)
