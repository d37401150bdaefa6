"""How long and how often a call measures, and what is to be fast."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from modelzoo.errors import UsageError
from modelzoo.frozen import Word
from modelzoo.option import Option, duration, fraction

MARGIN = 0.05
"""Default of ``--margin``."""


class Goal(Word):
    """What is to be fast: one forward batch of the given size, or the items of batches of any size."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"


class Plan(msgspec.Struct, frozen=True):
    """How long to measure in one process.

    Attributes:
        warmup: number of warm-up calls; ``None``: until timings stabilize.
        iterations: number of samples; ``None``: as many as ``max_seconds`` allow.
        max_seconds: wall-clock seconds of sampling in one process; ``None``: follows from what is measured.
    """

    warmup: Annotated[int | None, Option("warm-up iterations (default: until timings stabilize)", "N")] = None
    iterations: Annotated[int | None, Option("steady-state samples per process (default: see --max-seconds)", "N")] = (
        None
    )
    max_seconds: Annotated[
        float | None,
        Option(
            "steady-state sampling per process (default: chosen from how much samples and processes differ)", "SECONDS"
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.warmup is not None and self.warmup < 0:
            raise UsageError(f"--warmup must be 0 or more, not {self.warmup}")
        if self.iterations is not None and self.iterations < 1:
            raise UsageError(f"--iterations must be 1 or more, not {self.iterations}")
        if self.max_seconds is not None and not 0 < self.max_seconds < math.inf:
            raise UsageError(f"--max-seconds must be a number over 0, not {self.max_seconds:g}")


class Effort(msgspec.Struct, frozen=True):
    """How many processes may be spent, and on what precision.

    Attributes:
        processes: number of processes per setting; ``None``: follows from what is measured.
        margin: half width of the 95 % interval at which a setting is measured well enough, as a fraction.
        budget: wall-clock seconds for the whole call; ``None``: no limit.
    """

    processes: Annotated[
        int | None, Option("fresh processes per setting (default: as many as --margin requires)", "N")
    ] = None
    margin: Annotated[
        float,
        Option(
            f"stop when the 95 %% interval of each time is within ± this: 5%% or 0.05 (default {MARGIN:.0%}%)",
            "M",
            fraction,
        ),
    ] = MARGIN
    budget: Annotated[
        float | None, Option("take at most this long, accuracy checks included: 90s, 10m, 2h", "TIME", duration)
    ] = None

    def __post_init__(self) -> None:
        if self.processes is not None and self.processes < 1:
            raise UsageError(f"--processes must be 1 or more, not {self.processes}")
        if not 0 < self.margin < 1:
            given = f"{100 * self.margin:g} %"
            raise UsageError(f"--margin must be over 0 % and under 100 %, not {given}; write 5% or 0.05")
        if self.budget is not None and not 0 < self.budget < math.inf:
            raise UsageError(f"--budget must be over 0, not {self.budget:g} s")
