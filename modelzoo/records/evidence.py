"""The evidence of one audit: which kernels ran, in which precision, and for what share of the time."""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Message, Public, Word
from modelzoo.records.canary import CanaryLevel, OperatorCheck
from modelzoo.records.coverage import SUBNORMAL_SHARE, Coverage, ProductCall, TimeShare, WrongOutputs
from modelzoo.warning import WarningCode, WarningMessage, warning_for

ACTIVE_SHARE = 0.90
"""A reduced precision is ACTIVE if at least this share of the arithmetic ran in its kernels (of the time, where sizes
are not known).

The first or last layer often stays in fp32 for accuracy. If bf16 is twice as fast, converting the remaining tenth could
save another 5 % of the compute time, less than the difference between machines of the same kind. int8 is judged by the
products with weights, since recipes quantize no others.
"""
INACTIVE_SHARE = 0.01
"""A reduced precision is NOT ACTIVE below this share: 1 % is not measurable (samples are taken to ± 1 %)."""
BF16_IN_FP32 = "bf16 tensors, fp32 arithmetic"
"""The precision of products of bf16 operands that no bf16 instruction computed."""
REFERENCE_SHARE = 0.01
"""Reference kernels, oneDNN's slowest, may take up to this share of the time under ``--strict``."""


class ProofVerdict(Word):
    """Whether the requested precision really ran: the last two for fp32, the first three for any other.

    WRONG_RESULTS comes before all of them: a product computed what no precision explains.
    """

    WRONG_RESULTS = "WRONG_RESULTS"
    ACTIVE = "ACTIVE"
    PARTLY = "PARTLY"
    NOT_ACTIVE = "NOT_ACTIVE"
    UNKNOWN = "UNKNOWN"
    FP32 = "FP32"
    NOT_FP32 = "NOT_FP32"


class ProofSource(Word):
    """What decided the precision of an operator."""

    KERNEL_LOG = "kernel log"
    KERNEL_NAME = "kernel name"
    DATA_TYPES = "data types"
    CANARY = "canary"
    REPLAY = "replay"
    """The error of the product itself, called again."""
    PROBE = "subnormal products"
    """What became of products that are subnormal in fp32: whether bf16 instructions ran."""
    BOTH = "both"
    """An error, and the kernel log or the data types, agree."""
    NOTHING = "nothing"


class OperatorClass(Word):
    """The kinds of operators that multiply matrices."""

    CONV = "conv"
    LINEAR = "linear"
    MATMUL = "matmul"
    ATTENTION = "attention"


class LogSource(Word):
    """How it is known which kernels ran: for torch, how oneDNN's verbose mode was switched on."""

    RUNTIME_SWITCH = "runtime switch"
    ENVIRONMENT = "environment"
    ENGINE = "engine"
    """The engine reports them itself."""
    PROFILER = "profiler"
    """torch's profiler names the kernels of an accelerator."""
    NONE = "none"


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

    operator: Public
    operator_class: OperatorClass
    shapes: tuple[tuple[int, ...], ...]
    implementation: Public
    precision: Public
    decided_by: ProofSource
    count: int
    seconds: float
    kernel_seconds: float


class NotReplayed(Word):
    """Why a product says nothing of its precision itself.

    BUDGET: no time was left. NO_REFERENCE: it is not known what the operator computes. NOT_FLOATING: its operands are
    integers, or packed. OTHER_KERNELS: the replay ran others. FAILED: it raised an error.
    NOT_FINITE: no output is finite where the exact one is.
    """

    BUDGET = "budget"
    NO_REFERENCE = "no reference"
    NOT_FLOATING = "not floating"
    OTHER_KERNELS = "other kernels"
    FAILED = "failed"
    NOT_FINITE = "not finite"


class Subnormals(Word):
    """What became of products of bf16 numbers that are subnormal in fp32, which shows whether bf16 instructions ran.

    FLUSHED: they are zero, as bf16 instructions make them. IN_FP32: they were kept, which no bf16 instruction of this
    CPU does, so that bf16 numbers were multiplied in fp32. KEPT: they were kept, but a bf16 instruction may do so.
    MIXED: some were flushed.
    """

    FLUSHED = "flushed"
    IN_FP32 = "in fp32"
    KEPT = "kept"
    MIXED = "mixed"


class Product(msgspec.Struct, frozen=True):
    """One distinct product of a pass, called again with operands that tell precisions apart, and compared with fp64.

    Attributes:
        operator: name of the operator.
        operator_class: what it computes.
        shapes: the shapes of its tensors.
        operands: the data type of its operands (``fp32``, ``bf16`` …); ``unknown`` if they differ.
        count: number of calls in one pass.
        layers: the modules that call it, by path, each once; empty if no module is known.
        kernels: those that the libraries' logs name, each once; ``None`` without a log.
        logged: the precision that these kernels have according to the log; ``None`` if it proves nothing.
        error: root-mean-square error, relative to the exact output; ``None`` if there is none, or if it is not finite.
        shown: the precision that the error shows; ``None`` if it was not replayed.
        not_replayed: why it was not, or why the replay does not count.
        detail: what the operator said, if it raised an error.
        precision: what it ran in, from everything that is known of it.
        known_by: what decided ``precision``.
        share: the part of the audited passes' time in its calls, 0 to 1; ``None`` if the audit does not tell.
        subnormals: what became of subnormal products; ``None`` if that was not tried, or if it shows nothing.
        wrong: what is wrong with its outputs; ``None`` if nothing is, or if it was not replayed.
        call: how to call it again, if it is wrong or ran in another precision than asked for, and torch alone can.
    """

    operator: Public
    operator_class: OperatorClass
    shapes: tuple[tuple[int, ...], ...]
    operands: Public
    count: int
    layers: tuple[Public, ...] = ()
    kernels: tuple[Public, ...] | None = None
    logged: Public | None = None
    error: float | None = None
    shown: Public | None = None
    not_replayed: NotReplayed | None = None
    detail: Message = ""
    precision: Public = "unknown precision"
    known_by: ProofSource = ProofSource.NOTHING
    share: float | None = None
    subnormals: Subnormals | None = None
    wrong: WrongOutputs | None = None
    call: ProductCall | None = None

    @property
    def disagrees(self) -> bool:
        """Whether the log names one precision, and the error shows another."""
        return self.operands == "fp32" and None not in (self.logged, self.shown) and self.logged != self.shown


class ClassVerdict(msgspec.Struct, frozen=True):
    """How one class of operators ran.

    Attributes:
        operator_class: what these operators compute.
        seconds: their time in all audited passes.
        bf16_share: the part of their operations, or of ``seconds`` if these are not known, in bf16, or in the reduced
            precision that was requested, 0 to 1.
        precisions: all precisions that they ran in.
        decided_by: what decided that.
        canary_error: the error of the canary's operator of this class; ``None`` if there is none, or ``is_replayed``.
        canary_level: the precision that this error shows.
        is_replayed: whether every product of this class showed its precision itself.
    """

    operator_class: OperatorClass
    seconds: float
    bf16_share: float
    precisions: tuple[Public, ...]
    decided_by: tuple[ProofSource, ...]
    canary_error: float | None
    canary_level: CanaryLevel | None
    is_replayed: bool = False


class KernelCalls(msgspec.Struct, frozen=True):
    """How often one pass called a kernel that multiplies matrices.

    Attributes:
        kernel: its name, after that of its library.
        precision: the precision that the library's log proves.
        count: number of calls in one pass.
    """

    kernel: Public
    precision: Public
    count: int


class KernelDigest(msgspec.Struct, frozen=True):
    """Which kernels multiplied matrices in one pass, according to the logs of the libraries that contain them.

    Equal in processes that ran the same kernels equally often on the same shapes. The number of items is not part of
    the shapes: in detectors it depends on the data.

    Attributes:
        sha256: of the kernels with precisions, shapes and numbers of calls.
        kernels: the calls by kernel and precision.
    """

    sha256: Public
    kernels: tuple[KernelCalls, ...]


class OtherPrecision(msgspec.Struct, frozen=True, tag="other precision"):
    """Products ran in a precision that the requested one excludes.

    Attributes:
        classes: what they compute.
        precisions: what they ran in.
        kernels: the first kernels that ran them, by name.
    """

    classes: tuple[OperatorClass, ...]
    precisions: tuple[Public, ...]
    kernels: tuple[Public, ...]


class InexactCanary(msgspec.Struct, frozen=True, tag="inexact canary"):
    """The canary was to run in fp32 and did not.

    Attributes:
        checks: its operators whose errors are larger than those of fp32.
    """

    checks: tuple[OperatorCheck, ...]


class Disagreement(msgspec.Struct, frozen=True, tag="disagreement"):
    """The kernel log names one precision of a product, and its error shows another.

    Attributes:
        products: those of which this is true.
    """

    products: tuple[Product, ...]


class NotUsed(msgspec.Struct, frozen=True, tag="not used"):
    """Nothing ran in the reduced precision that was requested.

    Attributes:
        precision: what most of the compute time was spent in.
        kernels: the kernels that took the most time, at most two.
        library: what computes the products.
        allowed: whether the library was allowed to round fp32 operands; ``None`` if it computed nothing.
        dequantized: operators that converted int8 numbers back to floating point, if int8 was requested.
    """

    precision: Public
    kernels: tuple[Public, ...]
    library: Public
    allowed: bool | None
    dequantized: tuple[Public, ...] = ()


class Evidence(msgspec.Struct, frozen=True):
    """The verdict on one audit, and what it is based on.

    Seconds are sums over all audited passes. Shares are from 0 to 1.

    Attributes:
        requested: the precision asked for.
        bf16_method: how bf16 or fp16 was enabled; ``None`` for other precisions.
        verdict: whether the requested precision ran.
        reason: what speaks against the requested precision; ``None`` if nothing does, or if too little is known.
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
        products: the distinct products of one pass, in the order of their first calls; empty if none was replayed.
        replay_seconds: what calling them again took; ``None`` if none was.
        unread_lines: up to three distinct lines of oneDNN's log that could not be read.
    """

    requested: Public
    bf16_method: Public | None
    verdict: ProofVerdict
    reason: OtherPrecision | InexactCanary | Disagreement | NotUsed | None
    iterations: int
    seconds: float
    compute_seconds: float
    compute_bf16_share: float
    unattributed_share: float
    reference_share: float
    reference_kernels: tuple[Public, ...]
    classes: tuple[ClassVerdict, ...]
    by_implementation: tuple[TimeShare, ...]
    by_precision: tuple[TimeShare, ...]
    by_operator: tuple[TimeShare, ...]
    operators: tuple[OperatorUse, ...]
    onednn_version: Public
    onednn_isa: Public
    blas: Message
    log_source: LogSource
    problems: tuple[Message, ...]
    coverage: Coverage
    arithmetic_share: float | None = None
    products: tuple[Product, ...] = ()
    replay_seconds: float | None = None
    unread_lines: tuple[Message, ...] = ()

    @property
    def wrong(self) -> tuple[Product, ...]:
        """The products whose outputs are wrong."""
        return tuple(each for each in self.products if each.wrong is not None)

    @property
    def is_replayed(self) -> bool:
        """Whether every product showed its precision itself, so that nothing depends on the canary."""
        return bool(self.classes) and all(each.is_replayed for each in self.classes)

    @property
    def warnings(self) -> tuple[WarningMessage, ...]:
        """A warning if reference kernels ran, with their share of the time, and of subnormal numbers."""
        found, names = [], ", ".join(self.reference_kernels)
        if self.reference_share:
            found.append(warning_for(WarningCode.REFERENCE_KERNELS, percent=100 * self.reference_share, names=names))
        if self.coverage.subnormal >= SUBNORMAL_SHARE:
            found.append(warning_for(WarningCode.SUBNORMALS, percent=100 * self.coverage.subnormal))
        return tuple(found)
