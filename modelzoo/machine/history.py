"""The sessions on this machine, kept beside its ceilings: one line of JSON per setting and session.

They say how fast this machine is in the long run, how much its processes and its sessions differ, and what a process
costs. Old lines are dropped when there are more than ``KEPT``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Optional

import msgspec

from modelzoo.files import write_atomically
from modelzoo.machine.directories import cache_directory
from modelzoo.machine.fingerprint import fingerprint
from modelzoo.records.codec import encode_json
from modelzoo.records.history import HISTORY_VERSION, SessionLevel
from modelzoo.records.machine import Machine

KEPT = 2000


def history_path(machine: Machine) -> Path:
    """Return where the sessions of this machine are kept."""
    return cache_directory() / "history" / f"{fingerprint(machine)}.jsonl"


def read_history(path: Path) -> tuple[SessionLevel, ...]:
    """Read what is kept, oldest first; lines that are damaged or of another version are left out."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return ()
    found = []
    for line in lines:
        try:
            level = msgspec.json.decode(line, type=SessionLevel)
        except msgspec.MsgspecError:
            continue
        if level.version == HISTORY_VERSION:
            found.append(level)
    return tuple(found)


def add_to_history(levels: Sequence[SessionLevel], path: Path) -> bool:
    """Append ``levels``; return whether that succeeded. A cache that cannot be written is not an error."""
    if not levels:
        return True
    lines = [encode_json(level).decode() for level in (*read_history(path), *levels)][-KEPT:]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, "\n".join(lines) + "\n")
    except OSError:
        return False
    return True


def reference_speed(levels: Sequence[SessionLevel], version: int, threads: int) -> Optional[float]:
    """Return the long-run time of the reference load: the median of the sessions' medians; ``None`` without any.

    Args:
        levels: what is kept.
        version: only this version of the load counts.
        threads: likewise.
    """
    by_session = {
        level.created: level.reference
        for level in levels
        if level.reference is not None and level.reference_version == version and level.threads == threads
    }
    return median(by_session.values()) if by_session else None
