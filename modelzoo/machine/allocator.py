"""Which memory allocator this process uses."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

_REPLACEMENTS = ("tcmalloc", "jemalloc", "mimalloc", "snmalloc", "libhoard", "tbbmalloc_proxy")


def identify_allocator(maps: str, address: int | None = None) -> str | None:
    """Return the name of the ``malloc`` in use, or ``None`` if it is unknown.

    Args:
        maps: the text of ``/proc/self/maps``.
        address: of the process's global ``malloc``. It decides, because a mapped library need not have replaced
            ``malloc``. Without it, the first mapped replacement counts.
    """
    names = _mapped_files(maps, address)
    for name in names:
        replacement = next((known for known in _REPLACEMENTS if known in name), None)
        if replacement:
            return replacement
    if any(re.match(r"libc(\.so\.6|-[\d.]+\.so)$", name) for name in names):
        return "glibc"
    if any("musl" in name for name in names):
        return "musl"
    return None


def malloc_address() -> int | None:
    """Return the address of this process's global ``malloc``, or ``None`` if it cannot be determined."""
    try:
        return ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    except (AttributeError, OSError, TypeError):
        return None


def _mapped_files(maps: str, address: int | None) -> list[str]:
    """Return the name of the file mapped at ``address``; if there is none, those of all mapped files."""
    names: list[str] = []
    for line in maps.splitlines():
        words = line.split(maxsplit=5)
        if len(words) < 6 or not words[5].startswith("/"):
            continue
        name = Path(words[5]).name
        first, _, end = words[0].partition("-")
        if address is not None and int(first, 16) <= address < int(end, 16):
            return [name]
        names.append(name)
    return names
