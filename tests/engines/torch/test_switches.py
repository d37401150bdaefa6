"""torch's process-wide switches are set, recorded and restored; a precision is enabled by one rule, or refused."""

from __future__ import annotations

import platform
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from modelzoo.engines.torch import switches
from modelzoo.engines.torch.engine import TorchEngine
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
    monkeypatch.setattr(switches, "needs_math_mode_variable", lambda: True)
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


def test_fp16_is_enabled_like_bf16() -> None:
    """By autocast or the cast, in the data type of the precision; methods that torch lacks are refused."""
    for method in (None, "autocast", "cast"):
        switches.check_precision(Setting("fp16", method))
    with switches.autocast(Setting("fp16", "autocast")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float16
    with pytest.raises(UsageError, match="fp16 has no fast math"):
        switches.check_precision(Setting("fp16", "fastmath"))
    with pytest.raises(UsageError, match="--bf16=hint is a method of OpenVINO"):
        switches.check_precision(Setting("bf16", "hint"))


@pytest.mark.parametrize(("capability", "problem"), [((9, 0), ""), ((8, 0), ""), ((7, 5), "compute capability 7.5")])
def test_tf32_needs_a_cuda_device_that_has_it(
    capability: tuple[int, int], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins with compute capability 8.0; no other device has it."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "a GPU")
    with pytest.raises(EnvironmentProblem, match=problem) if problem else nullcontext():
        switches.check_precision(Setting("tf32", device="cuda:1"))


BF16 = Setting("bf16")
CUDA, BLAS, ONEDNN = BF16.replace(device="cuda"), BF16.replace(backend="blas"), BF16.replace(backend="onednn")
ARM, X86 = "aarch64", "x86_64"


@pytest.mark.parametrize(
    ("setting", "architecture", "has_onednn", "inherited_mode", "expected"),
    [
        # fp32 has no bf16 method, whatever the machine and the environment.
        (Setting(), ARM, True, "", None),
        (Setting(), X86, True, "bf16", None),
        # What --bf16=METHOD names is used everywhere.
        (Setting("bf16", "cast"), ARM, True, "bf16", "cast"),
        (Setting("bf16", "fastmath"), X86, False, "", "fastmath"),
        # Left to the engine: fast math where ARM kernels of oneDNN run, else autocast.
        (BF16, ARM, True, "", "fastmath"),
        (ONEDNN, ARM, True, "", "fastmath"),
        (BF16, ARM, False, "", "autocast"),
        (BF16, X86, True, "", "autocast"),
        (BLAS, ARM, True, "", "autocast"),
        # The device counts, on an ARM host too.
        (CUDA, ARM, True, "", "autocast"),
        # DNNL_DEFAULT_FPMATH_MODE=BF16 with --bf16 asks for fast math if oneDNN computes.
        (BF16, X86, True, "bf16", "fastmath"),
        (CUDA, ARM, True, "bf16", "autocast"),
        (BLAS, X86, True, "bf16", "autocast"),
        # Other modes of oneDNN are no request for bf16.
        (BF16, X86, True, "any", "autocast"),
        # tf32 keeps its tensors in fp32; fp16 has no fast math.
        (Setting("tf32", device="cuda"), X86, True, "bf16", None),
        (Setting("fp16"), ARM, True, "bf16", "autocast"),
        (Setting("fp16", "cast", device="cuda"), X86, True, "", "cast"),
    ],
)
def test_one_rule_decides(
    setting: Setting,
    architecture: str,
    has_onednn: bool,
    inherited_mode: str,
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By precision, request, device, backend, architecture, build and variable; what was resolved stays so."""
    monkeypatch.setattr(platform, "machine", lambda: architecture)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: has_onednn)
    resolved = TorchEngine().resolve(setting, batch=3, threads=2, math_mode=inherited_mode)
    assert (resolved.bf16_method, resolved.batch, resolved.threads) == (expected, 3, 2)
    assert TorchEngine().resolve(resolved, batch=9, threads=9) == resolved
