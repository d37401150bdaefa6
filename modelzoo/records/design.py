"""How the processes of a workload were planned: what the verdicts of a result depend on besides its samples."""

from __future__ import annotations

from enum import Enum
from typing import Optional

import msgspec


class StopReason(str, Enum):
    """Why no more rounds of a workload were run.

    ``FIXED``: the number of processes was given, or fixed in advance because the processes are expensive, or it is 1
    because an emulator runs them.
    ``PRECISE``: the intervals are narrow enough and every comparison is decided. ``BUDGET``: the time was used up.
    ``FAILED``: no setting could run. ``INTERRUPTED``: by the user, or by an error.
    """

    FIXED = "fixed"
    PRECISE = "precise"
    BUDGET = "budget"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    def __str__(self) -> str:
        return self.value


class Design(msgspec.Struct, frozen=True):
    """The plan of one workload's rounds, and how it ended.

    Attributes:
        workload: the workload's name.
        margin: half width of the 95 % interval that was wanted, relative to the latency.
        budget: seconds that the call had for all of its workloads; ``None``: no limit.
        processes: number of processes per setting if it was fixed before any was timed; ``None`` if the data decided.
        looks: numbers of rounds at which a verdict may be concluded, in ascending order.
        maximum: number of rounds that the budget was expected to allow when the looks were planned.
        seconds: how long each process sampled, by round.
        stop_reason: why no more rounds were run; ``None`` while they run.
    """

    workload: str
    margin: float
    budget: Optional[float] = None
    processes: Optional[int] = None
    looks: tuple[int, ...] = ()
    maximum: Optional[int] = None
    seconds: tuple[float, ...] = ()
    stop_reason: Optional[StopReason] = None
