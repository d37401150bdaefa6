"""What a pass costs, by operator and by layer; the measured limits of a machine, and how close a pass came to them; the
report of ``modelzoo doctor``, which measures these limits.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from modelzoo.frozen import PUBLIC, Message, Public
from modelzoo.records.equipment import Accelerator, Libraries
from modelzoo.records.machine import QUIET_CORES, CpuUsage, Machine
from modelzoo.warning import WarningMessage

Shape = tuple[int, ...]

BETWEEN_OPERATORS = "(between operators)"
"""Name of the row for the time in no operator."""
OTHERS = "(others)"
"""Name of the row for the operators that are not listed."""


class Flops(msgspec.Struct, frozen=True):
    """The floating-point operations of one pass.

    Attributes:
        total: number of operations.
        bytes: size of the inputs and outputs of every call; data that stays in a cache between two calls is counted
            twice.
        by_operator: operations by name of the operator.
        missing: operators whose operations are not known: products without a formula, and operators of extensions.
    """

    total: int
    bytes: int
    by_operator: dict[str, int] = {}
    missing: tuple[Public, ...] = ()

    @property
    def whole(self) -> int | None:
        """``total`` if it is that of a whole pass, which may be divided by its time; ``None`` if some are missing."""
        return None if self.missing else self.total or None


class DecodingBytes(msgspec.Struct, frozen=True):
    """What a step of a language model must read from memory at least.

    Attributes:
        weights: bytes of the parameters, as they are stored; without the tables of embeddings, of which it reads rows.
        cache: bytes of the cache of keys and values for the whole batch, the mean over the steps of a generation.
    """

    weights: int
    cache: float

    @property
    def total(self) -> float:
        """Bytes of a step."""
        return self.weights + self.cache


class OperatorRow(msgspec.Struct, frozen=True):
    """One operator with one set of shapes, over all passes.

    Attributes:
        name: name of the operator.
        shapes: the shapes of its inputs.
        count: number of calls.
        seconds: self time.
        share: the part of the passes' time, 0 to 1.
        flop: operations of all calls; ``None`` if unknown.
        bytes: inputs and outputs of all calls; ``None`` if unknown.
        kernel: the kernel that ran; empty if the audit did not see the call.
        precision: the precision that it ran in; empty likewise.
    """

    name: Public
    shapes: tuple[Shape, ...]
    count: int
    seconds: float
    share: float
    flop: int | None = None
    bytes: int | None = None
    kernel: Public = ""
    precision: Public = ""

    @property
    def gflops_per_second(self) -> float | None:
        """Achieved GFLOP/s; ``None`` if no operations were counted."""
        return self.flop / self.seconds / 1e9 if self.flop and self.seconds > 0 else None

    @property
    def gigabytes_per_second(self) -> float | None:
        """Achieved GB/s; ``None`` if no bytes were counted."""
        return self.bytes / self.seconds / 1e9 if self.bytes and self.seconds > 0 else None

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity: operations per byte moved (Williams et al., Roofline, 2009)."""
        return self.flop / self.bytes if self.flop and self.bytes else None


class LayerRow(msgspec.Struct, frozen=True):
    """One module of the model, over all passes.

    Attributes:
        path: the module's name, such as ``layer1.0.conv1``.
        kind: its class.
        count: number of calls.
        seconds: its time, children included.
        own_seconds: its time without its children.
        share: the part of the passes' time, 0 to 1.
        flop: operations of all calls; ``None`` if unknown.
    """

    path: Public
    kind: Public
    count: int
    seconds: float
    own_seconds: float
    share: float
    flop: int | None = None


class Profile(msgspec.Struct, frozen=True):
    """The profile of some passes.

    Attributes:
        iterations: number of passes.
        seconds: their total time under the profiler, which is slower than without it.
        operators: the operators, by shapes.
        layers: the model's modules.
        flops: the operations of one pass.
        problems: what could not be measured.
    """

    iterations: int
    seconds: float
    operators: tuple[OperatorRow, ...]
    layers: tuple[LayerRow, ...]
    flops: Flops | None
    problems: tuple[Message, ...]


CEILINGS_VERSION = 3
"""Changes when peaks are measured in another way, so that stored ones are not compared with new ones."""


class Gemm(msgspec.Struct, frozen=True):
    """Speed of a square matrix product.

    Attributes:
        precision: ``fp32``, ``tf32``, ``bf16``, ``fp16`` or ``int8``.
        threads: number of threads; 1 on an accelerator.
        size: rows and columns of both matrices; the product takes 2 × ``size``³ operations.
        operator: the torch operator: ``mm``, ``linear``, ``conv`` (1 × 1) or, in int8, ``int_mm``.
        gflops: 10⁹ operations per second.
    """

    precision: Public
    threads: int
    size: int
    operator: Public
    gflops: float


class UnavailableProduct(msgspec.Struct, frozen=True):
    """A matrix product that torch refuses to compute on this CPU.

    Attributes:
        precision: as in ``Gemm``.
        operator: as in ``Gemm``.
        reason: torch's error, its first line.
    """

    precision: Public
    operator: Public
    reason: Message


class Bandwidth(msgspec.Struct, frozen=True):
    """Speed of a copy in memory.

    Attributes:
        threads: number of threads.
        buffer_bytes: size of the source, and of the target.
        gb_per_second: 10⁹ bytes per second, read and written bytes added. As in STREAM, the read that a cache makes
            before a write is not counted.
    """

    threads: int
    buffer_bytes: int
    gb_per_second: float


class Ceilings(msgspec.Struct, frozen=True):
    """The measured limits of a machine or of one of its accelerators, for one version of torch.

    Attributes:
        fingerprint: of the machine.
        torch: version of torch.
        threads: the most threads that were measured; one thread is always measured too.
        gemm: every product measured.
        bandwidth: every copy measured.
        seconds: how long it took.
        other_cores: cores that other programs kept busy meanwhile; ``None`` if unknown.
        quiet_cores: up to which of them the machine counts as quiet.
        version: of the method.
        device: name of the accelerator; ``None``: the CPU, with that number of threads.
        unavailable: the products that cannot be measured here.
    """

    fingerprint: Public
    torch: Public
    threads: int
    gemm: tuple[Gemm, ...]
    bandwidth: tuple[Bandwidth, ...]
    seconds: float
    other_cores: float | None = None
    version: int = CEILINGS_VERSION
    device: Public | None = None
    unavailable: tuple[UnavailableProduct, ...] = ()
    quiet_cores: float = QUIET_CORES

    @property
    def quiet(self) -> bool:
        """Whether no other program is known to have kept the machine busy."""
        return self.other_cores is None or self.other_cores <= self.quiet_cores

    def gflops(self, precision: str, threads: int | None = None, operator: str | None = None) -> float | None:
        """Return the best speed in GFLOP/s, or ``None`` if it was not measured.

        Args:
            precision: ``fp32``, ``tf32``, ``bf16`` or ``fp16``.
            threads: by default all.
            operator: by default any.
        """
        wanted = self.threads if threads is None else threads
        found = [
            product.gflops
            for product in self.gemm
            if product.precision == precision and product.threads == wanted and operator in (None, product.operator)
        ]
        return max(found, default=None)

    def gb_per_second(self, threads: int | None = None) -> float | None:
        """Return the best copy in GB/s with ``threads`` (by default all), or ``None`` if it was not measured."""
        wanted = self.threads if threads is None else threads
        return max((copy.gb_per_second for copy in self.bandwidth if copy.threads == wanted), default=None)

    def scaling(self, precision: str = "fp32") -> float | None:
        """Return the parallel efficiency of ``mm``: speed of all threads ÷ (threads × speed of one)."""
        one, all_threads = self.gflops(precision, 1, "mm"), self.gflops(precision, operator="mm")
        if not one or not all_threads:
            return None
        return all_threads / (one * self.threads)


NEAR_ROOF = 0.6
"""From this part of the lower limit on, a run is called bound by it: it then accounts for more than half of the time,
with a margin for what is left in caches between two operators, whose bytes are counted although they do not move."""


BoundBy = Annotated[Literal["compute", "memory"], PUBLIC]
"""The limit that applies at an arithmetic intensity."""


class Bound(msgspec.Struct, frozen=True):
    """A run's position under the roofline; ``None`` if the peaks or the bytes are unknown.

    Attributes:
        precision: of the kernels that ran.
        gflops: achieved speed in GFLOP/s.
        ceiling: the best matrix product measured in that precision with that many threads, in GFLOP/s.
        share_of_ceiling: ``gflops`` ÷ ``ceiling``.
        intensity: arithmetic intensity, operations per byte moved.
        ridge: the intensity at which the compute and memory limits meet.
        share_of_roof: ``gflops`` ÷ min(``ceiling``, ``intensity`` × bandwidth).
        bound_by: the lower of the two limits, however far the run is from it.
    """

    precision: Public
    gflops: float
    ceiling: float | None
    share_of_ceiling: float | None
    intensity: float | None
    ridge: float | None
    share_of_roof: float | None
    bound_by: BoundBy | None

    @property
    def binding(self) -> BoundBy | None:
        """The limit that the run is near enough to for it to explain the speed; ``None`` if something else does."""
        return self.bound_by if self.share_of_roof is not None and self.share_of_roof >= NEAR_ROOF else None


DOCTOR_SCHEMA = "modelzoo-doctor/3.0"


class CeilingSeries(msgspec.Struct, frozen=True):
    """What is measured next for the peaks.

    Attributes:
        operator: that of ``Gemm``, or ``None`` for copies in memory.
        precision: of the operands; ``None`` for copies.
        threads: number of threads; ``None`` on an accelerator.
        device: torch's name of the accelerator; ``None``: the CPU.
    """

    operator: str | None = None
    precision: str | None = None
    threads: int | None = None
    device: str | None = None


class AcceleratorReport(msgspec.Struct, frozen=True):
    """An accelerator and its measured limits.

    Attributes:
        device: what it is.
        ceilings: its limits.
        ceilings_kept: whether they were kept from an earlier measurement.
    """

    device: Accelerator
    ceilings: Ceilings
    ceilings_kept: bool


class DoctorReport(msgspec.Struct, frozen=True):
    """What ``modelzoo doctor`` found.

    Attributes:
        machine: the facts.
        libraries: what is installed and loaded.
        usage: while the suite itself was idle.
        ceilings: the measured limits; ``None`` under an emulator.
        ceilings_kept: whether the peaks were kept from an earlier measurement.
        warnings: every condition that may distort a result.
        schema: name and version of this format; a minor version only adds fields.
        accelerator: the one that ``--device`` named; ``None``: none was.
    """

    machine: Machine
    libraries: Libraries
    usage: CpuUsage
    ceilings: Ceilings | None
    ceilings_kept: bool
    warnings: tuple[WarningMessage, ...]
    schema: Public = DOCTOR_SCHEMA
    accelerator: AcceleratorReport | None = None
