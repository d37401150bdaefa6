"""What a soak test shows, for people: its stretches, and whether anything drifts. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from modelzoo.document import Column
from modelzoo.formatting import MISSING, capitalized, duration, seconds, significant
from modelzoo.records.throughput import Soak, SoakPoint
from modelzoo.stats.trend import Trend, linear_trend

_UNBOUNDED = 1e6
"""Per cent or megabytes per hour that no test could show."""
HOUR = 3600.0
_WHOLE = 0.9
"""A soak test that lasted less than this share of its time was interrupted; the ends of its stretches take the rest."""


def columns(soak: Soak) -> list[Column]:
    """The stretches of a soak test as a table, at most 12 of them."""
    step = max(1, math.ceil(len(soak.points) / 12))
    points = soak.points[::step]
    return [
        Column("after", tuple(duration(point.at) for point in points), True),
        Column("batches/s", tuple(significant(point.batches / point.seconds, 3) for point in points), True),
        Column("p50", tuple(seconds(point.latency, 3) for point in points), True),
        Column("p99", tuple(seconds(point.tail, 3) for point in points), True),
        Column("memory", tuple(_gigabytes(point.memory) for point in points), True),
    ]


def _gigabytes(value: Optional[int]) -> str:
    return MISSING if value is None else f"{value / 1e9:.3f} GB"


def lines(soak: Soak) -> list[str]:
    """Whether latency, throughput and memory drift, each with its trend and the 95 % interval.

    The trend is per hour, or over the whole test if that was shorter: a longer one is not foretold.
    """
    points = soak.points
    lasted = points[-1].at + points[-1].seconds / 2 if points else 0.0
    is_short = lasted < _WHOLE * soak.planned
    said = []
    if soak.error:
        said.append(f"The soak test ended early: {soak.error}")
    elif not points:
        said.append("Nothing could be counted in the soak test; make --soak longer.")
    elif is_short:
        said.append(f"The soak test was interrupted after {duration(lasted)} of {duration(soak.planned)}.")
    return [*said, *(_trend_lines(points, lasted if is_short else soak.planned) if points else [])]


def _trend_lines(points: Sequence[SoakPoint], lasted: float) -> list[str]:
    unit, per = (HOUR, "per hour") if lasted >= HOUR else (lasted, f"in {duration(lasted)}")
    times = [point.at / unit for point in points]
    latency = linear_trend(times, [math.log(point.latency) for point in points])
    speed = linear_trend(times, [math.log(max(1, point.batches) / point.seconds) for point in points])
    memory = [point.memory for point in points if point.memory is not None]
    size = linear_trend(times, [each / 1e6 for each in memory]) if len(memory) == len(points) else None
    if latency is None or speed is None:
        return [f"{len(points)} stretches are too few for a trend; make --soak longer."]
    said = [
        _percent_line("median latency", latency, per),
        _percent_line("throughput", speed, per),
    ]
    if size is not None:
        bounds = f"{size.slope:+.1f} MB {per} [{_end(size.low, 1)}, {_end(size.high, 1)}]"
        said.append(_line("memory of all instances", size, bounds))
    return said


def _percent_line(name: str, found: Trend, per: str) -> str:
    """``found`` is of logarithms."""
    slope, low, high = (100 * math.expm1(max(-50.0, min(50.0, each))) for each in (found.slope, found.low, found.high))
    return _line(name, found, f"{slope:+.2f} % {per} [{_end(low, 2)}, {_end(high, 2)}]")


def _line(name: str, found: Trend, bounds: str) -> str:
    if math.isinf(found.low):
        return f"{capitalized(name)}: too few independent stretches to tell a drift; make --soak longer."
    return f"{capitalized(name)}: {'drifts' if found.is_proven else 'no significant drift'}, {bounds}."


def _end(value: float, decimals: int) -> str:
    """An end of an interval; one that says nothing is unbounded."""
    return f"{value:+.{decimals}f}" if abs(value) < _UNBOUNDED else "+∞" if value > 0 else "-∞"
