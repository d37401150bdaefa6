"""A configuration under full load for a long time: does its latency or its memory drift?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from time import monotonic
from typing import Callable

from modelzoo.frozen import replace
from modelzoo.measure.request import OnEvent
from modelzoo.records.instance import Window
from modelzoo.records.throughput import Soak, SoakPoint
from modelzoo.results.counting import Series, count
from modelzoo.stats import percentile
from modelzoo.throughput.round import Crew, Task

POINTS = 60
"""Stretches that a test is divided into …"""
SHORTEST = 5.0
"""… but none is shorter than this, in seconds. Between two of them the instances answer, which takes milliseconds."""


def soak(task: Task, seconds: float, on_event: OnEvent, on_point: Callable[[Soak], None]) -> Soak:
    """Keep all instances of a configuration busy for ``seconds``.

    Args:
        task: the configuration.
        seconds: how long.
        on_event: called with progress.
        on_point: called with the test so far, after each stretch.
    """
    found = Soak(task.index, seconds)
    with ExitStack() as stack:
        crew = Crew(task, on_event, stack)
        begun, stretch = monotonic(), max(SHORTEST, seconds / POINTS)
        while crew.is_whole and (left := begun + seconds - monotonic()) > 0:
            before = monotonic() - begun
            windows = crew.together(min(stretch, left), f"soak, {len(found.points)} of {round(seconds / stretch)}")
            if not crew.is_whole:
                break
            point = soak_point([windows[number] for number in sorted(windows)], before, monotonic() - begun)
            if point is not None:
                found = replace(found, points=(*found.points, point))
                on_point(found)
        if not crew.is_whole:
            found = replace(found, error=crew.problem() or "not all instances could be started")
            on_point(found)
    return found


def soak_point(windows: Sequence[Window], begun: float, ended: float) -> SoakPoint | None:
    """Return what the instances did in one stretch; ``None`` if it is too short for a counted window.

    Args:
        windows: of all instances.
        begun: when the stretch began, in seconds since the beginning of the test.
        ended: when it ended.
    """
    counted = count([Series(each.started, each.ended) for each in windows])
    if counted is None:
        return None
    latencies = [value for each in counted.latencies for value in each]
    memory = [each.memory for each in windows]
    known = [each for each in memory if each is not None]
    return SoakPoint(
        at=(begun + ended) / 2,
        seconds=counted.seconds,
        batches=sum(counted.counts),
        latency=median(latencies),
        tail=percentile(latencies, 99),
        memory=sum(known) if len(known) == len(memory) else None,
    )
