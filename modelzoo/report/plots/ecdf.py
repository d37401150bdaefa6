"""The distribution of the samples of each setting; below it cold start and warm-up, which do not belong to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from modelzoo import stats
from modelzoo.document import Column, theme
from modelzoo.formatting import MISSING, seconds
from modelzoo.records.run import Run
from modelzoo.report.plots import canvas
from modelzoo.report.plots.ticks import log_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Transform

MOST_POINTS = 400
"""Points of one curve. What is left out lies at most 1 / this beside the curve, vertically."""
FARTHEST = 2.0
"""The axis of the steady samples ends at this multiple of the largest median; samples beyond it are counted."""
_LEFT, _RIGHT = 40.0, 14.0
_HEAD, _AREA, _AXIS, _LANE = 24.0, 190.0, 44.0, 36.0
_ENTRY = 20.0
"""Height of an entry of the legend."""


@dataclass(frozen=True)
class SampleSeries:
    """The samples of one setting, of all of its processes together, in seconds.

    Attributes:
        label: the setting.
        steady: the steady samples, at least one; in ascending order, the plot is drawn much faster.
        warmup: the calls of the warm-up, after the first one.
        cold: the first call of each process.
    """

    label: str
    steady: tuple[float, ...]
    warmup: tuple[float, ...]
    cold: tuple[float, ...]


@dataclass(frozen=True)
class Samples:
    """The settings of one workload."""

    workload: str
    series: tuple[SampleSeries, ...]


def series(label: str, runs: Sequence[Run]) -> SampleSeries | None:
    """The samples of one setting; ``None`` if none of its processes was timed."""
    timed = [run.report.timing for run in runs if run.report is not None and run.report.timing is not None]
    timed = [timing for timing in timed if timing.steady]
    if not timed:
        return None
    return SampleSeries(
        label,
        tuple(sorted(sample for timing in timed for sample in timing.steady)),
        tuple(sample for timing in timed for sample in timing.warmup),
        tuple(timing.cold_start for timing in timed),
    )


def curve(samples: Sequence[float], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Return points of the empirical distribution function: a sample, and the share of samples up to it.

    With more than ``most`` samples these are order statistics at equal distances of rank, the smallest and the largest
    among them, each with its own exact share.
    """
    ordered = sorted(samples)
    count = len(ordered)
    kept = min(count, most)
    ranks = range(count) if kept == count else [round(i * (count - 1) / (kept - 1)) for i in range(kept)]
    return [(ordered[rank], (rank + 1) / count) for rank in ranks]


def columns(data: Samples) -> list[Column]:
    """Percentiles of the steady samples as a table, with cold start and warm-up."""
    names = ("p50", "p90", "p95", "p99")
    percentiles = [stats.percentiles(one.steady) for one in data.series]
    found = [
        Column("setting", tuple(one.label for one in data.series)),
        Column("samples", tuple(str(len(one.steady)) for one in data.series), is_number=True),
        Column("min", tuple(seconds(min(one.steady)) for one in data.series), is_number=True),
    ]
    for name in names:
        cells = tuple(seconds(each[name]) if name in each else MISSING for each in percentiles)
        if any(name in each for each in percentiles):
            found.append(Column(name, cells, is_number=True))
    found += [
        Column("max", tuple(seconds(max(one.steady)) for one in data.series), is_number=True),
        Column("cold start (median)", tuple(seconds(median(one.cold)) for one in data.series), is_number=True),
        Column("warm-up calls", tuple(str(len(one.warmup)) for one in data.series), is_number=True),
    ]
    return found


def svg(data: Samples, name: str, width: float = canvas.NARROW) -> str:
    """Draw the distributions. Without samples the result is empty."""
    if not data.series:
        return ""
    with canvas.drawing():
        legend, lanes = _ENTRY * len(data.series), _LANE * len(data.series)
        curves_top = legend + _HEAD
        lanes_top = curves_top + _AREA + _AXIS + _HEAD
        figure = canvas.new_figure(width, lanes_top + lanes + _AXIS)
        length = width - _LEFT - _RIGHT
        scale, unit = canvas.time_unit([median(one.steady) for one in data.series])
        upper = canvas.new_axes(figure, _LEFT, curves_top, length, _AREA)
        beyond = _draw_curves(upper, data, scale, length)
        lower = canvas.new_axes(figure, _LEFT, lanes_top, length, lanes)
        _draw_lanes(lower, data, scale, length)
        _draw_legend(figure, data)
        for x, y, text, aligned in (
            (4, curves_top - 9, "share of the steady samples", "left"),
            (width - _RIGHT, curves_top - 9, beyond, "right"),
            (width - _RIGHT, curves_top + _AREA + 34, f"latency in {unit} (log scale)", "right"),
            (4, lanes_top - 9, "not in the curves: | warm-up, × cold start", "left"),
            (width - _RIGHT, lanes_top + lanes + 34, f"latency in {unit} (log scale); dotted: steady median", "right"),
        ):
            canvas.write(figure, x, y, text, align=aligned, size=canvas.SMALL)
        return canvas.element(figure, name, f"{data.workload}: distribution of the latencies", _description(data))


def _draw_curves(axes: Axes, data: Samples, scale: float, length: float) -> str:
    """Draw the curves up to the end of the axis; return how many samples are beyond it."""
    every = [sample for one in data.series for sample in one.steady]
    end = min(max(every), FARTHEST * max(median(one.steady) for one in data.series))
    margin = (end / min(every)) ** 0.04 if end > min(every) else 1.02
    _set_log_axis(axes, min(every) / margin, end * margin, scale, length)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    axes.grid(True)
    for index, one in enumerate(data.series):
        points, style = curve(one.steady), theme.series_style(index)
        xs, shares = [points[0][0], *(x for x, _ in points)], [0.0, *(share for _, share in points)]
        axes.plot(xs, shares, drawstyle="steps-post", color=style.colour, lw=2, ls=style.line)
        middle = median(one.steady)
        _draw_mark(axes, middle, 0.5, style)
    count = sum(sample > end * margin for sample in every)
    return f"{count} beyond, up to {seconds(max(every))} →" if count else ""


def _draw_lanes(axes: Axes, data: Samples, scale: float, length: float) -> None:
    every = [sample for one in data.series for sample in (*one.warmup, *one.cold, median(one.steady))]
    margin = (max(every) / min(every)) ** 0.05 if max(every) > min(every) else 1.1
    _set_log_axis(axes, min(every) / margin, max(every) * margin, scale, length)
    axes.set_ylim(len(data.series) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    for lane, one in enumerate(data.series):
        style, middle = theme.series_style(lane), median(one.steady)
        # The marker of the curve at the left edge tells whose lane it is.
        _draw_mark(axes, -_LEFT / 2 / length, lane, style, axes.get_yaxis_transform())
        axes.plot([middle, middle], [lane - 0.45, lane + 0.45], color=theme.INK, lw=1.4, ls=(0, (1, 1)))
        # One path with gaps instead of a marker for each call, which would take ten times the space.
        xs = [x for sample in one.warmup for x in (sample, sample, math.nan)]
        axes.plot(xs, [lane - 0.35, lane - 0.05, math.nan] * len(one.warmup), lw=1.2, color=style.colour)
        axes.plot(one.cold, [lane + 0.24] * len(one.cold), ls="none", marker="x", ms=7, mew=1.6, color=style.colour)


def _draw_mark(axes: Axes, x: float, y: float, style: theme.SeriesStyle, transform: Transform | None = None) -> None:
    where = axes.transData if transform is None else transform
    axes.plot([x], [y], transform=where, marker=style.marker, color=style.colour, ms=8, mec=theme.PAGE, clip_on=False)


def _set_log_axis(axes: Axes, low: float, high: float, scale: float, length: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    canvas.set_ticks(axes.xaxis, log_ticks(low * scale, high * scale, length, 42), scale)


def _draw_legend(figure: Figure, data: Samples) -> None:
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches() * 72
    for index, one in enumerate(data.series):
        style, y = theme.series_style(index), 12 + index * _ENTRY
        xs, ys = [4 / width, 20 / width, 36 / width], [1 - y / height] * 3
        figure.add_artist(
            Line2D(
                xs,
                ys,
                color=style.colour,
                lw=2,
                ls=style.line,
                marker=style.marker,
                markevery=[1],
                ms=8,
                mec=theme.PAGE,
            )
        )
        text = f"{one.label}: {len(one.steady)} samples"
        canvas.write(figure, 44, y + 4, canvas.wrapped(text, width - 48, 1)[0])


def _description(data: Samples) -> str:
    shown = "; ".join(
        f"{one.label}: {len(one.steady)} samples, median {seconds(median(one.steady))}, "
        f"largest {seconds(max(one.steady))}, cold start {seconds(median(one.cold))}"
        for one in data.series
    )
    return f"Share of the steady samples up to each latency; below, cold start and warm-up. {shown}"
