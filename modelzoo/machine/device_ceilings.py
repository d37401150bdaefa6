"""Measure the limits of an accelerator: matrix products for arithmetic, a copy for memory, timed by its events."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Callable, Protocol

from modelzoo.machine.fingerprint import fingerprint
from modelzoo.machine.installation import import_torch
from modelzoo.records.accelerator import Accelerator
from modelzoo.records.ceilings import Bandwidth, Ceilings, Gemm
from modelzoo.records.doctor import CeilingSeries
from modelzoo.records.machine import Machine

SIZES = (1024, 2048, 4096, 8192, 16384)
PRECISIONS = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""The data types of the operands; TF32 is a mode of fp32 operators."""
SECONDS = 2.0
"""Time for one precision, and for the copies."""
CALLS = 10
"""Products or copies between two events: enough that issuing them does not count."""
BLOCKS = 5
"""Measurements of which the fastest counts, after one that lets the clock rise."""
COPY_BYTES = 1 << 30


class Device(Protocol):
    """What this needs of an accelerator."""

    def Event(self, *, enable_timing: bool) -> Any:  # noqa: N802 - torch's name
        """Create an event."""

    def synchronize(self) -> None:
        """Wait for the device."""


Precision = Callable[[str], AbstractContextManager[Any]]
"""The context in which a precision holds. Raises ``ModelzooError`` if the device does not have it."""


def measure_device_ceilings(
    device: Device,
    facts: Accelerator,
    machine: Machine,
    precision: Precision,
    precisions: Sequence[str],
    *,
    name: str,
    sizes: Sequence[int] = SIZES,
    seconds: float = SECONDS,
    progress: Callable[[CeilingSeries], None] = lambda series: None,
) -> Ceilings:
    """Measure matrix products in each of ``precisions``, and a copy within the device's memory.

    Args:
        device: whose events time them.
        facts: what it is.
        machine: its host.
        precision: the context in which a precision holds.
        precisions: those that the device has.
        name: torch's name of the device.
        sizes: rows of the matrices.
        seconds: time for one precision, and for the copies.
        progress: called before each series.
    """
    torch = import_torch()
    started = time.perf_counter()
    memory = facts.memory or 2**34
    fitting = [size for size in sizes if 16 * size**2 <= memory // 4]
    gemm: list[Gemm] = []
    with torch.inference_mode():
        for each in precisions:
            progress(CeilingSeries("mm", each, device=name))
            with precision(each):
                gemm += _products(torch, device, each, name, fitting, seconds)
        progress(CeilingSeries(device=name))
        size = min(COPY_BYTES, memory // 8) // 4096 * 4096
        source = torch.ones(size // 4, dtype=torch.float32, device=name)
        target = torch.zeros_like(source)
        copy_seconds = _fastest(device, lambda: target.copy_(source), seconds)
    return Ceilings(
        fingerprint=fingerprint(machine),
        torch=str(torch.__version__),
        threads=1,
        gemm=tuple(gemm),
        bandwidth=(Bandwidth(1, size, 2 * size / copy_seconds / 1e9),),
        seconds=time.perf_counter() - started,
        device=facts.name,
    )


def _products(torch: Any, device: Device, precision: str, name: str, sizes: Sequence[int], limit: float) -> list[Gemm]:
    dtype = getattr(torch, PRECISIONS[precision])
    found: list[Gemm] = []
    left = limit
    for index, size in enumerate(sizes):
        if found and 2 * size**3 * CALLS * (BLOCKS + 1) / (found[-1].gflops * 1e9) > left:
            break
        began = time.perf_counter()
        first, second = (torch.rand(size, size, device=name).to(dtype) for _ in range(2))
        result = torch.empty(size, size, dtype=dtype, device=name)

        def call(a: Any = first, b: Any = second, out: Any = result) -> None:
            torch.mm(a, b, out=out)

        seconds = _fastest(device, call, left / (len(sizes) - index))
        left -= time.perf_counter() - began
        found.append(Gemm(precision, 1, size, "mm", 2 * size**3 / seconds / 1e9))
    return found


def _fastest(device: Device, call: Callable[[], object], limit: float) -> float:
    """Seconds of one call in the fastest block; each block is ``CALLS`` calls between two events."""
    blocks: list[float] = []
    began = time.perf_counter()
    while len(blocks) <= BLOCKS and (len(blocks) < 2 or time.perf_counter() - began < limit):
        first, last = device.Event(enable_timing=True), device.Event(enable_timing=True)
        device.synchronize()
        first.record()
        for _ in range(CALLS):
            call()
        last.record()
        device.synchronize()
        blocks.append(first.elapsed_time(last) * 1e-3 / CALLS)
    return min(blocks[1:])
