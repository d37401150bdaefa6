"""What was timed in one process: named series of samples, and why the warm-up and the sampling ended."""

from __future__ import annotations

from enum import Enum
from typing import Optional

import msgspec

LATENCY, ISSUE, DEVICE = "latency", "issue", "device"
"""Names of the series that a clock records; see ``modelzoo.measure.clock``."""
SECONDS = "s"
"""Unit of a series of times."""


class Role(str, Enum):
    """What the values of a series stand for.

    ``LATENCY`` is the time from the start of a call to its result. ``ISSUE`` is the time in which the host issued
    the work to an accelerator, and is never a latency. ``DEVICE`` is the time between two device events around the
    work. ``STAGE`` is one part of each call, ``REQUEST`` the time that a request took under load, and ``INTERVAL`` the
    time from one result to the next while several calls are in flight.
    """

    LATENCY = "latency"
    ISSUE = "issue"
    DEVICE = "device"
    STAGE = "stage"
    REQUEST = "request"
    INTERVAL = "interval"

    def __str__(self) -> str:
        return self.value


class WarmUpEnd(str, Enum):
    """Why the warm-up ended.

    ``SETTLED``: timings had stabilised. ``CAP``: the time limit of the warm-up was reached while timings still
    changed. ``FEW``: the limit was reached after too few calls to judge. ``FIXED``: the number of calls was given.
    """

    SETTLED = "settled"
    CAP = "cap"
    FEW = "few"
    FIXED = "fixed"

    def __str__(self) -> str:
        return self.value


class SamplingStop(str, Enum):
    """Why sampling stopped: the interval was narrow enough, the time was up, or all iterations were done."""

    INTERVAL = "interval"
    TIME_LIMIT = "time limit"
    ITERATIONS = "iterations"

    def __str__(self) -> str:
        return self.value


class Series(msgspec.Struct, frozen=True):
    """Raw samples of one quantity, in the order in which they were taken; outliers are kept.

    Attributes:
        name: unique within a run, for example ``latency`` or a stage's name.
        unit: unit of the values, ``s`` for seconds.
        role: what the values stand for.
        values: one value per call (``REQUEST``: per request).
    """

    name: str
    unit: str
    role: Role
    values: tuple[float, ...]


class Timing(msgspec.Struct, frozen=True):
    """Everything that was timed in one process.

    Attributes:
        cold_start: latency of the very first call, in seconds.
        warmup: the watched quantity of each warm-up call, in order.
        series: what was recorded after the warm-up, at least the watched series.
        watched: name of the series that the warm-up follows.
        warmup_end: why the warm-up ended.
        stop: why sampling stopped.
    """

    cold_start: float
    warmup: tuple[float, ...]
    series: tuple[Series, ...]
    watched: str
    warmup_end: WarmUpEnd
    stop: SamplingStop

    @property
    def steady(self) -> tuple[float, ...]:
        """Steady-state samples of the watched series."""
        return self.values(self.watched)

    def find(self, name: str) -> Optional[Series]:
        """The series called ``name``, or ``None`` if this run recorded no such series."""
        return next((each for each in self.series if each.name == name), None)

    def values(self, name: str) -> tuple[float, ...]:
        """The values of the series called ``name``; empty if this run recorded no such series."""
        found = self.find(name)
        return found.values if found else ()
