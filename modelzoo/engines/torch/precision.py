"""Convert operands to bf16 or fp16, by autocast or by casting tensors; and check that a device has a precision."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from modelzoo.engines.torch.nested import mapped
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import Setting

TF32_CAPABILITY = (8, 0)
"""The first CUDA devices with TF32 are those of compute capability 8.0 (Ampere)."""
_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
"""torch's names of the data types that a model is converted to."""


def dtype_of(setting: Setting) -> Any:
    """The data type that operands are converted to; ``None`` in fp32 and tf32, whose operands are fp32."""
    import torch

    return getattr(torch, _DTYPES[setting.precision]) if setting.precision in _DTYPES else None


def autocast(setting: Setting, *, cached: bool = True) -> AbstractContextManager[Any]:
    """The context in which the model is called: autocast if that is the method, else an empty one.

    Args:
        cached: whether a tensor that is used twice is converted once. A trace or a graph must not record what is in
            the cache of its first call.
    """
    import torch

    if setting.bf16_method == "autocast":
        kind = setting.device.partition(":")[0]
        context: AbstractContextManager[Any] = torch.autocast(kind, dtype=dtype_of(setting), cache_enabled=cached)
        return context
    return nullcontext()


def cast(value: Any, dtype: Any) -> Any:
    """Convert the floating-point tensors in ``value`` (a tensor, or nested lists, tuples and dicts) to ``dtype``."""
    return mapped(value, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def check_precision(setting: Setting) -> None:
    """Check that this torch has the precision of ``setting`` on its device, which must be available.

    Raises:
        UsageError: no torch has it there.
        EnvironmentProblem: this torch or this device does not have it.
    """
    kind = setting.device.partition(":")[0]
    if setting.bf16_method == "hint":
        raise UsageError("--bf16=hint is a method of OpenVINO: use --bf16=autocast, or --engine openvino")
    if setting.precision == "tf32":
        _check_tf32(setting, kind)
    if setting.precision == "fp16" and setting.bf16_method == "fastmath":
        raise UsageError("fp16 has no fast math: leave the method out, or use bf16=autocast or bf16=cast")
    if setting.precision == "fp16" and setting.bf16_method != "cast" and not _autocasts(setting, kind):
        import torch

        raise EnvironmentProblem(f"fp16: autocast of torch {torch.__version__} does not support it on {kind}")


def _check_tf32(setting: Setting, kind: str) -> None:
    import torch

    if kind != "cuda":
        raise UsageError(f"tf32 is a precision of CUDA devices, not of {kind}; use --device cuda, or another precision")
    index = int(setting.device.partition(":")[2] or 0)
    capability = torch.cuda.get_device_capability(index)
    if capability < TF32_CAPABILITY:
        name = torch.cuda.get_device_name(index)
        raise EnvironmentProblem(
            f"tf32: {name} has compute capability {capability[0]}.{capability[1]}, and TF32 begins with 8.0; use fp32"
        )


def _autocasts(setting: Setting, kind: str) -> bool:
    """Whether autocast takes the data type; older versions of torch warn and switch themselves off."""
    import torch

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            with torch.autocast(kind, dtype=dtype_of(setting)):
                pass
        except RuntimeError:
            return False
    return not any("autocast" in str(each.message) and "support" in str(each.message) for each in said)
