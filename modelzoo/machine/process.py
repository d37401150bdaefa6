"""What this process runs with: its memory allocator and the environment variables that change speed."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from pathlib import Path

PREFIXES = (
    "OMP_",
    "KMP_",
    "GOMP_",
    "MKL_",
    "OPENBLAS_",
    "GOTO_",
    "BLIS_",
    "NVPL_",
    "DNNL_",
    "ONEDNN_",
    "MKLDNN_",
    "ARM_COMPUTE_",
    "ATEN_",
    "TORCH",
    "PYTORCH_",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "LD_BIND_NOW",
    "THP_MEM_ALLOC_ENABLE",
    "LRU_CACHE_CAPACITY",
    "MODELZOO_",
    "QEMU_",
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)KEY($|_)", re.IGNORECASE)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that change speed or precision, without secrets; the home directory is ``~``."""
    home = environ.get("HOME", "")
    found = {}
    for name in sorted(environ):
        if not name.startswith(PREFIXES):
            continue
        value = "(hidden)" if _SECRET.search(name) else environ[name]
        found[name] = value.replace(home, "~") if len(home) > 1 else value
    return found


_ALLOCATORS = ("tcmalloc", "jemalloc", "mimalloc", "snmalloc", "libhoard", "tbbmalloc_proxy")


def allocator(maps: str, address: int | None = None) -> str | None:
    """Name the ``malloc`` in use from the text of ``/proc/self/maps``.

    ``address`` is where the process's global ``malloc`` lies and decides: a library that is only
    mapped need not have replaced it. Without it the first mapped replacement counts.
    """
    files: list[str] = []
    for line in maps.splitlines():
        words = line.split(maxsplit=5)
        if len(words) < 6 or not words[5].startswith("/"):
            continue
        if address is not None:
            start, _, end = words[0].partition("-")
            if int(start, 16) <= address < int(end, 16):
                files = [words[5]]
                break
        files.append(words[5])
    names = [Path(file).name for file in files]
    for name in names:
        known = next((word for word in _ALLOCATORS if word in name), None)
        if known:
            return known
    if any(re.match(r"libc(\.so\.6|-[\d.]+\.so)$", name) for name in names):
        return "glibc"
    if any("musl" in name for name in names):
        return "musl"
    return None


def malloc_address() -> int | None:
    """Return where this process's global ``malloc`` lies; ``None`` where that cannot be asked."""
    try:
        return ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):
        return None
