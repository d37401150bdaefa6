"""The evidence of one audit: which kernels ran, in which precision, and for what share of the time."""

from __future__ import annotations

from enum import Enum
from typing import Optional, Union

import msgspec

from modelzoo.records.canary import CanaryLevel, OperatorCheck
from modelzoo.warning import WarningCode, WarningMessage, warning_for

KNOWN_SHARE = 0.95
"""What must be known of a pass, of its counted operations and of its time, before its precision is called verified."""
ACTIVE_SHARE = 0.90
"""A reduced precision is ACTIVE if at least this share of the compute time, and of the counted arithmetic, ran in its
kernels.

The first or last layer often stays in fp32 for accuracy. If bf16 is twice as fast, converting the remaining tenth could
save another 5 % of the compute time, less than the difference between machines of the same kind. int8 is judged by the
products with weights, since recipes quantize no others.
"""
INACTIVE_SHARE = 0.01
"""A reduced precision is NOT ACTIVE below this share: 1 % is not measurable (samples are taken to ± 1 %)."""
REFERENCE_SHARE = 0.01
"""Reference kernels, oneDNN's slowest, may take up to this share of the time under ``--strict``."""


class ProofVerdict(str, Enum):
    """Whether the requested precision really ran: the last two for fp32, the first three for any other."""

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
    KERNEL_NAME = "kernel name"
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
    """How it is known which kernels ran: for torch, how oneDNN's verbose mode was switched on."""

    RUNTIME_SWITCH = "runtime switch"
    ENVIRONMENT = "environment"
    ENGINE = "engine"
    """The engine reports them itself."""
    PROFILER = "profiler"
    """torch's profiler names the kernels of an accelerator."""
    NONE = "none"

    def __str__(self) -> str:
        return self.value


class TimeShare(msgspec.Struct, frozen=True):
    """One line of a table.

    Attributes:
        name: of the kernel, precision or operator.
        seconds: summed over all audited passes.
        share: of the total time of these passes, 0 to 1.
        count: number of calls in all audited passes.
    """

    name: str
    seconds: float
    share: float
    count: int


class OperatorUse(msgspec.Struct, frozen=True):
    """One operator that multiplies matrices, with one set of shapes and one kernel.

    Attributes:
        operator: name of the operator.
        operator_class: what it computes.
        shapes: the shapes of its inputs.
        implementation: the kernel that ran.
        precision: the precision that it ran in.
        decided_by: what decided ``precision``.
        count: number of calls in all audited passes.
        seconds: self time in all audited passes.
        kernel_seconds: the part of ``seconds`` that was spent inside the kernel.
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


class ClassVerdict(msgspec.Struct, frozen=True):
    """How one class of operators ran.

    Attributes:
        operator_class: what these operators compute.
        seconds: their time in all audited passes.
        bf16_share: the part of ``seconds`` in bf16, or in the reduced precision that was requested, 0 to 1.
        precisions: all precisions that they ran in.
        decided_by: what decided that.
        canary_error: the error of the canary's operator of this class; ``None`` if there is none.
        canary_level: the precision that this error shows.
    """

    operator_class: OperatorClass
    seconds: float
    bf16_share: float
    precisions: tuple[str, ...]
    decided_by: tuple[ProofSource, ...]
    canary_error: Optional[float]
    canary_level: Optional[CanaryLevel]


class KernelCalls(msgspec.Struct, frozen=True):
    """How often one pass called a kernel that multiplies matrices.

    Attributes:
        kernel: its name, after that of its library.
        precision: the precision that the library's log proves.
        count: number of calls in one pass.
    """

    kernel: str
    precision: str
    count: int


class KernelDigest(msgspec.Struct, frozen=True):
    """Which kernels multiplied matrices in one pass, according to the logs of the libraries that contain them.

    Equal in processes that ran the same kernels equally often on the same shapes. The number of items is not part of
    the shapes: in detectors it depends on the data.

    Attributes:
        sha256: of the kernels with precisions, shapes and numbers of calls.
        kernels: the calls by kernel and precision.
    """

    sha256: str
    kernels: tuple[KernelCalls, ...]


class Coverage(msgspec.Struct, frozen=True):
    """How much of the audited passes is known. Shares are from 0 to 1.

    fp32 is verified, and a reduced precision active, only if both ``known_arithmetic`` and ``known_time`` are at least
    ``KNOWN_SHARE``; ``known_arithmetic`` is not needed where every kernel of a device is listed.

    Attributes:
        counted: operations of one pass of the eager torch model; ``None`` if they were not counted.
        seen_arithmetic: the part of ``counted`` in products that the audit saw; ``None`` if it was not counted.
        known_arithmetic: the part of ``counted`` in products whose precision is known.
        known_time: the part of the passes' time in such products, in kernels that are known to multiply nothing, and,
            if ``seen_arithmetic`` leaves nothing out, around operators.
        unknown: what the rest of the time was spent on, longest first.
        uncounted: operators whose operations are not known and whose precision is not known either.
        unexplained: types narrower than the requested precision that were logged, although no product has them.
        unread: lines of the kernel log that could not be read.
        lists_all: whether everything that ran is known to be listed, so that nothing needs to be counted.
    """

    counted: Optional[int]
    seen_arithmetic: Optional[float]
    known_arithmetic: Optional[float]
    known_time: float
    unknown: tuple[TimeShare, ...] = ()
    uncounted: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()
    unread: int = 0
    lists_all: bool = False

    @property
    def is_enough(self) -> bool:
        """Whether so much is known that the precision of the whole pass can be called verified."""
        is_counted = self.known_arithmetic is not None and self.known_arithmetic >= KNOWN_SHARE and not self.uncounted
        has_gaps = bool(self.unexplained or self.unread)
        return (is_counted or self.lists_all) and self.known_time >= KNOWN_SHARE and not has_gaps


class OtherPrecision(msgspec.Struct, frozen=True, tag="other precision"):
    """Products ran in a precision that the requested one excludes.

    Attributes:
        classes: what they compute.
        precisions: what they ran in.
        kernels: the first kernels that ran them, by name.
    """

    classes: tuple[OperatorClass, ...]
    precisions: tuple[str, ...]
    kernels: tuple[str, ...]


class InexactCanary(msgspec.Struct, frozen=True, tag="inexact canary"):
    """The canary was to run in fp32 and did not.

    Attributes:
        checks: its operators whose errors are larger than those of fp32.
    """

    checks: tuple[OperatorCheck, ...]


class NotUsed(msgspec.Struct, frozen=True, tag="not used"):
    """Nothing ran in the reduced precision that was requested.

    Attributes:
        precision: what most of the compute time was spent in.
        kernels: the kernels that took the most time, at most two.
        library: what computes the products.
        allowed: whether the library was allowed to round fp32 operands; ``None`` if it computed nothing.
        dequantized: operators that converted int8 numbers back to floating point, if int8 was requested.
    """

    precision: str
    kernels: tuple[str, ...]
    library: str
    allowed: Optional[bool]
    dequantized: tuple[str, ...] = ()


class Evidence(msgspec.Struct, frozen=True):
    """The verdict on one audit, and what it is based on.

    Seconds are sums over all audited passes. Shares are from 0 to 1.

    Attributes:
        requested: the precision asked for.
        bf16_method: how bf16 or fp16 was enabled; ``None`` for other precisions.
        verdict: whether the requested precision ran.
        reason: what speaks against the requested precision; ``None`` if nothing does, or if too little is known.
        decided_by: what decided the precisions.
        iterations: number of audited passes.
        seconds: their total time.
        compute_seconds: the part of ``seconds`` in convolutions, matrix products and attention.
        compute_bf16_share: the part of ``compute_seconds`` in bf16, or in the reduced precision that was requested.
        unattributed_share: the part of ``seconds`` in no operator or kernel.
        reference_share: the part of ``seconds`` in reference kernels, the slowest.
        reference_kernels: their names.
        classes: the classes of operators that multiply matrices.
        by_implementation: the time by kernel.
        by_precision: the time by precision.
        by_operator: the time by operator.
        operators: the operators that multiply matrices.
        onednn_version: as oneDNN reports it; empty if it did not.
        onednn_isa: the instruction set that oneDNN uses; empty if it did not report it.
        blas: the BLAS library of torch; empty for other engines.
        log_source: how it is known which kernels ran.
        problems: what the audit could not do.
        coverage: how much of the passes is known.
        arithmetic_share: the part of the counted operations in the reduced precision that was requested; ``None`` if
            they were not counted, or need not be.
    """

    requested: str
    bf16_method: Optional[str]
    verdict: ProofVerdict
    reason: Union[OtherPrecision, InexactCanary, NotUsed, None]
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
    coverage: Coverage
    arithmetic_share: Optional[float] = None

    @property
    def warnings(self) -> tuple[WarningMessage, ...]:
        """A warning if reference kernels ran, with their share of the time."""
        if not self.reference_share:
            return ()
        names = ", ".join(self.reference_kernels)
        return (warning_for(WarningCode.REFERENCE_KERNELS, percent=100 * self.reference_share, names=names),)
