"""Repeat a whole call as sessions, some time apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modelzoo.records.run import now
from modelzoo.records.session import Session
from modelzoo.setting import Sessions

if TYPE_CHECKING:
    from rich.console import Console


def in_turn(asked: Sessions, out: Console) -> Iterator[Session]:
    """Yield each session when it is due, ``asked.every`` seconds after the one before began."""
    series, began = now(), time.monotonic()
    for index in range(asked.count):
        due = began + index * asked.every
        wait = due - time.monotonic()
        if index and wait > 0:
            out.print(f"session {index + 1} of {asked.count} begins in {wait / 60:.0f} min", soft_wrap=True)
            time.sleep(wait)
        yield Session(series, index + 1, asked.count)
