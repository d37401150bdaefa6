"""Latency against the rate of requests: the runs of a search, the bound, and the rate that was found."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo.document import Column, Text, theme
from modelzoo.formatting import MISSING, rounded_down, seconds, significant, time_unit
from modelzoo.records.load import Load
from modelzoo.records.serving import LatencyBound
from modelzoo.results import load as results
from modelzoo.stats import percentile
from modelzoo.views.plots.plot import Plot, add_legend, log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARGIN = 1.15
"""The axes end this factor beyond the outermost marks."""
_LOG_FROM = 20.0
"""The axis of the rates is logarithmic if the highest is more than this multiple of the lowest."""


class LoadPoint(msgspec.Struct, frozen=True):
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


class LoadCurve(msgspec.Struct, frozen=True):
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


def of_load(load: Load) -> Optional[LoadCurve]:
    """Return what is drawn of a search; ``None`` unless there are runs at two rates or more."""
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
        if run.rate is not None
        if (middle := percentile(run.latencies, 50.0)) is not None
    ]
    if len({point.rate for point in points}) < 2:
        return None
    answer = results.answer(load)
    found = None if answer is None else (answer.sustained, answer.level.low, answer.level.high)
    return LoadCurve(load.workload, percent, tuple(sorted(points, key=lambda each: each.rate)), load.plan.bound, found)


def plot(data: LoadCurve) -> Plot:
    """Return the plot of the runs of a search."""
    caption = (
        f"Median and {data.tail_name} of the latency of every run, counted from the scheduled arrivals. Hollow marks: "
        "the run failed; faint ones ended early, because they could not meet the bound any more."
    )
    if data.found is not None:
        caption += " The line is the rate that all repeats sustained, the band the 95 % interval of their level."
    title = f"{data.workload}: latency under load"
    return Plot(title, Text(caption), columns(data), 400, partial(_draw, data))


def columns(data: LoadCurve) -> list[Column]:
    """The runs as a table."""
    return [
        Column("requests/s", tuple(significant(each.rate, 3) for each in data.points), is_number=True),
        Column("p50", tuple(seconds(each.median) for each in data.points), is_number=True),
        Column(data.tail_name, tuple(seconds(each.tail) for each in data.points), is_number=True),
        Column("verdict", tuple("passed" if each.is_valid else "failed" for each in data.points)),
        Column("ended early", tuple("yes" if each.given_up else MISSING for each in data.points)),
    ]


def _draw(data: LoadCurve, figure: Figure) -> None:
    axes = figure.add_subplot()
    times = [value for each in data.points for value in (each.median, each.tail) if value]
    times += [data.bound.seconds] if data.bound is not None else []
    unit, factor = time_unit(data.bound.seconds if data.bound is not None else max(times, default=0.0))
    rates = [each.rate for each in data.points]
    ends = min(rates) / _MARGIN, max(rates) * _MARGIN
    if max(rates) > _LOG_FROM * min(rates):
        log_scale(axes.xaxis, *ends)
    else:
        axes.set_xlim(*ends)
    log_scale(axes.yaxis, factor * min(times) / _MARGIN, factor * max(times) * _MARGIN)
    axes.set_ylabel(f"latency in {unit} (log scale)")
    axes.set_xlabel("requests per second")
    _draw_answer(axes, data, factor)
    _draw_runs(axes, data, factor)
    axes.plot([], [], marker="o", color=theme.SKY, ls="none", label="p50")
    axes.plot([], [], marker="s", color=theme.BLUE, ls="none", label=data.tail_name)
    add_legend(figure)


def _draw_answer(axes: Axes, data: LoadCurve, factor: float) -> None:
    if data.found is not None:
        rate, low, high = data.found
        if low > 0 and math.isfinite(high):
            axes.axvspan(low, high, color=theme.BAND, lw=0, zorder=0.5)
        label = f"{rounded_down(rate)} requests/s, which every repeat sustained"
        axes.axvline(rate, color=theme.GREEN, lw=1.5, zorder=2, label=label)
    if data.bound is not None:
        bound, label = factor * data.bound.seconds, f"the bound, {data.bound.text}"
        axes.axhline(bound, color=theme.VERMILLION, lw=1.5, ls=(0, (4, 3)), zorder=2, label=label)


def _draw_runs(axes: Axes, data: LoadCurve, factor: float) -> None:
    for each in data.points:
        for value, marker, colour in ((each.median, "o", theme.SKY), (each.tail, "s", theme.BLUE)):
            if value is not None:
                axes.plot(
                    each.rate,
                    factor * value,
                    marker=marker,
                    mec=theme.GREY if each.given_up else colour,
                    mew=1.5,
                    color=colour if each.is_valid else theme.PAGE,
                    zorder=4,
                    clip_on=False,
                )
