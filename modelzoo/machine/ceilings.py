"""The measured limits of this machine, kept in the cache directory: measuring them takes 20 seconds; the roofline."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from modelzoo.directories import cache_directory
from modelzoo.files import write_atomically
from modelzoo.machine.ceiling_benchmark import measure_ceilings
from modelzoo.machine.installation import import_torch, installed_version
from modelzoo.machine.libraries import supported_threads
from modelzoo.records.accelerator import Accelerator
from modelzoo.records.codec import decode, encode
from modelzoo.records.doctor import CeilingSeries
from modelzoo.records.machine import Machine, fingerprint
from modelzoo.records.profile import CEILINGS_VERSION, Bound, BoundBy, Ceilings


def find_ceilings(
    machine: Machine,
    threads: int | None = None,
    *,
    fresh: bool = False,
    progress: Callable[[CeilingSeries], None] = lambda series: None,
) -> tuple[Ceilings, bool]:
    """Return the machine's ceilings, and whether they were kept from an earlier measurement.

    Figures measured while other programs were busy are returned but not kept. A cache that cannot be written is not
    an error.

    Args:
        machine: this machine.
        threads: the largest number of threads, by default that of the machine.
        fresh: measure even if ceilings were kept.
        progress: called before each series.
    """
    kept = None if fresh else kept_ceilings(machine, threads)
    if kept is not None:
        return kept, True
    count = threads or machine.threads.count
    import_torch()
    measured = measure_ceilings(supported_threads(count), machine, progress=progress)
    if measured.quiet:
        write_ceilings(measured, ceilings_path(machine, _torch_version(), count))
    return measured, False


def kept_ceilings(machine: Machine, threads: int | None = None) -> Ceilings | None:
    """Return the ceilings that ``find_ceilings`` measured earlier for the installed torch, if there are any."""
    return read_ceilings(ceilings_path(machine, _torch_version(), threads or machine.threads.count))


def find_device_ceilings(
    machine: Machine,
    device: Accelerator,
    measure: Callable[[], Ceilings],
    *,
    fresh: bool = False,
) -> tuple[Ceilings, bool]:
    """Return an accelerator's ceilings, and whether they were kept from an earlier measurement.

    Args:
        machine: this machine.
        device: the accelerator.
        measure: measures them (``modelzoo.machine.ceiling_benchmark``).
        fresh: measure even if ceilings were kept.
    """
    kept = None if fresh else kept_device_ceilings(machine, device)
    if kept is not None:
        return kept, True
    measured = measure()
    write_ceilings(measured, device_ceilings_path(machine, device))
    return measured, False


def kept_device_ceilings(machine: Machine, device: Accelerator) -> Ceilings | None:
    """Return the ceilings that ``find_device_ceilings`` measured earlier for the installed torch, if there are any."""
    return read_ceilings(device_ceilings_path(machine, device))


def device_ceilings_path(machine: Machine, device: Accelerator) -> Path:
    """Return where the ceilings of an accelerator are kept: by its name and memory, and by the version of torch."""
    name = f"{device.name}-{(device.memory or 0) >> 30}GiB"
    safe = re.sub(r"[^A-Za-z0-9.-]", "_", f"{name}-torch{_torch_version()}")
    return cache_directory() / "ceilings" / f"{fingerprint(machine)}-{safe}.json"


def _torch_version() -> str:
    # The installed version, so that torch need not be imported.
    return installed_version("torch") or "none"


def ceilings_path(machine: Machine, torch_version: str, threads: int) -> Path:
    """Return where the ceilings for this machine, version of torch and number of threads are kept."""
    safe = "".join(c if c.isalnum() or c in ".-" else "_" for c in torch_version)
    return cache_directory() / "ceilings" / f"{fingerprint(machine)}-torch{safe}-{threads}.json"


def read_ceilings(path: Path) -> Ceilings | None:
    """Read kept ceilings; ``None`` if there are none, or if the file is damaged or of another version."""
    try:
        ceilings = decode(Ceilings, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    return ceilings if ceilings.version == CEILINGS_VERSION else None


def write_ceilings(ceilings: Ceilings, path: Path) -> bool:
    """Write ``ceilings`` to ``path``; return whether that succeeded."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(encode(ceilings), indent=1))
    except OSError:
        return False
    return True


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
