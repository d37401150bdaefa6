"""The reference load: a fixed computation whose speed follows that of the machine."""

from __future__ import annotations

import msgspec

from modelzoo import stats


class ReferenceTurn(msgspec.Struct, frozen=True):
    """One turn of the reference load, between the turns of the workers.

    Attributes:
        start: seconds since the Unix epoch, by the clock of the workers' turns.
        end: likewise.
        seconds: median seconds of one pass of the load.
        version: version of the load; only turns of one version can be compared.
    """

    start: float
    end: float
    seconds: float
    version: int


class LoadEvidence(msgspec.Struct, frozen=True):
    """How the latency of a workload followed the reference load in earlier sessions on the machine.

    Attributes:
        workload: the workload's name.
        sessions: number of sessions.
        sums: over the processes of all of these sessions.
    """

    workload: str
    sessions: int
    sums: stats.Sums
