"""Keep the cache of exported models below a size: those that were used longest ago are removed."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LIMIT = 16 << 30
"""Bytes that exports may take: some thirty of BERT-base, or a hundred of ResNet50."""
PROTECTED_SECONDS = 24 * 3600.0
"""An export that was used within this time stays, whatever the size: a call, of this or another process, may still use
it. The same holds for the directory of an export that is being written."""


@dataclass(frozen=True)
class _Entry:
    path: Path
    used: float
    size: int


def mark_used(file: Path) -> None:
    """Note that the export to which ``file`` belongs is used now, as the time at which that file was last read."""
    with suppress(OSError):  # a cache that can only be read is not pruned either
        # File systems are often mounted so that reading does not change it.
        os.utime(file, (time.time(), file.stat().st_mtime))


def prune(exports: Path, stamp: str, limit: int = LIMIT) -> list[Path]:
    """Remove the exports that were used longest ago, until all of them take at most ``limit`` bytes.

    Those used within ``PROTECTED_SECONDS`` stay. What cannot be removed stays too.

    Args:
        exports: the directory that holds them.
        stamp: name of the file that ``mark_used`` was given; an export that is not finished has none.
        limit: in bytes.

    Returns:
        What was removed.
    """
    found = [_entry(path, stamp) for path in exports.iterdir() if path.is_dir()]
    excess, now, removed = sum(each.size for each in found) - limit, time.time(), []
    for each in sorted(found, key=lambda each: each.used):
        if excess <= 0 or now - each.used < PROTECTED_SECONDS:
            break
        if _remove(each.path):
            removed.append(each.path)
            excess -= each.size
    return removed


def _entry(path: Path, stamp: str) -> _Entry:
    used, size = 0.0, 0
    for place, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # removed by another process
                size += (Path(place) / name).stat().st_size
    with suppress(OSError):  # the time at which a directory was last read is now
        used = path.stat().st_mtime
        found = (path / stamp).stat()
        used = max(found.st_atime, found.st_mtime)
    return _Entry(path, used, size)


def _remove(path: Path) -> bool:
    """Rename the directory first, so that no process finds half an export."""
    doomed = path.with_name(f".{path.name.lstrip('.')}-{secrets.token_hex(4)}.tmp")
    try:
        path.rename(doomed)
    except OSError:
        return False
    shutil.rmtree(doomed, ignore_errors=True)
    return True
