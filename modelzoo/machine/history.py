"""The sessions on this machine, kept beside its ceilings: one line of JSON per setting and session.

They say how fast this machine is in the long run, how much its processes and its sessions differ, and what a process
costs. The oldest lines are dropped when there are more than ``KEPT``.
"""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from statistics import median
from typing import Optional

import msgspec

from modelzoo.files import write_atomically
from modelzoo.machine.directories import cache_directory
from modelzoo.machine.installation import installed_version
from modelzoo.records.codec import encode_json
from modelzoo.records.history import HISTORY_VERSION, SessionLevel
from modelzoo.records.machine import Machine, fingerprint
from modelzoo.records.timing import LoadEvidence
from modelzoo.stats import Sums

KEPT = 2000
"""Lines of about 400 bytes: under a megabyte, and 250 sessions of eight settings."""


def history_path(machine: Machine) -> Path:
    """Return where the sessions of this machine are kept."""
    return cache_directory() / "history" / f"{fingerprint(machine)}.jsonl"


def read_history(path: Path) -> tuple[SessionLevel, ...]:
    """Read what is kept, oldest first; lines that are damaged or of another version are left out."""
    found = (_parsed(line) for line in _lines(path))
    return tuple(level for level in found if level is not None)


def add_to_history(levels: Sequence[SessionLevel], path: Path) -> bool:
    """Append ``levels``; return whether that succeeded. A cache that cannot be written is not an error.

    Lines of other versions stay as they are, for the suites that can read them. Calls that end at once wait for each
    other.
    """
    if not levels:
        return True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another file than ``path``, which is replaced.
        with path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lines = [*_lines(path), *map(encode_json, levels)][-KEPT:]
            write_atomically(path, b"\n".join(lines) + b"\n")
    except OSError:
        return False
    return True


def reference_name(version: int, threads: int) -> str:
    """Return what identifies the reference load: its version, its threads, and numpy, whose BLAS it runs."""
    return f"version {version}, threads {threads}, numpy {installed_version('numpy')}"


def reference_speed(levels: Sequence[SessionLevel], load: str) -> Optional[float]:
    """Return the long-run time of the reference load: the median of the sessions' times; ``None`` without any.

    Args:
        levels: what is kept.
        load: only times of this load count, see ``SessionLevel.reference_load``.
    """
    by_session: dict[str, list[float]] = {}
    for level in levels:
        if level.reference is not None and level.reference_load == load:
            by_session.setdefault(level.created, []).append(level.reference)
    return median(map(median, by_session.values())) if by_session else None


def load_evidence(levels: Sequence[SessionLevel], load: str, workloads: Sequence[str]) -> tuple[LoadEvidence, ...]:
    """Return how each of these workloads followed the reference load; those that are not known are left out.

    Args:
        levels: what is kept.
        load: only sessions with this load count, see ``SessionLevel.reference_load``.
        workloads: their names.
    """
    found = []
    for workload in dict.fromkeys(workloads):
        same = [level for level in levels if (level.workload, level.reference_load) == (workload, load)]
        known = [(level.created, level.sums) for level in same if level.sums is not None]
        if known:
            sums = reduce(Sums.plus, (each for _, each in known))
            found.append(LoadEvidence(workload, len({created for created, _ in known}), sums))
    return tuple(found)


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError:
        return []


def _parsed(line: bytes) -> Optional[SessionLevel]:
    try:
        level = msgspec.json.decode(line, type=SessionLevel)
    except (msgspec.MsgspecError, ValueError):  # ValueError: it is not UTF-8
        return None
    is_known = level.version == HISTORY_VERSION
    return level if is_known and level.level > 0 and (level.sums is None or level.sums.is_possible) else None
