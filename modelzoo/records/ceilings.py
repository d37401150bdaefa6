"""The measured limits of a machine: matrix products for arithmetic, a copy for memory."""

from __future__ import annotations

from typing import Optional

import msgspec

from modelzoo.records.machine import QUIET_CORES

CEILINGS_VERSION = 2
"""Changes when ceilings are measured in another way, so that stored ones are not compared with new ones."""


class Gemm(msgspec.Struct, frozen=True):
    """Speed of a square matrix product.

    Attributes:
        precision: ``fp32``, ``tf32``, ``bf16`` or ``fp16``.
        threads: number of threads; 1 on an accelerator.
        size: rows and columns of both matrices; the product takes 2 × ``size``³ operations.
        operator: the torch operator: ``mm``, ``linear`` or ``conv`` (1 × 1).
        gflops: 10⁹ operations per second.
    """

    precision: str
    threads: int
    size: int
    operator: str
    gflops: float


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
        version: of the method.
        device: name of the accelerator; ``None``: the CPU, with that number of threads.
    """

    fingerprint: str
    torch: str
    threads: int
    gemm: tuple[Gemm, ...]
    bandwidth: tuple[Bandwidth, ...]
    seconds: float
    other_cores: Optional[float] = None
    version: int = CEILINGS_VERSION
    device: Optional[str] = None

    @property
    def quiet(self) -> bool:
        """Whether no other program is known to have kept the machine busy."""
        return self.other_cores is None or self.other_cores <= QUIET_CORES

    def gflops(self, precision: str, threads: Optional[int] = None, operator: Optional[str] = None) -> Optional[float]:
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

    def gb_per_second(self, threads: Optional[int] = None) -> Optional[float]:
        """Return the best copy in GB/s with ``threads`` (by default all), or ``None`` if it was not measured."""
        wanted = self.threads if threads is None else threads
        return max((copy.gb_per_second for copy in self.bandwidth if copy.threads == wanted), default=None)

    def scaling(self, precision: str = "fp32") -> Optional[float]:
        """Return the parallel efficiency of ``mm``: speed of all threads ÷ (threads × speed of one)."""
        one, all_threads = self.gflops(precision, 1, "mm"), self.gflops(precision, operator="mm")
        if not one or not all_threads:
            return None
        return all_threads / (one * self.threads)
