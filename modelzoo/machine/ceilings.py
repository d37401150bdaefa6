"""What this machine can do at best: measured, not computed from a data sheet.

Matrix products for arithmetic, a copy for memory; kept for the next time, because it takes 20 seconds.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from modelzoo.files import write_atomically
from modelzoo.machine.directories import cache_directory
from modelzoo.machine.facts import fingerprint
from modelzoo.machine.libraries import import_torch
from modelzoo.machine.usage import CpuUsageMonitor
from modelzoo.records.ceilings import CEILINGS_VERSION, Bandwidth, Ceilings, Gemm
from modelzoo.records.codec import decode, encode
from modelzoo.records.machine import Machine

SIZES = (512, 1024, 2048, 4096, 8192)
SECONDS_PER_SERIES = 5.0
"""Time for one precision at one thread count; four of them and two copies stay under 30 s."""
BLOCKS = 3
# --- measuring -----------------------------------------------------------------------------------


def find_ceilings(
    machine: Machine,
    threads: int | None = None,
    *,
    fresh: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> tuple[Ceilings, bool]:
    """Return the machine's ceilings and whether they were kept from an earlier measurement.

    ``progress`` is told each step. Figures from a machine that was busy with something else are
    returned but not kept, nor are they where the cache cannot be written.
    """
    count = threads or machine.threads.count
    torch = import_torch()
    path = cache_path(machine, torch.__version__, count)
    if not fresh:
        kept = read_ceilings(path)
        if kept is not None:
            return kept, True
    measured = measure_ceilings(count, machine, progress=progress)
    if measured.quiet:
        write_ceilings(measured, path)
    return measured, False


def measure_ceilings(
    threads: int,
    machine: Machine,
    *,
    sizes: Sequence[int] = SIZES,
    seconds: float = SECONDS_PER_SERIES,
    progress: Callable[[str], None] = lambda step: None,
) -> Ceilings:
    """Measure matrix products in fp32 and bf16 and a copy, with 1 and with ``threads`` threads.

    Each size is timed in ``BLOCKS`` blocks; its figure is that of the block with the best median, since
    a ceiling is what the machine reaches when nothing disturbs it. Sizes grow until ``seconds`` are
    spent, so a slow precision is measured on small matrices only.
    """
    torch = import_torch()
    watch = CpuUsageMonitor().start()
    threads_before = torch.get_num_threads()
    precision_before = torch.get_float32_matmul_precision()
    gemm: list[Gemm] = []
    copies: list[Bandwidth] = []
    # The product that torch.mm takes need not be the best: on ARM it is OpenBLAS, linear is ACL; on x86 it is MKL,
    # which leaves a part of some CPUs' vector width unused, and a convolution is oneDNN.
    fitting = [size for size in sizes if 16 * size**2 <= (machine.memory_limit or 2**34) // 8]
    operators = ["mm"]
    if torch.backends.mkldnn.is_available():
        operators += ["linear", "conv"] if machine.architecture == "aarch64" else ["conv"]
    try:
        torch.set_float32_matmul_precision("highest")
        with torch.inference_mode():
            for count in sorted({1, threads}):
                torch.set_num_threads(count)
                for precision in ("fp32", "bf16"):
                    for operator in operators:
                        progress(f"{precision} {operator}, {count} thread{'s' * (count > 1)}")
                        share = seconds / len(operators)
                        gemm += _products(torch, precision, operator, count, fitting, share)
                progress(f"memory copy, {count} thread{'s' * (count > 1)}")
                copies.append(_copy(torch, count, _buffer_bytes(machine), min(seconds, 2.0)))
    finally:
        torch.set_num_threads(threads_before)
        torch.set_float32_matmul_precision(precision_before)
    load_meanwhile = watch.stop()
    return Ceilings(
        fingerprint=fingerprint(machine),
        torch=str(torch.__version__),
        threads=threads,
        gemm=tuple(gemm),
        bandwidth=tuple(copies),
        seconds=load_meanwhile.seconds,
        other_cores=load_meanwhile.other_cores,
    )


def _products(
    torch: Any, precision: str, operator: str, threads: int, sizes: Sequence[int], seconds: float
) -> list[Gemm]:
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    found: list[Gemm] = []
    left = seconds
    for index, size in enumerate(sizes):
        # One call to warm up and one a block, at the speed of the size before.
        if found and 2 * size**3 / (found[-1].gflops * 1e9) * (1 + BLOCKS) > left:
            break
        call = _product(torch, operator, size, dtype)
        began = time.perf_counter()
        median = _best_median(call, left / (len(sizes) - index))
        left -= time.perf_counter() - began
        found.append(Gemm(precision, threads, size, operator, 2 * size**3 / median / 1e9))
    return found


def _product(torch: Any, operator: str, size: int, dtype: Any) -> Callable[[], Any]:
    """A product of two ``size`` × ``size`` matrices by ``operator``; ``size`` is a power of 2, at least 16."""
    first, second = torch.rand(size, size).to(dtype), torch.rand(size, size).to(dtype)
    if operator == "mm":
        result = torch.empty(size, size, dtype=dtype)
        return lambda: torch.mm(first, second, out=result)
    if operator == "linear":
        return lambda: torch.nn.functional.linear(first, second)
    height = 1 << (size.bit_length() - 1) // 2
    picture, weights = first.reshape(1, size, height, size // height), second[:, :, None, None]
    # conv2d would leave it to another library on one thread, where other convolutions go to oneDNN.
    return lambda: torch.mkldnn_convolution(picture, weights, None, [0, 0], [1, 1], [1, 1], 1)


def _copy(torch: Any, threads: int, size: int, seconds: float) -> Bandwidth:
    source = torch.ones(size // 4, dtype=torch.float32)
    target = torch.zeros_like(source)
    median = _best_median(lambda: target.copy_(source), seconds)
    return Bandwidth(threads, size, 2 * size / median / 1e9)


def _best_median(call: Callable[[], Any], seconds: float) -> float:
    """Run ``call`` for about ``seconds`` in blocks and return the smallest median of a block."""
    call()  # the first call allocates and packs
    best = math.inf
    for _ in range(BLOCKS):
        samples: list[float] = []
        end = time.perf_counter() + seconds / BLOCKS
        while True:
            before = time.perf_counter()
            call()
            after = time.perf_counter()
            samples.append(after - before)
            if after + samples[-1] > end:
                break
        best = min(best, statistics.median(samples))
    return best


def _buffer_bytes(machine: Machine) -> int:
    """A buffer that no cache holds: 4 × the last level, 256 MiB at least, 1/16 of the memory at most."""
    last = max((cache.bytes * cache.instances for cache in machine.caches), default=32 << 20)
    wanted = max(256 << 20, 4 * last)
    if machine.memory_limit is not None:
        wanted = min(wanted, machine.memory_limit // 16)
    return wanted // 4096 * 4096


# --- keeping -------------------------------------------------------------------------------------


def cache_path(machine: Machine, torch_version: str, threads: int) -> Path:
    """Where the ceilings of this machine, torch and thread count are kept."""
    safe = "".join(c if c.isalnum() or c in ".-" else "_" for c in torch_version)
    return cache_directory() / "ceilings" / f"{fingerprint(machine)}-torch{safe}-{threads}.json"


def read_ceilings(path: Path) -> Ceilings | None:
    """Read kept ceilings; ``None`` if there are none, or the file is damaged or of another version."""
    try:
        ceilings = decode(Ceilings, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):  # includes msgspec.ValidationError
        return None
    return ceilings if ceilings.version == CEILINGS_VERSION else None


def write_ceilings(ceilings: Ceilings, path: Path) -> bool:
    """Keep ``ceilings``; return whether they could be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(encode(ceilings), indent=1))
    except OSError:
        return False
    return True
