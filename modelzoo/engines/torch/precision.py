"""Ask for bf16, in the three ways there are, and make fp32 really fp32.

Asking is not getting: what was got is measured by ``modelzoo.evidence.canary`` and shown by the kernel audit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from modelzoo.errors import UsageError
from modelzoo.machine import libraries
from modelzoo.setting import Setting

FPMATH = "DNNL_DEFAULT_FPMATH_MODE"
FAST_MATH_VARIABLES: Mapping[str, str] = {
    FPMATH: "oneDNN's default math mode",
    "ONEDNN_DEFAULT_FPMATH_MODE": "oneDNN's default math mode",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "TF32 in cuBLAS",
    "NVIDIA_TF32_OVERRIDE": "TF32 in NVIDIA's libraries",
    "ARM_COMPUTE_FAST_MATH": "fast math in the Arm Compute Library",
}
"""Variables that change the arithmetic of fp32 operators: a worker gets none that was not asked for."""
FPMATH_VALUES = ("strict", "bf16", "f16", "any", "tf32")


@dataclass(frozen=True)
class Environment:
    """A worker's variables, and what was done to them: names removed, and names set, with values."""

    variables: Mapping[str, str]
    removed: Mapping[str, str]
    applied: Mapping[str, str]
    bf16_method: str | None


def inherited_mode(environment: Mapping[str, str]) -> str:
    """oneDNN's math mode as inherited, in lower case, or an empty string.

    Raises:
        UsageError: the variable holds a value that oneDNN does not know.
    """
    for name in (FPMATH, "ONEDNN_DEFAULT_FPMATH_MODE"):
        value = environment.get(name, "").lower()
        if value:
            if value not in FPMATH_VALUES:
                raise UsageError(f"{name}={environment[name]} is unknown to oneDNN; use BF16 or STRICT, or unset it")
            return value
    return ""


def scrub(setting: Setting, environment: Mapping[str, str]) -> Environment:
    """The variables for a worker that runs ``setting``.

    bf16 by fast math needs oneDNN's variable before the library loads, so it is set here; an inherited
    ``DNNL_DEFAULT_FPMATH_MODE=BF16`` together with ``--bf16`` asks for that way.
    """
    bf16_method = setting.bf16_method
    mode = inherited_mode(environment)
    if setting.precision == "bf16" and bf16_method is None and mode == "bf16":
        bf16_method = "fastmath"
    variables = {k: v for k, v in environment.items() if k not in FAST_MATH_VARIABLES}
    removed = {k: v for k, v in environment.items() if k in FAST_MATH_VARIABLES}
    applied = {}
    if setting.precision == "bf16" and (
        bf16_method == "fastmath" or (bf16_method is None and _is_arm() and setting.backend != "blas")
    ):
        applied = {FPMATH: "BF16"}
        variables.update(applied)
        removed = {k: v for k, v in removed.items() if v.lower() != "bf16"}
    return Environment(variables, removed, applied, bf16_method)


def _is_arm() -> bool:
    return os.uname().machine in ("aarch64", "arm64")


def choose_bf16_method(device: str, backend: str = "auto") -> str:
    """The way that is right for this backend, where none was forced.

    ARM with oneDNN (and ACL): fast math, which keeps fp32 tensors and rounds inside the kernels.
    Elsewhere autocast: on x86 oneDNN's fast math leaves fp32 kernels in place, OpenBLAS has bf16 for
    bf16 tensors only, and accelerators have their own bf16 kernels.
    """
    import torch

    if device == "cpu" and backend != "blas" and _is_arm() and torch.backends.mkldnn.is_available():
        return "fastmath"
    return "autocast"


@contextmanager
def fast_math(on: bool) -> Iterator[tuple[str, ...]]:
    """Set torch's own switches for the inner precision of fp32 operators, and set them back.

    Yields the switches that were set, by name. torch 2.9 and newer have ``fp32_precision``; older
    ones only the hint of ``set_float32_matmul_precision``. The two must not be mixed.
    """
    import torch

    mkldnn = torch.backends.mkldnn
    done: list[str] = []
    if hasattr(mkldnn, "conv") and hasattr(mkldnn.conv, "fp32_precision"):
        before = (mkldnn.conv.fp32_precision, mkldnn.matmul.fp32_precision)
        wanted = "bf16" if on else "ieee"
        mkldnn.conv.fp32_precision = mkldnn.matmul.fp32_precision = wanted
        if torch.cuda.is_available():
            torch.backends.cuda.matmul.fp32_precision = "ieee"
            torch.backends.cudnn.conv.fp32_precision = "ieee"
        done = [f"torch.backends.mkldnn.{part}.fp32_precision={wanted}" for part in ("conv", "matmul")]
        try:
            yield tuple(done)
        finally:
            mkldnn.conv.fp32_precision, mkldnn.matmul.fp32_precision = before
        return
    wanted = "medium" if on else "highest"
    old = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(wanted)
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield (f"torch.set_float32_matmul_precision({wanted})",)
    finally:
        torch.set_float32_matmul_precision(old)


def is_by_variable_only() -> bool:
    """Whether this torch (before 2.9) cannot change oneDNN's math mode while it runs. Does not import it."""
    release = re.match(r"(\d+)\.(\d+)", libraries.installed("torch") or "")
    return release is not None and (int(release[1]), int(release[2])) < (2, 9)


def autocast(setting: Setting, bf16_method: str | None) -> AbstractContextManager[Any]:
    """The context in which the model is called: autocast to bf16 where that is the way, else nothing."""
    import torch

    if setting.precision == "bf16" and bf16_method == "autocast":
        return torch.autocast(setting.device.split(":")[0], dtype=torch.bfloat16)
    return nullcontext()


def cast(value: Any) -> Any:
    """Floating tensors in ``value`` (tensor, list, tuple, dict) as bf16, everything else as it is."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(torch.bfloat16) if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(cast(item) for item in value)
    if isinstance(value, dict):
        return {key: cast(item) for key, item in value.items()}
    return value
