"""One of several sessions: repetitions of a whole call, some time apart."""

from __future__ import annotations

import msgspec


class Session(msgspec.Struct, frozen=True):
    """Which session of a call a result is.

    Attributes:
        series: when the call began; the same for all of its sessions. UTC, ISO 8601.
        number: number of the session, from 1.
        count: number of sessions that were asked for.
    """

    series: str
    number: int = 1
    count: int = 1
