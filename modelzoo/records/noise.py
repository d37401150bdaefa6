"""How unsteady a machine is, by the sessions that are kept of it."""

from __future__ import annotations

from typing import Optional

import msgspec


class WorkloadNoise(msgspec.Struct, frozen=True):
    """The noise of one workload, all of its settings together. Standard deviations are fractions of the latency.

    Attributes:
        workload: the workload's name.
        sessions: number of sessions that this comes from.
        between_processes: standard deviation between processes, however long they sample.
        within_process: standard deviation between stretches of one second of a process.
        between_sessions: standard deviation between the levels of sessions that ran the same work; ``None`` if no
            work was repeated on at least 3 days.
        repeated: number of sessions, each on another day, that ``between_sessions`` comes from.
        detectable: smallest difference between two settings that 5 minutes of alternating rounds are expected to show,
            as a fraction; ``None`` if no two settings were compared, or if 5 minutes show none.
    """

    workload: str
    sessions: int
    between_processes: float
    within_process: float
    between_sessions: Optional[float] = None
    repeated: int = 0
    detectable: Optional[float] = None


class MachineNoise(msgspec.Struct, frozen=True):
    """What the sessions that are kept of a machine say about its noise.

    Attributes:
        sessions: their number.
        first: when the oldest began; UTC, ISO 8601.
        last: when the newest began.
        reference_spread: standard deviation of the reference load's time between sessions, as a fraction; ``None`` if
            it ran in fewer than 3.
        workloads: sorted by name.
    """

    sessions: int
    first: str
    last: str
    reference_spread: Optional[float]
    workloads: tuple[WorkloadNoise, ...]
