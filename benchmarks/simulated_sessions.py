"""Simulated sides of ``modelzoo compare`` whose truth is known, judged through the records of runs.

The log level of a session is the sum of what its day, the session and its processes contribute, all of them normal. All
rows of a table share the days and the sessions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache

import common  # noqa: F401 - puts the checkout on the path
import numpy as np
from numpy.typing import NDArray

from modelzoo.comparison.estimate import ratio
from modelzoo.frozen import replace
from modelzoo.records.run import Result, Run
from modelzoo.records.timing import LATENCY, Series, Timing
from modelzoo.results import store
from modelzoo.results.refusals import Metric, Pair, SideSetting
from modelzoo.stats import Ratio
from modelzoo.workload.discovery import CHECKOUT

Array = NDArray[np.float64]
TEMPLATE = CHECKOUT / "tests" / "data" / "results" / "mlp.json"
"""A stored result whose first process lends the simulated ones everything but their times."""
PROCESSES = 8
PROCESS, SESSION = 0.01, 0.01
"""Standard deviations between the processes of a session and between the sessions of a day: a block of sessions is
known to about 1 %."""
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Sides:
    """What is compared.

    Attributes:
        sessions: of the baseline, and of the other side.
        day: standard deviation between days.
        apart: whether each session of a side is of another day; otherwise one call runs them, ten minutes apart.
        rows: of the table.
        slower: the true time of the other side over that of the baseline.
    """

    sessions: tuple[int, int] = (3, 3)
    day: float = 0.03
    apart: bool = False
    rows: int = 1
    slower: float = 1.0

    @property
    def ideal_error(self) -> float:
        """The standard error of the log ratio, for who knows all variances."""
        within = SESSION**2 + PROCESS**2 / PROCESSES
        return math.sqrt(sum(self.day**2 / (each if self.apart else 1) + within / each for each in self.sessions))


@cache
def template() -> Run:
    """The run that lends the simulated ones everything but their times."""
    return next(run for run in store.read(TEMPLATE).runs if run.report is not None)


def timed(seconds: float) -> Run:
    """A run of one sample."""
    run = template()
    assert run.report is not None
    series = Series(LATENCY, (seconds,))
    timing = Timing(1.0, (), (series,), LATENCY, "settled", "iterations")
    return replace(run, report=replace(run.report, timing=timing))


def tables(generator: np.random.Generator, sides: Sides, count: int) -> Iterator[list[Ratio]]:
    """The ratios of the rows of ``count`` tables, as the suite makes them of measured ones."""
    for _ in range(count):
        base, other = (_levels(generator, sides, number) for number in sides.sessions)
        other = other + math.log(sides.slower)
        rows = []
        for row in range(sides.rows):
            found = ratio(Pair(_side(base[row], sides, 0), _side(other[row], sides, 1)), Metric.LATENCY)
            assert isinstance(found, Ratio)
            rows.append(found)
        yield rows


def _levels(generator: np.random.Generator, sides: Sides, count: int) -> Array:
    """Log times of a side of ``count`` sessions, of shape rows × sessions × processes."""
    days = sides.day * generator.standard_normal((1, count if sides.apart else 1, 1))
    sessions = SESSION * generator.standard_normal((1, count, 1))
    processes = PROCESS * generator.standard_normal((sides.rows, count, PROCESSES))
    return np.asarray(days + sessions + processes)


def _side(levels: Array, sides: Sides, number: int) -> SideSetting:
    runs = tuple(tuple(map(timed, session)) for session in np.exp(levels).tolist())
    pause = timedelta(days=1) if sides.apart else timedelta(minutes=10)
    first = START + timedelta(days=100 * (1 + number))
    created = [(first + index * pause).isoformat() for index in range(len(runs))]
    results = tuple(Result((), begun, runs=each) for begun, each in zip(created, runs))
    return SideSetting(template().workload, template().requested, "", runs, results, (0,) * len(runs))
