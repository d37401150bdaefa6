"""torch's process-wide switches are set, recorded and restored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from modelzoo.engines.torch import switches
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine import installation
from modelzoo.setting import ResolvedSetting, Setting

FAST_MATH = Setting("bf16", "fastmath")


def mkldnn_state() -> Any:
    """The switches of this torch that fast math sets."""
    if hasattr(torch.backends.mkldnn, "conv"):
        owners = (torch.backends.mkldnn.conv, torch.backends.mkldnn.matmul, torch.backends.mkldnn.rnn)
        return tuple(owner.fp32_precision for owner in owners)
    return torch.get_float32_matmul_precision()


def test_a_missing_onednn_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was requested and is not available must not be replaced by another one."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    missing = pytest.raises(EnvironmentProblem, match="^--backend onednn: torch .* was built without oneDNN")
    with missing, switches.applied(Setting(backend="onednn")):
        pass
    with pytest.raises(EnvironmentProblem, match="^--linear onednn: torch .* was built without oneDNN$"):
        switches.require_linear(Setting(linear="onednn"))


@pytest.mark.parametrize("setting", [FAST_MATH, Setting(), Setting("bf16", "autocast")])
def test_only_fast_math_lets_onednn_round(setting: Setting) -> None:
    """The switches hold inside the block, are named for the record, and are restored after an error too."""
    before = mkldnn_state()
    wanted = ("bf16", "medium") if setting is FAST_MATH else ("ieee", "highest")
    with pytest.raises(ZeroDivisionError), switches.applied(setting) as names:
        assert names
        assert all(name.endswith((*(f"={w}" for w in wanted), *(f"({w})" for w in wanted))) for name in names)
        state = mkldnn_state()
        assert set(state if isinstance(state, tuple) else [state]) <= set(wanted)
        raise ZeroDivisionError
    assert mkldnn_state() == before


def with_cuda(monkeypatch: pytest.MonkeyPatch, matmul: bool, cudnn: bool) -> tuple[Any, Any]:
    """Let there be a CUDA device whose libraries may use TF32 or not."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    owners = SimpleNamespace(allow_tf32=matmul), SimpleNamespace(allow_tf32=cudnn)
    monkeypatch.setattr(torch.backends.cuda, "matmul", owners[0])
    monkeypatch.setattr(torch.backends, "cudnn", owners[1])
    return owners


def test_only_the_precision_tf32_switches_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference of a judgement has it off, whatever the user has set; that is back afterwards."""
    matmul, cudnn = with_cuda(monkeypatch, False, True)
    setting = ResolvedSetting("tf32", device="cuda")
    for tested, tf32 in ((setting, True), (setting.reference(), False), (Setting("bf16", "autocast"), False)):
        with switches.applied(tested) as names:
            assert (matmul.allow_tf32, cudnn.allow_tf32) == (tf32, tf32)
            assert names[-2:] == (
                f"torch.backends.cuda.matmul.allow_tf32={tf32}",
                f"torch.backends.cudnn.allow_tf32={tf32}",
            )
    assert (matmul.allow_tf32, cudnn.allow_tf32) == (False, True)


def test_tf32_that_cannot_be_switched_off_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """fp32 must never run with TF32 without anybody noticing."""

    class Stubborn:
        allow_tf32 = property(lambda self: True, lambda self, value: None)

    with_cuda(monkeypatch, True, True)
    monkeypatch.setattr(torch.backends, "cudnn", Stubborn())
    with (
        pytest.raises(EnvironmentProblem, match="cudnn.allow_tf32 cannot be set to False; unset"),
        switches.fast_math(False),
    ):
        pass


def test_older_torch_has_one_switch_for_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.9 there is a hint for matrix products; it is restored."""
    monkeypatch.setattr(torch.backends, "mkldnn", object())
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    calls: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", calls.append)
    with switches.fast_math(True) as names:
        assert names == ("torch.set_float32_matmul_precision(medium)",)
    assert calls == ["medium", "high"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.13.0+cu117", True), ("2.8.0", True), ("2.9.0", False), ("2.10.0+cpu", False), (None, False)],
)
def test_torch_before_2_9_needs_the_variable(
    version: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """oneDNN's math mode can be switched at run time since 2.9."""
    monkeypatch.setattr(installation, "installed_version", lambda name: version)
    assert switches.needs_math_mode_variable() is expected


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (Setting(device="cuda"), "--linear onednn and --device cuda contradict each other; leave one out"),
        (Setting(backend="blas"), "--linear onednn and --backend blas contradict each other; leave one out"),
        (Setting(mode="aot"), "--linear onednn: --mode aot calls oneDNN for them by itself; leave it out"),
        (
            Setting("bf16", "autocast"),
            "--linear onednn packs weights in fp32, and torch calls oneDNN for narrower ones by itself; leave it out, "
            "or use fp32 or --bf16=fastmath",
        ),
    ],
    ids=["cuda", "blas", "aot", "bf16"],
)
def test_packed_linear_layers_are_refused_where_they_mean_nothing(setting: Setting, message: str) -> None:
    """The error says which options contradict each other."""
    with pytest.raises(UsageError) as caught:
        switches.require_linear(setting.replace(linear="onednn"))
    assert str(caught.value) == message
