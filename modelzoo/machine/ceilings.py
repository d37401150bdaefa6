"""The measured limits of this machine, kept in the cache directory: measuring them takes 20 seconds; the roofline."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from modelzoo.directories import cache_directory
from modelzoo.files import write_atomically
from modelzoo.machine.installation import installed_version
from modelzoo.records.codec import encode_json
from modelzoo.records.equipment import Accelerator
from modelzoo.records.machine import Machine, fingerprint
from modelzoo.records.profile import CEILINGS_VERSION, Bound, BoundBy, Ceilings


def find_ceilings(
    machine: Machine, measure: Callable[[], Ceilings], device: Accelerator | None = None, *, fresh: bool = False
) -> tuple[Ceilings, bool]:
    """Return the ceilings of the machine, or of its ``device``, and whether they were kept from an earlier measurement.

    Figures measured while other programs were busy are returned but not kept. A cache that cannot be written is not
    an error.

    Args:
        machine: this machine.
        measure: measures them (``modelzoo.machine.ceiling_benchmark``).
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
