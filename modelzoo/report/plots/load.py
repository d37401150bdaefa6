"""Latency against the rate of requests: the runs of a search, the bound, and the rate that was found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from modelzoo.document import Column, theme
from modelzoo.formatting import MISSING, rounded_down, seconds, significant
from modelzoo.records.bounds import LatencyBound
from modelzoo.records.run import Result
from modelzoo.report.plots import canvas
from modelzoo.report.plots.ticks import log_ticks
from modelzoo.results import load as results
from modelzoo.stats import percentile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEFT, _RIGHT, _TOP, _AREA, _AXIS = 58.0, 20.0, 26.0, 300.0, 44.0
_MARGIN = 1.15
"""The axes end this factor beyond the outermost marks."""


@dataclass(frozen=True)
class LoadPoint:
    """One run.

    Attributes:
        rate: requests per second of its schedule.
        median: of the latencies, in seconds.
        tail: the percentile of the bound; ``None`` if the run is too short for it.
        is_valid: the verdict.
        given_up: whether it ended early, so that its latencies are those of its beginning.
    """

    rate: float
    median: float
    tail: Optional[float]
    is_valid: bool
    given_up: bool


@dataclass(frozen=True)
class LoadCurve:
    """What is drawn.

    Attributes:
        workload: the workload's name.
        percent: the percentile that ``LoadPoint.tail`` is.
        points: by ascending rate, of all repeats.
        bound: ``None`` without one.
        found: the rate that every repeat sustained, and the ends of the level's interval; ``None``: none was found.
    """

    workload: str
    percent: float
    points: tuple[LoadPoint, ...]
    bound: Optional[LatencyBound] = None
    found: Optional[tuple[float, float, float]] = None

    @property
    def tail_name(self) -> str:
        """The percentile as tables name it: ``p99``."""
        return f"p{self.percent:g}"


def of_result(result: Result) -> Optional[LoadCurve]:
    """Return what is drawn of a search; ``None`` unless there are runs at two rates or more."""
    load = results.of(result)
    percent = results.shown_percent(load)
    points = [
        LoadPoint(
            rate=run.rate,
            median=middle,
            tail=percentile(run.latencies, percent),
            is_valid=run.is_valid,
            given_up=run.given_up,
        )
        for run in load.runs
        if run.rate is not None and not run.replayed
        if (middle := percentile(run.latencies, 50.0)) is not None
    ]
    if len({point.rate for point in points}) < 2:
        return None
    answer = results.answer(load)
    found = None if answer is None else (answer.sustained, answer.level.low, answer.level.high)
    return LoadCurve(load.workload, percent, tuple(sorted(points, key=lambda each: each.rate)), load.plan.bound, found)


def write_file(result: Result, path: Path) -> Optional[Path]:
    """Write the plot of ``result`` as an SVG file; return ``None`` if there is nothing to draw.

    Raises:
        OSError: the file cannot be written.
    """
    data = of_result(result)
    if data is None:
        return None
    return canvas.write_file(partial(_figure, data), path, _title(data), _description(data))


def columns(data: LoadCurve) -> list[Column]:
    """The runs as a table."""
    return [
        Column("requests/s", tuple(significant(each.rate, 3) for each in data.points), is_number=True),
        Column("p50", tuple(seconds(each.median) for each in data.points), is_number=True),
        Column(data.tail_name, tuple(seconds(each.tail) for each in data.points), is_number=True),
        Column("verdict", tuple("passed" if each.is_valid else "failed" for each in data.points)),
        Column("ended early", tuple("yes" if each.given_up else MISSING for each in data.points)),
    ]


def svg(data: LoadCurve, name: str, width: float = canvas.NARROW) -> str:
    """Draw the runs as an element of a page."""
    with canvas.drawing():
        return canvas.element(_figure(data, width), name, _title(data), _description(data))


def _title(data: LoadCurve) -> str:
    return f"{data.workload}: latency under load"


def _description(data: LoadCurve) -> str:
    shown = "; ".join(
        f"{significant(each.rate, 3)} requests/s: p50 {seconds(each.median)}, {data.tail_name} {seconds(each.tail)}, "
        f"{'passed' if each.is_valid else 'failed'}"
        for each in data.points
    )
    return f"Median and {data.tail_name} of every run against its rate; filled marks are runs that passed. {shown}"


def _figure(data: LoadCurve, width: float) -> Figure:
    legend = [line for text in _legend(data) for line in canvas.wrapped(text, width - 40)]
    bottom = _TOP + _AREA + _AXIS
    figure = canvas.new_figure(width, bottom + canvas.LINE * len(legend) + 10)
    length = width - _LEFT - _RIGHT
    axes = canvas.new_axes(figure, _LEFT, _TOP, length, _AREA)
    times = [value for each in data.points for value in (each.median, each.tail) if value]
    times += [data.bound.seconds] if data.bound is not None else []
    factor, unit = canvas.time_unit([data.bound.seconds] if data.bound is not None else times)
    low, high = factor * min(times) / _MARGIN, factor * max(times) * _MARGIN
    rates = [each.rate for each in data.points]
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.set_xlim(min(rates) / _MARGIN, max(rates) * _MARGIN)
    canvas.set_ticks(axes.yaxis, log_ticks(low, high, _AREA, 24))
    axes.grid(True)
    _draw_answer(axes, data, factor)
    _draw_runs(axes, data, factor)
    canvas.write(figure, 4, 13, f"latency from the scheduled arrival in {unit} (log scale)", size=canvas.SMALL)
    canvas.write(figure, width - _RIGHT, bottom - 12, "requests per second", align="right", size=canvas.SMALL)
    for number, line in enumerate(legend):
        canvas.write(figure, 14, bottom + 12 + canvas.LINE * number, line)
    return figure


def _legend(data: LoadCurve) -> list[str]:
    shown = [f"● p50   ■ {data.tail_name}; hollow: the run failed; faint: it ended early, when it could not pass"]
    if data.bound is not None:
        shown.append(f"dashed: the bound, {data.bound.text}")
    if data.found is not None:
        shown.append(f"vertical line: {rounded_down(data.found[0])} requests/s, which every repeat sustained")
    return shown


def _draw_answer(axes: Axes, data: LoadCurve, factor: float) -> None:
    if data.found is not None:
        rate, low, high = data.found
        if low > 0 and math.isfinite(high):
            axes.axvspan(low, high, color=theme.BAND, lw=0, zorder=0.5)
        axes.axvline(rate, color=theme.GREEN, lw=1.5, zorder=2)
    if data.bound is not None:
        axes.axhline(factor * data.bound.seconds, color=theme.VERMILLION, lw=1.5, ls=(0, (4, 3)), zorder=2)


def _draw_runs(axes: Axes, data: LoadCurve, factor: float) -> None:
    for each in data.points:
        for value, marker, colour in ((each.median, "o", theme.SKY), (each.tail, "s", theme.BLUE)):
            if value is not None:
                axes.plot(
                    each.rate,
                    factor * value,
                    marker=marker,
                    ms=7,
                    mec=theme.GREY if each.given_up else colour,
                    mew=1.5,
                    color=colour if each.is_valid else theme.PAGE,
                    zorder=4,
                )
