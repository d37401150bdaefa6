"""Operands are converted by autocast or by a cast, and only then; a device has the precision or it is refused."""

from __future__ import annotations

import platform
from contextlib import nullcontext

import pytest
import torch

from modelzoo.engines.torch import precision
from modelzoo.engines.torch.engine import TorchEngine
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import Setting


def test_fp16_is_enabled_like_bf16() -> None:
    """By autocast or the cast, in the data type of the precision; methods that torch lacks are refused."""
    for method in (None, "autocast", "cast"):
        precision.check_precision(Setting("fp16", method))
    with precision.autocast(Setting("fp16", "autocast")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float16
    with pytest.raises(UsageError, match="fp16 has no fast math"):
        precision.check_precision(Setting("fp16", "fastmath"))
    with pytest.raises(UsageError, match="--bf16=hint is a method of OpenVINO"):
        precision.check_precision(Setting("bf16", "hint"))


@pytest.mark.parametrize(("capability", "problem"), [((9, 0), ""), ((8, 0), ""), ((7, 5), "compute capability 7.5")])
def test_tf32_needs_a_cuda_device_that_has_it(
    capability: tuple[int, int], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins with compute capability 8.0; no other device has it."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "a GPU")
    with pytest.raises(EnvironmentProblem, match=problem) if problem else nullcontext():
        precision.check_precision(Setting("tf32", device="cuda:1"))


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
    """Precision, request, device, backend, architecture, torch's build and the inherited variable decide.

    What was resolved stays so in another process.
    """
    monkeypatch.setattr(platform, "machine", lambda: architecture)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: has_onednn)
    resolved = TorchEngine().resolve(setting, batch=3, threads=2, math_mode=inherited_mode)
    assert (resolved.bf16_method, resolved.batch, resolved.threads) == (expected, 3, 2)
    assert TorchEngine().resolve(resolved, batch=9, threads=9) == resolved
