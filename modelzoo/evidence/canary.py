"""Three small operators against fp64: their error tells the precision they were really computed in.

A library may say bf16 and compute fp32, or the other way round; the error cannot lie. Shapes are
large enough for every backend's real kernels (oneDNN skips very small convolutions).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

FP32_BELOW = 3e-5
"""Root-mean-square error, relative to that of the exact output. fp32 gives 1e-7 to 1e-6, also by
Winograd's algorithm; TF32 (10 fraction bits) about 2e-4."""
BF16_FROM = 6e-4
BF16_BELOW = 3e-2
"""bf16 has 8 significant bits, so rounding one operand errs by up to 2**-9 relative and 1.1e-3
root-mean-square (uniform over a binade); two operands and a rounded output give 1.6e-3 to 2.5e-3."""


@dataclass(frozen=True)
class OperatorCheck:
    """One operator: ``error`` as above (``None`` if it raised), ``level`` ``fp32``, ``reduced``,
    ``bf16``, ``broken`` or ``failed``, and the message where it failed."""

    operator: str
    error: float | None
    level: str
    detail: str = ""


@dataclass(frozen=True)
class Canary:
    """What the three operators showed."""

    operators: tuple[OperatorCheck, ...]

    def word(self, precision: str) -> str:
        """``active``, ``partly``, ``not active`` for bf16; ``fp32`` or ``not fp32`` for fp32."""
        levels = [check.level for check in self.operators]
        if precision == "fp32":
            return "fp32" if all(level == "fp32" for level in levels) else "not fp32"
        if all(level == "bf16" for level in levels):
            return "active"
        return "partly" if "bf16" in levels else "not active"

    @property
    def summary(self) -> str:
        """``matmul fp32 (4.9e-07), linear bf16 (1.8e-03) …``"""
        return ", ".join(
            f"{c.operator} {c.level}" + (f" ({c.error:.1e})" if c.error is not None else f" ({c.detail})")
            for c in self.operators
        )


def level(error: float) -> str:
    """The precision that a relative root-mean-square error speaks of."""
    if error < FP32_BELOW:
        return "fp32"
    if error < BF16_FROM:
        return "reduced"
    return "bf16" if error < BF16_BELOW else "broken"


def run_canary(device: str = "cpu", is_cast: bool = False) -> Canary:
    """Run matmul (256×256), linear (128×256 to 128) and a 3×3 convolution (4×32×56×56 to 64 channels).

    Call it inside the setting under test. ``is_cast`` gives the operators bf16 tensors, as a model
    cast to bf16 would. Inputs are seeded and the global random state is left alone.
    """
    import torch
    from torch.nn import functional

    generator = torch.Generator().manual_seed(0)

    def tensor(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator)

    cases: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("matmul", torch.mm, (tensor(256, 256), tensor(256, 256))),
        ("linear", functional.linear, (tensor(128, 256), tensor(128, 256), tensor(128))),
        (
            "conv",
            lambda x, w, b: functional.conv2d(x, w, b, padding=1),
            (tensor(4, 32, 56, 56), tensor(64, 32, 3, 3), tensor(64)),
        ),
    ]
    return Canary(tuple(_check(name, call, operands, device, is_cast) for name, call, operands in cases))


def _check(name: str, call: Callable[..., Any], operands: tuple[Any, ...], device: str, is_cast: bool) -> OperatorCheck:
    import torch

    with torch.autocast(device.split(":")[0], enabled=False):
        exact = call(*(x.double() for x in operands))
    moved = [x.to(device) for x in operands]
    if is_cast:
        moved = [x.bfloat16() for x in moved]
    try:
        with torch.inference_mode():
            seen = call(*moved).double().cpu()
    except RuntimeError as refusal:
        return OperatorCheck(name, None, "failed", str(refusal).strip().splitlines()[0])
    rms = float((seen - exact).pow(2).mean().sqrt() / exact.pow(2).mean().sqrt())
    return OperatorCheck(name, rms, level(rms) if rms == rms else "broken")
