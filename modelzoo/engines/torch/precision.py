"""Convert operands to bf16, by autocast or by casting tensors."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from modelzoo.setting import Setting


def autocast(setting: Setting) -> AbstractContextManager[Any]:
    """The context in which the model is called: autocast to bf16 if that is the bf16 method, else an empty one."""
    import torch

    if setting.precision == "bf16" and setting.bf16_method == "autocast":
        context: AbstractContextManager[Any] = torch.autocast(setting.device.split(":")[0], dtype=torch.bfloat16)
        return context
    return nullcontext()


def cast(value: Any) -> Any:
    """Convert the floating-point tensors in ``value`` (a tensor, or nested lists, tuples and dicts) to bf16."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(torch.bfloat16) if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(cast(item) for item in value)
    if isinstance(value, dict):
        return {key: cast(item) for key, item in value.items()}
    return value
