"""The reference load: a fixed computation whose speed follows that of the machine."""

from __future__ import annotations

from dataclasses import dataclass

from modelzoo import stats


@dataclass(frozen=True)
class ReferenceTurn:
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


@dataclass(frozen=True)
class LoadEvidence:
    """How the latency of a workload followed the reference load in earlier sessions on the machine.

    Attributes:
        workload: the workload's name.
        sessions: number of sessions.
        sums: over the processes of all of these sessions.
    """

    workload: str
    sessions: int
    sums: stats.Sums
