"""Throughput against latency: a mark for every configuration, and the frontier of those that no other one beats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from modelzoo.document import Column, theme
from modelzoo.formatting import MISSING, printable, seconds, significant
from modelzoo.records.bounds import LatencyBound
from modelzoo.records.run import Result
from modelzoo.report.plots import canvas
from modelzoo.report.plots.numbered import number_offsets, write_number
from modelzoo.report.plots.ticks import log_ticks
from modelzoo.results import throughput as results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEFT, _RIGHT, _TOP, _AREA, _AXIS = 58.0, 20.0, 26.0, 300.0, 44.0
_MARGIN = 1.15
"""The axes end this factor beyond the outermost marks."""


@dataclass(frozen=True)
class Mark:
    """One configuration.

    Attributes:
        name: of the configuration.
        latency: the median of a batch, or its percentile of the bound, in seconds.
        rate: items per second, with the ends of its interval; ``None`` without one.
        low: likewise.
        high: likewise.
        on_frontier: whether no other configuration has more throughput at the same or a lower latency.
        is_best: whether it is the one that is recommended.
        meets: whether the bound is met; ``None`` if it is not known or there is none.
    """

    name: str
    latency: float
    rate: float
    low: Optional[float]
    high: Optional[float]
    on_frontier: bool
    is_best: bool
    meets: Optional[bool]


@dataclass(frozen=True)
class Frontier:
    """What is drawn.

    Attributes:
        workload: the workload's name.
        unit: of the throughput, without "per second".
        marks: by ascending latency.
        bound: drawn as a line; ``None`` without one.
    """

    workload: str
    unit: str
    marks: tuple[Mark, ...]
    bound: Optional[LatencyBound] = None

    @property
    def latency_name(self) -> str:
        """Which latency is shown."""
        return "median" if self.bound is None else self.bound.name


def of_result(result: Result) -> Optional[Frontier]:
    """Return what is drawn of a result; ``None`` if no configuration was measured.

    With a bound, the latencies are its percentile if every configuration has enough samples for it, else medians.
    """
    found, rows = results.of(result), results.rows(result)
    known = [row for row in rows if row.throughput is not None and row.latency is not None]
    if not known:
        return None
    bound = found.bound if all(row.bounded is not None for row in known) else None
    latency = {row.index: (row.bounded if bound is not None else row.latency) or 0.0 for row in known}
    recommended = results.recommendation(result)
    marks, highest = [], 0.0
    for row in sorted(known, key=lambda row: (latency[row.index], -_rate(row))):
        finite = row.throughput is not None and math.isfinite(row.throughput.high)
        marks.append(
            Mark(
                name=row.configuration.name + (f", {row.setting}" if row.setting else ""),
                latency=latency[row.index],
                rate=_rate(row),
                low=row.throughput.low if finite and row.throughput is not None else None,
                high=row.throughput.high if finite and row.throughput is not None else None,
                on_frontier=_rate(row) > highest,
                is_best=recommended is not None and row.index == recommended.row.index,
                meets=row.meets,
            )
        )
        highest = max(highest, _rate(row))
    return Frontier(found.workload, found.unit, tuple(marks), bound)


def _rate(row: results.Row) -> float:
    return row.throughput.value if row.throughput is not None else 0.0


def write_file(result: Result, path: Path) -> Optional[Path]:
    """Write the plot of ``result`` as an SVG file; return ``None`` if no configuration was measured.

    Raises:
        OSError: the file cannot be written.
    """
    data = of_result(result)
    if data is None:
        return None
    return canvas.write_file(partial(_figure, data), path, _title(data), _description(data))


def columns(data: Frontier) -> list[Column]:
    """The marks as a table, with their numbers."""
    return [
        Column("", tuple(map(str, range(1, len(data.marks) + 1))), is_number=True),
        Column("configuration", tuple(mark.name for mark in data.marks)),
        Column(f"{data.latency_name} latency", tuple(seconds(mark.latency) for mark in data.marks), is_number=True),
        Column(f"{data.unit}/s", tuple(significant(mark.rate) for mark in data.marks), is_number=True),
        Column("frontier", tuple("yes" if mark.on_frontier else MISSING for mark in data.marks)),
    ]


def svg(data: Frontier, name: str, width: float = canvas.NARROW) -> str:
    """Draw the configurations as an element of a page."""
    with canvas.drawing():
        return canvas.element(_figure(data, width), name, _title(data), _description(data))


def _title(data: Frontier) -> str:
    return f"{data.workload}: throughput against latency"


def _description(data: Frontier) -> str:
    shown = "; ".join(
        f"{number} {mark.name}: {significant(mark.rate)} {data.unit}/s at {seconds(mark.latency)}"
        for number, mark in enumerate(data.marks, 1)
    )
    return (
        "One mark per configuration, numbered; a vertical bar is the 95 % interval over the rounds, and the line joins "
        f"those that no other one beats in both. {shown}"
    )


def _figure(data: Frontier, width: float) -> Figure:
    lines = [canvas.wrapped(_entry(number, mark), width - 30) for number, mark in enumerate(data.marks, 1)]
    dashed = [] if data.bound is None else [f"dashed line: {data.bound.text}"]
    legend = _TOP + _AREA + _AXIS
    figure = canvas.new_figure(width, legend + canvas.LINE * (sum(map(len, lines)) + len(dashed)) + 10)
    length = width - _LEFT - _RIGHT
    axes = canvas.new_axes(figure, _LEFT, _TOP, length, _AREA)
    factor, unit = canvas.time_unit([mark.latency for mark in data.marks])
    latencies = [factor * mark.latency for mark in data.marks]
    if data.bound is not None:
        latencies.append(factor * data.bound.seconds)
    left, right = min(latencies) / _MARGIN, max(latencies) * _MARGIN
    top = _MARGIN * max(mark.high or mark.rate for mark in data.marks)
    axes.set_xscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(0, top)
    canvas.set_ticks(axes.xaxis, log_ticks(left, right, length, 44))
    axes.grid(True)
    if data.bound is not None:
        axes.axvline(factor * data.bound.seconds, color=theme.VERMILLION, lw=1.5, ls=(0, (4, 3)), zorder=2)
    _draw_marks(axes, data, factor, (left, right, top), (length, _AREA))
    canvas.write(figure, 4, 13, f"{data.unit} per second", size=canvas.SMALL)
    title = f"{data.latency_name} latency of a batch in {unit} (log scale)"
    canvas.write(figure, width - _RIGHT, legend - 12, title, align="right", size=canvas.SMALL)
    y = legend + 12
    for each, mark in zip(lines, data.marks):
        for line in each:
            canvas.write(figure, 14, y, line, is_bold=mark.is_best)
            y += canvas.LINE
    for line in dashed:
        canvas.write(figure, 14, y, line, colour=theme.FAINT)
    return figure


def _entry(number: int, mark: Mark) -> str:
    met = "" if mark.meets is None else " (meets the bound)" if mark.meets else " (over the bound)"
    return printable(f"{number}: {mark.name}{met}")


def _draw_marks(
    axes: Axes, data: Frontier, factor: float, limits: tuple[float, float, float], size: tuple[float, float]
) -> None:
    left, right, top = limits
    front = [mark for mark in data.marks if mark.on_frontier]
    axes.plot(
        [factor * mark.latency for mark in front],
        [mark.rate for mark in front],
        color=theme.BLUE,
        lw=1.5,
        drawstyle="steps-post",
        zorder=3,
    )
    places = [
        (size[0] * math.log(factor * mark.latency / left) / math.log(right / left), size[1] * mark.rate / top)
        for mark in data.marks
    ]
    for number, (mark, offset) in enumerate(zip(data.marks, number_offsets(places)), 1):
        x, colour = factor * mark.latency, theme.BLUE if mark.on_frontier else theme.FAINT
        if mark.low is not None and mark.high is not None:
            axes.plot([x, x], [max(0.0, mark.low), mark.high], color=colour, lw=1.2, zorder=3)
        size_of_mark = 10 if mark.is_best else 7
        shape = "D" if mark.is_best else "o"
        axes.plot(x, mark.rate, marker=shape, color=colour, ms=size_of_mark, mec=theme.PAGE, zorder=4)
        write_number(axes, number, (x, mark.rate), offset)
