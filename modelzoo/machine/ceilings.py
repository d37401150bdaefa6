"""The limits of this machine or of its accelerator, measured by matrix products and a copy, and the roofline.

They are kept in the cache directory: measuring them takes 20 seconds.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from modelzoo.errors import first_line
from modelzoo.files import cache_directory, write_atomically
from modelzoo.machine.installation import import_torch, installed_version
from modelzoo.machine.sensors import CpuUsageMonitor
from modelzoo.records.codec import encode_json
from modelzoo.records.equipment import Accelerator
from modelzoo.records.machine import Machine, fingerprint, quiet_limit
from modelzoo.records.profile import (
    CEILINGS_VERSION,
    Bandwidth,
    Bound,
    BoundBy,
    Ceilings,
    CeilingSeries,
    Gemm,
    UnavailableProduct,
)


def find_ceilings(
    machine: Machine, measure: Callable[[], Ceilings], device: Accelerator | None = None, *, fresh: bool = False
) -> tuple[Ceilings, bool]:
    """Return the ceilings of the machine, or of its ``device``, and whether they were kept from an earlier measurement.

    Figures measured while other programs were busy are returned but not kept. A cache that cannot be written is not
    an error.

    Args:
        machine: this machine.
        measure: measures them.
        device: the accelerator; ``None``: the CPU.
        fresh: measure even if ceilings were kept.
    """
    kept = None if fresh else kept_ceilings(machine, device)
    if kept is not None:
        return kept, True
    measured = measure()
    if measured.quiet:
        path = ceilings_path(machine, device)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, encode_json(measured).decode())
    return measured, False


def kept_ceilings(machine: Machine, device: Accelerator | None = None) -> Ceilings | None:
    """Return the ceilings of the machine, or of its ``device``, that were measured earlier for the installed torch.

    ``None`` if there are none, or if the file is damaged or of another version.
    """
    try:
        ceilings = msgspec.json.decode(ceilings_path(machine, device).read_bytes(), type=Ceilings)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None
    return ceilings if ceilings.version == CEILINGS_VERSION else None


def ceilings_path(machine: Machine, device: Accelerator | None = None) -> Path:
    """Return where ceilings are kept: by machine, torch, and number of threads or name and memory of the device."""
    # The installed version, so that torch need not be imported.
    parts = [f"torch{installed_version('torch') or 'none'}"]
    parts += [str(machine.threads.count)] if device is None else [device.name, f"{(device.memory or 0) >> 30}GiB"]
    safe = re.sub(r"[^A-Za-z0-9.-]", "_", "-".join(parts))
    return cache_directory() / "ceilings" / f"{fingerprint(machine)}-{safe}.json"


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
    roof: float | None = None
    bound_by: BoundBy | None = None
    if ceiling and bandwidth and ridge and intensity is not None:
        roof = min(ceiling, intensity * bandwidth)
        bound_by = "compute" if intensity >= ridge else "memory"
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


SIZES = (512, 1024, 2048, 4096, 8192, 16384)
DEVICE_SIZES = SIZES[1:]
"""On an accelerator: smaller ones show what a launch takes."""
SECONDS_PER_SERIES = 5.0
"""Time for one precision with one number of threads. Six of them and two copies take less than 40 s."""
DEVICE_SECONDS = 2.0
"""The same on an accelerator, and for its copies."""
BLOCKS = 3
PROBE_SIZE = 64
"""Rows of the matrices that show whether an operator supports a precision."""
COPY_BYTES = 1 << 30
"""On an accelerator."""
PRECISIONS = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""The data types of the operands of accelerators; TF32 is a mode of fp32 operators."""

Progress = Callable[[CeilingSeries], None]
"""Called before each series."""
Precision = Callable[[str], AbstractContextManager[Any]]
"""The context in which a precision holds. Raises ``ModelzooError`` if the device does not have it."""


def measure_ceilings(
    threads: int,
    machine: Machine,
    *,
    sizes: Sequence[int] = SIZES,
    seconds: float = SECONDS_PER_SERIES,
    progress: Progress = lambda series: None,
) -> Ceilings:
    """Measure matrix products in fp32, bf16 and int8, and a copy, with 1 and with ``threads`` threads.

    A reduced precision that an operator does not support on this CPU is recorded as such. fp32 is as torch's switches
    have it: call this within ``switches.fast_math(False)``.

    Args:
        threads: the largest number of threads.
        machine: this machine.
        sizes: rows of the matrices; powers of 2.
        seconds: time for one precision with one number of threads.
        progress: called before each series.
    """
    torch = import_torch()
    monitor = CpuUsageMonitor()
    gemm: list[Gemm] = []
    copies: list[Bandwidth] = []
    fitting = [size for size in sizes if 16 * size**2 <= (machine.memory_limit or 2**34) // 8]
    operators, unavailable = _operators(torch, machine.architecture), []
    for precision, operator in [(each, name) for each in ("bf16", "int8") for name in operators[each]]:
        try:  # without bf16 or AVX-512 instructions, oneDNN's convolution raises an error
            _product(torch, operator, PROBE_SIZE, getattr(torch, PRECISIONS.get(precision, precision)))()
        except RuntimeError as error:
            unavailable.append(UnavailableProduct(precision, operator, first_line(error)))
            operators[precision].remove(operator)
    with torch.inference_mode():
        for count in sorted({1, threads}):
            for precision, names in operators.items():
                for operator in names:
                    progress(CeilingSeries(operator, precision, count))
                    gemm += _products(torch, precision, operator, fitting, seconds / len(names), count)
            progress(CeilingSeries(threads=count))
            copies.append(_copy(torch, _buffer_bytes(machine), min(seconds, 2.0), count))
    usage = monitor.stop()
    return Ceilings(
        fingerprint=fingerprint(machine),
        torch=str(torch.__version__),
        threads=threads,
        gemm=tuple(gemm),
        bandwidth=tuple(copies),
        seconds=usage.seconds,
        other_cores=usage.other_cores,
        quiet_cores=quiet_limit(machine.threads.affinity, usage.resolution),
        unavailable=tuple(unavailable),
    )


def measure_device_ceilings(
    synchronize: Callable[[], None],
    facts: Accelerator,
    machine: Machine,
    precision: Precision,
    precisions: Sequence[str],
    *,
    name: str,
    sizes: Sequence[int] = DEVICE_SIZES,
    seconds: float = DEVICE_SECONDS,
    progress: Progress = lambda series: None,
) -> Ceilings:
    """Measure matrix products in each of ``precisions``, and a copy within the device's memory.

    Args:
        synchronize: waits for the device.
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

    def clock() -> float:
        synchronize()
        return time.perf_counter()

    with torch.inference_mode():
        for each in precisions:
            progress(CeilingSeries("mm", each, device=name))
            with precision(each):
                gemm += _products(torch, each, "mm", fitting, seconds, device=name, clock=clock)
        progress(CeilingSeries(device=name))
        size = min(COPY_BYTES, memory // 8) // 4096 * 4096
        copy = _copy(torch, size, seconds, device=name, clock=clock)
    return Ceilings(
        fingerprint=fingerprint(machine),
        torch=str(torch.__version__),
        threads=1,
        gemm=tuple(gemm),
        bandwidth=(copy,),
        seconds=time.perf_counter() - started,
        device=facts.name,
    )


def _operators(torch: ModuleType, architecture: str) -> dict[str, list[str]]:
    """Return the operators to measure in each precision: the library behind ``torch.mm`` need not be the fastest.

    On ARM it is OpenBLAS, and ``linear`` uses ACL. On x86 it is MKL, which does not use the full vector width of some
    CPUs, and a convolution uses oneDNN. int8 is left out where torch has no kernel but a loop of its own.
    """
    has_onednn, is_arm = torch.backends.mkldnn.is_available(), architecture == "aarch64"
    others = (["linear", "conv"] if is_arm else ["conv"]) if has_onednn else []
    integer = ["int_mm"] if has_onednn and not is_arm else []
    return {"fp32": ["mm", *others], "bf16": ["mm", *others], "int8": integer}


def _products(
    torch: ModuleType,
    precision: str,
    operator: str,
    sizes: Sequence[int],
    seconds: float,
    threads: int = 1,
    device: str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
) -> list[Gemm]:
    """Time one operator in one precision.

    Sizes increase until ``seconds`` are spent, so a slow precision is measured with small matrices only.
    """
    dtype = getattr(torch, PRECISIONS.get(precision, precision))
    measured: list[Gemm] = []
    left = seconds
    for index, size in enumerate(sizes):
        # At least two calls per block, at the speed of the previous size.
        if measured and 2 * size**3 / (measured[-1].gflops * 1e9) * 2 * BLOCKS > left:
            break
        product = _product(torch, operator, size, dtype, device)
        product()  # the first call loads or makes the kernel, on an accelerator for longer than all that is timed
        began = clock()
        median = _lowest_median(product, left / (len(sizes) - index), threads, clock)
        left -= clock() - began
        measured.append(Gemm(precision, threads, size, operator, 2 * size**3 / median / 1e9))
    return measured


def _product(torch: ModuleType, operator: str, size: int, dtype: object, device: str = "cpu") -> Callable[[], object]:
    """Return a call that multiplies two ``size`` × ``size`` matrices; ``size`` is a power of 2, at least 16."""
    if operator == "int_mm":
        left, right = (torch.randint(-128, 128, (size, size), dtype=dtype) for _ in range(2))
        return lambda: torch._int_mm(left, right)
    first, second = (torch.rand(size, size, device=device).to(dtype) for _ in range(2))
    if operator == "mm":
        result = torch.empty(size, size, dtype=dtype, device=device)
        return lambda: torch.mm(first, second, out=result)
    if operator == "linear":
        return lambda: torch.nn.functional.linear(first, second)
    height = 1 << (size.bit_length() - 1) // 2
    picture, weights = first.reshape(1, size, height, size // height), second[:, :, None, None]
    # With one thread, conv2d would choose another library for this shape than for other convolutions.
    return lambda: torch.mkldnn_convolution(picture, weights, None, [0, 0], [1, 1], [1, 1], 1)


def _copy(
    torch: ModuleType,
    size: int,
    seconds: float,
    threads: int = 1,
    device: str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
) -> Bandwidth:
    """Time a copy of ``size`` bytes, which are read and written."""
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    target = torch.zeros_like(source)
    median = _lowest_median(lambda: target.copy_(source), seconds, threads, clock)
    return Bandwidth(threads, size, 2 * size / median / 1e9)


def _lowest_median(call: Callable[[], object], seconds: float, threads: int, clock: Callable[[], float]) -> float:
    """Time ``call`` for about ``seconds`` in ``BLOCKS`` blocks, and return the lowest median of a block in seconds.

    A ceiling is what the machine reaches when nothing disturbs it. On an accelerator, whose ``clock`` waits for it,
    torch repeats the call between two readings until waiting does not count.
    """
    from torch.utils.benchmark import Timer

    timer = Timer("call()", globals={"call": call}, timer=clock, num_threads=threads)
    return min(float(timer.blocked_autorange(min_run_time=seconds / BLOCKS).median) for _ in range(BLOCKS))


def _buffer_bytes(machine: Machine) -> int:
    """Return a size that no cache holds: 4 × the last level, at least 256 MiB, at most 1/16 of the memory."""
    last_level = max((cache.bytes * cache.instances for cache in machine.caches), default=32 << 20)
    size = max(256 << 20, 4 * last_level)
    if machine.memory_limit is not None:
        size = min(size, machine.memory_limit // 16)
    return size // 4096 * 4096
