"""The precision of operands: how bf16 and fp16 are enabled, and their conversion by autocast or by casting tensors.

``fastmath`` keeps fp32 tensors and lets oneDNN's kernels round internally. ``autocast`` converts operands as
``torch.autocast`` does. ``cast`` converts the whole model.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import Setting
from modelzoo.workload import nested


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return ``value`` with ``function`` applied to its tensors.

    Args:
        value: a tensor, or containers of them as ``nested.mapped`` has them; anything else stays as it is.
        function: takes a tensor.
    """
    import torch

    return nested.mapped(value, lambda each: function(each) if isinstance(each, torch.Tensor) else each)


TF32_CAPABILITY = (8, 0)
"""The first CUDA devices with TF32 are those of compute capability 8.0 (Ampere)."""
FREQUENCIES = "inv_freq"
"""How the names of the buffers end in which transformers keeps the frequencies of rotary embeddings."""
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


def cast_model(model: Any, dtype: Any) -> Any:
    """Convert ``model`` in place, but leave the frequencies of rotary embeddings, as transformers' ``from_pretrained``.

    Rounded to bf16 they are off by up to 0.4 %, and so is every position.
    """
    exact = [(each, name, each._buffers[name]) for each in model.modules() for name in each._buffers]
    model.to(dtype)
    for module, name, buffer in exact:
        if name.endswith(FREQUENCIES):
            module._buffers[name] = buffer
    return model


def check_precision(setting: Setting) -> None:
    """Check that this torch has the precision of ``setting`` on its device, which must be available.

    Raises:
        UsageError: no torch has it there.
        EnvironmentProblem: this torch or this device does not have it.
    """
    kind = setting.device.partition(":")[0]
    if setting.bf16_method == "hint":
        raise UsageError("--bf16=hint is a method of OpenVINO: use --bf16=autocast, or --engine openvino")
    if setting.precision == "fp16" and setting.bf16_method == "fastmath":
        raise UsageError("fp16 has no fast math: leave the method out, or use bf16=autocast or bf16=cast")
    if setting.precision != "tf32":
        return
    if kind != "cuda":
        raise UsageError(f"tf32 is a precision of CUDA devices, not of {kind}; use --device cuda, or another precision")
    import torch

    index = int(setting.device.partition(":")[2] or 0)
    capability = torch.cuda.get_device_capability(index)
    if capability < TF32_CAPABILITY:
        name = torch.cuda.get_device_name(index)
        raise EnvironmentProblem(
            f"tf32: {name} has compute capability {capability[0]}.{capability[1]}, and TF32 begins with 8.0; use fp32"
        )


ARM = ("aarch64", "arm64")


def resolve_bf16_method(setting: Setting, inherited_mode: str) -> str | None:
    """The method that ``setting`` runs with; ``None`` for fp32 and tf32, whose tensors are fp32.

    fp16 is enabled by autocast unless the model is to be cast.

    For bf16 without a request it is fast math on ARM CPUs with oneDNN, and autocast everywhere else. On x86, oneDNN's
    fast math keeps using fp32 kernels; OpenBLAS has bf16 kernels for bf16 tensors only; accelerators have bf16 kernels
    of their own.

    Args:
        setting: precision, device, backend, and in ``bf16_method`` what ``--bf16=METHOD`` named.
        inherited_mode: oneDNN's math mode in the environment of the call. ``bf16`` asks for fast math, provided that
            oneDNN computes at all.
    """
    if setting.precision not in _DTYPES:
        return None
    if setting.bf16_method is not None or setting.precision == "fp16":
        return setting.bf16_method or "autocast"
    import torch

    has_onednn = torch.backends.mkldnn.is_available()
    uses_onednn = setting.device == "cpu" and setting.backend != "blas"
    is_fast = inherited_mode == "bf16" or (platform.machine() in ARM and has_onednn)
    return "fastmath" if uses_onednn and is_fast else "autocast"
