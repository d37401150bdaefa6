"""What the canary operators showed: the error of each, and the precision that the error proves.

Image builds mount this file and ``modelzoo/evidence/canary.py`` alone, so it imports nothing but the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

Public = Annotated[str, "public"]
Message = Annotated[str, "message"]
"""As in ``modelzoo.frozen``."""


class CanaryLevel(str, Enum):
    """The precision that an operator really computed in, as its error shows."""

    FP32 = "fp32"
    REDUCED = "reduced"
    """Between fp32 and bf16: TF32 and fp16."""
    BF16 = "bf16"
    INT8 = "int8"
    """Of a quantized operator only; elsewhere such an error is ``BROKEN``."""
    BROKEN = "broken"
    """A larger error than that of the precision explains, or an output that is not finite."""
    FAILED = "failed"
    """The operator raised an error."""

    def __str__(self) -> str:
        return self.value


class CanaryVerdict(str, Enum):
    """All operators together: the last two for fp32, the others if less was requested (bf16, fp16, tf32, int8)."""

    ACTIVE = "active"
    PARTLY = "partly"
    NOT_ACTIVE = "not active"
    FP32 = "fp32"
    NOT_FP32 = "not fp32"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class OperatorCheck:
    """One operator's result.

    Attributes:
        operator: ``matmul``, ``linear`` or ``conv``.
        error: root-mean-square error against fp64, relative to the root mean square of the exact output; ``None`` if
            the operator failed or its output is not finite.
        level: the precision that the error shows.
        detail: why there is no error.
        kernels: the kernels of oneDNN that ran in it, such as ``convolution gemm:acl``, each once; none if it ran
            outside oneDNN, and ``None`` if no log shows it. It proves nothing about any other kernel.
    """

    operator: Public
    error: float | None
    level: CanaryLevel
    detail: Message = ""
    kernels: tuple[Public, ...] | None = None


@dataclass(frozen=True)
class Canary:
    """The results of all canary operators.

    Attributes:
        operators: one result per operator.
    """

    operators: tuple[OperatorCheck, ...]

    def verdict(self, precision: str) -> CanaryVerdict:
        """Whether the operators ran in ``precision`` (``fp32``, ``tf32``, ``bf16``, ``fp16``, ``int8``)."""
        levels = [check.level for check in self.operators]
        if precision == "fp32":
            is_fp32 = all(level == CanaryLevel.FP32 for level in levels)
            return CanaryVerdict.FP32 if is_fp32 else CanaryVerdict.NOT_FP32
        of_precision = {"bf16": CanaryLevel.BF16, "int8": CanaryLevel.INT8}
        wanted = of_precision.get(precision, CanaryLevel.REDUCED)
        if all(level == wanted for level in levels):
            return CanaryVerdict.ACTIVE
        return CanaryVerdict.PARTLY if wanted in levels else CanaryVerdict.NOT_ACTIVE

    @property
    def summary(self) -> str:
        """One line, such as ``matmul fp32 (4.9e-07), linear bf16 (1.8e-03), conv failed (no such kernel)``."""
        return ", ".join(map(_described, self.operators))


def _described(check: OperatorCheck) -> str:
    reason = check.detail if check.error is None else f"{check.error:.1e}"
    return f"{check.operator} {check.level}" + (f" ({reason})" if reason else "")
