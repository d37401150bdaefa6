"""The roofline model: Williams, Waterman, Patterson: "Roofline", CACM 52(4), 2009."""

from __future__ import annotations

from modelzoo.records.ceilings import Ceilings
from modelzoo.records.roofline import Bound, BoundBy


def roofline_bound(
    flops: float,
    bytes_moved: float | None,
    seconds: float,
    ceilings: Ceilings,
    precision: str,
    threads: int | None = None,
) -> Bound:
    """Compare one iteration with the limits of its machine.

    Args:
        flops: operations of one iteration; a multiply-add counts as two.
        bytes_moved: bytes that it must at least read and write, or ``None`` if they were not counted.
        seconds: its duration.
        ceilings: of the machine.
        precision: ``fp32``, ``tf32``, ``bf16`` or ``fp16``, of the kernels that ran.
        threads: of the run, by default those of ``ceilings``. Only these and 1 were measured.

    Raises:
        ValueError: ``seconds`` or ``flops`` is not over 0.
    """
    if not seconds > 0 or not flops > 0:
        raise ValueError(f"flops and seconds must be over 0, not {flops} and {seconds}")
    gflops = flops / seconds / 1e9
    ceiling, bandwidth = ceilings.gflops(precision, threads), ceilings.gb_per_second(threads)
    intensity = flops / bytes_moved if bytes_moved else None
    ridge = ceiling / bandwidth if ceiling and bandwidth else None
    roof = bound_by = None
    if ceiling and bandwidth and ridge and intensity is not None:
        roof = min(ceiling, intensity * bandwidth)
        bound_by = BoundBy.COMPUTE if intensity >= ridge else BoundBy.MEMORY
    return Bound(
        precision=precision,
        gflops=gflops,
        ceiling=ceiling,
        share_of_ceiling=gflops / ceiling if ceiling else None,
        intensity=intensity,
        ridge=ridge,
        share_of_roof=gflops / roof if roof else None,
        bound_by=bound_by,
    )
