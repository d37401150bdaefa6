"""A search for the fastest setting: what was asked for, and what could not be tried."""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Argument, Message, Public, Word
from modelzoo.records.race import Race

PRIMITIVES = 1024
"""oneDNN keeps so many primitives unless it is told otherwise (source: its developer guide, "Primitive Cache")."""


class Goal(Word):
    """What is to be fast: one forward batch of the given size, or the items of batches of any size."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"


class Obstacle(Word):
    """Why the grid does not contain something on this machine. ``FIXED``: the call says another value."""

    UNAVAILABLE = "unavailable"
    NOT_INSTALLED = "not installed"
    NO_BF16 = "no bf16 instructions"
    NO_DATA = "no data to judge with"
    ONE_CORE = "one core"
    ONE_HARDWARE_THREAD = "one hardware thread"
    QUOTA = "quota"
    FIXED = "fixed"


class LeftOut(msgspec.Struct, frozen=True):
    """Something that the grid does not contain on this machine.

    Attributes:
        field: of ``Setting``.
        value: in the notation of ``--vary``; ``None``: all values.
        obstacle: why not.
        problem: the error, if it is unavailable.
    """

    field: Public
    value: Argument | None
    obstacle: Obstacle
    problem: Message | None = None


class Tuning(Race, frozen=True, tag="tuning"):
    """A search, as far as it has come.

    Attributes:
        workload: the workload's name.
        goal: what is to be fast.
        budget: seconds of wall time.
        candidates: number of settings of the grid, the default included: the first ones of ``Result.requested``.
        left_out: what the grid does not contain on this machine.
        allow_unjudged: whether a bf16 setting may win although its predictions were not judged.
        varied: the values of ``--vary``, if they replaced the grid.
        spent: seconds of wall time so far.
    """

    workload: Public
    goal: Goal
    budget: float
    candidates: int
    left_out: tuple[LeftOut, ...] = ()
    allow_unjudged: bool = False
    varied: tuple[Argument, ...] = ()
    spent: float = 0.0

    @property
    def entrants(self) -> range:
        """The candidates, without the default."""
        return range(1, self.candidates)
