"""The evidence of one audit: which kernels ran, in which precision, and for what share of the time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional

from modelzoo.records.canary import CanaryLevel
from modelzoo.warning import WarningCode, WarningMessage, warning_for

REFERENCE_SHARE = 0.01
"""Reference kernels, oneDNN's slowest, may take up to this share of the time under ``--strict``."""


class ProofVerdict(str, Enum):
    """Whether the requested precision really ran: the first three for bf16, the last two for fp32."""

    ACTIVE = "ACTIVE"
    PARTLY = "PARTLY"
    NOT_ACTIVE = "NOT_ACTIVE"
    UNKNOWN = "UNKNOWN"
    FP32 = "FP32"
    NOT_FP32 = "NOT_FP32"

    def __str__(self) -> str:
        return self.value


class ProofSource(str, Enum):
    """What decided the precision of an operator."""

    KERNEL_LOG = "kernel log"
    DATA_TYPES = "data types"
    CANARY = "canary"
    BOTH = "both"
    """The canary, and the kernel log or the data types, agree."""
    NOTHING = "nothing"

    def __str__(self) -> str:
        return self.value


class OperatorClass(str, Enum):
    """The kinds of operators that multiply matrices."""

    CONV = "conv"
    LINEAR = "linear"
    MATMUL = "matmul"
    ATTENTION = "attention"

    def __str__(self) -> str:
        return self.value


class LogSource(str, Enum):
    """How oneDNN's verbose mode was switched on."""

    RUNTIME_SWITCH = "runtime switch"
    ENVIRONMENT = "environment"
    NONE = "none"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class TimeShare:
    """One line of a table.

    ``seconds`` and ``count`` (calls) are summed over all audited passes; ``share`` is of their total time, 0 to 1.
    """

    name: str
    seconds: float
    share: float
    count: int


@dataclass(frozen=True)
class OperatorUse:
    """One operator that multiplies matrices, with one set of shapes and one kernel.

    ``seconds`` is its self time over all passes, of which ``kernel_seconds`` were spent inside the kernel that
    ``implementation`` names.
    """

    operator: str
    operator_class: OperatorClass
    shapes: tuple[tuple[int, ...], ...]
    implementation: str
    precision: str
    decided_by: ProofSource
    count: int
    seconds: float
    kernel_seconds: float


@dataclass(frozen=True)
class ClassVerdict:
    """How one class of operators ran; ``bf16_share`` is of this class's time, 0 to 1."""

    operator_class: OperatorClass
    seconds: float
    bf16_share: float
    precisions: tuple[str, ...]
    decided_by: tuple[ProofSource, ...]
    canary_error: Optional[float]
    canary_level: Optional[CanaryLevel]


@dataclass(frozen=True)
class Evidence:
    """The verdict on one audit, and what it is based on.

    Seconds are sums over ``iterations`` passes. Shares (0 to 1) are of ``seconds``, except ``compute_bf16_share``,
    which is of ``compute_seconds``: the time in convolutions, matrix products and attention. ``detail`` gives the
    reason for the verdict and ``line`` the sentence to print. ``problems`` lists what the audit could not do.
    """

    requested: str
    bf16_method: Optional[str]
    verdict: ProofVerdict
    detail: str
    line: str
    decided_by: tuple[ProofSource, ...]
    iterations: int
    seconds: float
    compute_seconds: float
    compute_bf16_share: float
    unattributed_share: float
    reference_share: float
    reference_kernels: tuple[str, ...]
    classes: tuple[ClassVerdict, ...]
    by_implementation: tuple[TimeShare, ...]
    by_precision: tuple[TimeShare, ...]
    by_operator: tuple[TimeShare, ...]
    operators: tuple[OperatorUse, ...]
    onednn_version: str
    onednn_isa: str
    blas: str
    log_source: LogSource
    problems: tuple[str, ...]

    @property
    def proven(self) -> bool:
        """Whether the requested precision ran, without reference kernels that matter; ``--strict`` requires it."""
        as_requested = self.verdict in (ProofVerdict.ACTIVE, ProofVerdict.FP32)
        return as_requested and self.reference_share <= REFERENCE_SHARE

    @property
    def warnings(self) -> tuple[WarningMessage, ...]:
        """A warning if reference kernels ran, with their share of the time."""
        if not self.reference_share:
            return ()
        names = ", ".join(self.reference_kernels)
        return (warning_for(WarningCode.REFERENCE_KERNELS, percent=100 * self.reference_share, names=names),)
