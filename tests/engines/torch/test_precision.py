"""Operands are converted by autocast or by a cast, and only then; a device has the precision or it is refused."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import pytest
import torch

from modelzoo.engines.torch import precision
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import Setting


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (Setting("bf16", "autocast"), torch.bfloat16),
        (Setting("bf16", "cast"), torch.float32),
        (Setting("bf16", "fastmath"), torch.float32),
        (Setting(), torch.float32),
    ],
)
def test_autocast_is_active_for_autocast_alone(setting: Setting, expected: torch.dtype) -> None:
    """The other methods, and fp32, run without it."""
    with precision.autocast(setting):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == expected


@pytest.mark.skipif(not hasattr(torch, "accelerator"), reason="older versions of torch have no fp16 autocast on CPUs")
def test_fp16_is_enabled_like_bf16() -> None:
    """Autocast and the cast use the data type of the precision."""
    setting = Setting("fp16", "autocast")
    precision.check_precision(setting)
    with precision.autocast(setting):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float16
    assert precision.dtype_of(setting) == torch.float16
    assert precision.dtype_of(Setting("tf32")) is None


def test_fp16_that_autocast_does_not_support_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions of torch warn, disable autocast and compute in fp32: one line instead."""

    class Autocast:
        def __init__(self, kind: str, dtype: torch.dtype) -> None:
            warnings.warn("In CPU autocast, but the target dtype is not supported. Disabling autocast.", stacklevel=1)

        def __enter__(self) -> None:
            pass

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setattr(torch, "autocast", Autocast)
    with pytest.raises(EnvironmentProblem, match="fp16: autocast of torch .* does not support it on cpu"):
        precision.check_precision(Setting("fp16"))
    precision.check_precision(Setting("fp16", "cast"))
    with pytest.raises(UsageError, match="fp16 has no fast math"):
        precision.check_precision(Setting("fp16", "fastmath"))


@pytest.mark.parametrize(("capability", "problem"), [((9, 0), ""), ((8, 0), ""), ((7, 5), "compute capability 7.5")])
def test_tf32_needs_a_cuda_device_that_has_it(
    capability: tuple[int, int], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins with compute capability 8.0; no other device has it."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "a GPU")
    with pytest.raises(EnvironmentProblem, match=problem) if problem else nullcontext():
        precision.check_precision(Setting("tf32", device="cuda:1"))
    with pytest.raises(UsageError, match="tf32 is a precision of CUDA devices, not of cpu"):
        precision.check_precision(Setting("tf32"))


def test_cast_converts_every_floating_point_tensor_and_nothing_else() -> None:
    """Lists, tuples and dicts are searched; ids and text stay as they are."""
    ids = torch.ones(2, dtype=torch.long)
    found = precision.cast({"a": [torch.ones(2)], "b": (ids, "text"), "c": 3}, torch.bfloat16)
    assert found["a"][0].dtype == torch.bfloat16
    assert found["b"][0] is ids
    assert (found["b"][1], found["c"]) == ("text", 3)


def test_the_method_of_another_engine_is_refused() -> None:
    """torch has no precision hint: without the check it would compute in fp32."""
    with pytest.raises(UsageError, match="--bf16=hint is a method of OpenVINO"):
        precision.check_precision(Setting("bf16", "hint"))
