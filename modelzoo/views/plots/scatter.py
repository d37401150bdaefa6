"""Lines and marks on two axes: throughput against latency, latency under load, the tokens of a generation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from modelzoo.document import Text, theme
from modelzoo.formatting import MISSING, rounded_down, seconds, significant, time_unit
from modelzoo.records.load import Load
from modelzoo.records.run import Result
from modelzoo.results import load as load_results
from modelzoo.results import throughput as throughput_results
from modelzoo.stats import percentile
from modelzoo.views.plots.plot import (
    Plot,
    add_legend,
    captioned,
    columns,
    few,
    log_scale,
    number_marks,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

MOST_POINTS = 64
"""Tokens of one line at most; they lie at equal distances, the first and the last one among them."""
_MARGIN = 1.15
"""The axes end this factor beyond the outermost marks."""
_LOG_FROM = 20.0
"""The axis of the rates is logarithmic if the highest is more than this multiple of the lowest."""
_WIDEST = 2.0
"""Intervals are drawn up to this multiple of the highest throughput; what is farther out is an arrow at the edge."""
_HEIGHT = 270.0
"""Of the axes in CSS pixels."""
_DASHED = (4.0, 3.0)


class Scale(msgspec.Struct, frozen=True):
    """An axis: its title, its ends, and whether it is logarithmic."""

    title: str
    low: float
    high: float
    is_log: bool = False

    def apply(self, axis: Axis) -> None:
        """Give the axis its title and its limits."""
        axis.set_label_text(self.title)
        if self.is_log:
            log_scale(axis, self.low, self.high)
        else:
            is_x = axis is axis.axes.xaxis
            (axis.axes.set_xlim if is_x else axis.axes.set_ylim)(self.low, self.high)


class Series(msgspec.Struct, frozen=True):
    """A line, or marks that look alike.

    Attributes:
        xs: places on the horizontal axis.
        ys: on the vertical one.
        colour: of the line, and of the edge of hollow marks.
        label: in the legend; ``None``: it has no entry.
        marker: of matplotlib; empty for a line alone.
        dashes: lengths of dashes and gaps in line widths; ``None``: there is no line.
        size: of the marks.
        interval: vertical, of the only mark.
        fill: colour inside of the marks; ``None``: that of the line.
        edge: colour of their edges.
        is_stepped: whether the line goes to the right before it goes up.
    """

    xs: Sequence[float]
    ys: Sequence[float]
    colour: str
    label: str | None = None
    marker: str = ""
    dashes: tuple[float, ...] | None = None
    size: float = 8.0
    interval: tuple[float, float] | None = None
    fill: str | None = None
    edge: str = theme.PAGE
    is_stepped: bool = False


def draw(
    series: Sequence[Series],
    x: Scale,
    y: Scale,
    numbered: Sequence[tuple[float, float]],
    band: tuple[float, float] | None,
    figure: Figure,
) -> float:
    """Draw the series on two axes, numbers beside the places of ``numbered``, and a vertical band."""
    axes: Axes = figure.add_subplot()
    x.apply(axes.xaxis)
    y.apply(axes.yaxis)
    if band is not None:
        axes.axvspan(*band, color=theme.BAND, lw=0, zorder=0.5)
    for each in series:
        steps = "steps-post" if each.is_stepped else "default"
        (line,) = axes.plot(each.xs, each.ys, color=each.colour, marker=each.marker, lw=1.7, drawstyle=steps)
        line.set(linestyle="none" if each.dashes is None else (0, each.dashes or None), zorder=4 if each.marker else 3)
        line.set(markersize=each.size, markeredgecolor=each.edge, clip_on=not (each.marker and each.xs))
        if each.fill is not None:
            line.set(markerfacecolor=each.fill, markeredgewidth=1.5)
        if each.label is not None:
            line.set_label(wrapped(each.label, 0.85))
        if each.interval is not None:
            top = axes.get_ylim()[1]
            ends = [max(0.0, each.interval[0]), min(each.interval[1], top)]
            axes.plot([*each.xs] * 2, ends, color=each.colour, lw=1.2, zorder=3)
            if each.interval[1] > top:
                axes.plot(each.xs, [top], color=each.colour, marker="^", ms=6, clip_on=False, zorder=3)
    number_marks(axes, numbered, _HEIGHT)
    add_legend(figure)
    return _HEIGHT


def tokens(workload: str, found: Sequence[tuple[str, Sequence[float]]]) -> Plot | None:
    """Return the plot of the time of each token over its position; ``None`` if nothing was generated.

    Args:
        workload: its name.
        found: of each setting, the seconds of the second token and of each one after it, medians of all generations.
    """
    if not found:
        return None
    points = [(label, thinned_out(medians)) for label, medians in found]
    highest = max(max(medians) for _, medians in few(found))
    unit, scale = time_unit(highest)
    series = []
    for index, (label, own) in enumerate(few(points)):
        style = theme.series_style(index)
        xs, ys = [number for number, _ in own], [scale * value for _, value in own]
        series.append(Series(xs, ys, style.colour, label, dashes=style.dashes))
    caption = (
        "Time of each token after the first one, the median over all generations of all processes. A line that rises "
        "shows the cost of the cache, which grows by one position with each token."
    )
    rows = [(label, str(number), seconds(value)) for label, own in points for number, value in own]
    table = columns(("setting", "token", "median time"), rows, numbers=("token", "median time"))
    x = Scale("number of the token", 1.5, max(own[-1][0] for _, own in few(points)) + 0.5)
    y = Scale(f"time in {unit}", 0.0, 1.05 * scale * highest)
    return Plot(
        f"{workload}: time of each token", captioned(caption, found), table, partial(draw, series, x, y, (), None)
    )


def thinned_out(medians: Sequence[float]) -> list[tuple[int, float]]:
    """The number of a token, from 2 on, and its seconds, of at most ``MOST_POINTS``."""
    kept = min(len(medians), MOST_POINTS)
    ranks = [round(i * (len(medians) - 1) / max(kept - 1, 1)) for i in range(kept)]
    return [(rank + 2, medians[rank]) for rank in ranks]


def frontier(result: Result) -> Plot | None:
    """Return the plot of throughput against latency: a mark for every configuration, the best ones joined by a line.

    With a bound, the latencies are its percentile if every configuration has enough samples for it, else medians.
    ``None`` is returned if no configuration was measured.
    """
    found = throughput_results.of(result)
    known = [
        (row, row.throughput, row.latency)
        for row in throughput_results.rows(result)
        if row.throughput is not None and row.latency is not None
    ]
    if not known:
        return None
    bound = found.bound if all(row.bounded is not None for row, _, _ in known) else None
    marks = [(row, rate, row.bounded or 0.0 if bound is not None else latency) for row, rate, latency in known]
    marks.sort(key=lambda mark: (mark[2], -mark[1].value))
    recommended = throughput_results.recommendation(result)
    unit, factor = time_unit(max(latency for _, _, latency in marks))
    widest = _WIDEST * max(rate.value for _, rate, _ in marks)
    top = _MARGIN * max(min(rate.high, widest) if math.isfinite(rate.high) else rate.value for _, rate, _ in marks)
    series, rows, front, highest = [], [], [], 0.0
    for number, (row, rate, latency) in enumerate(marks, 1):
        name = row.configuration.name + (f", {row.setting}" if row.setting else "")
        said = [] if row.meets is None else ["meets the bound" if row.meets else "over the bound"]
        said += [] if math.isfinite(rate.high) else ["one round: no interval"]
        label = f"{number}: {name}" + (f" ({', '.join(said)})" if said else "")
        is_best = recommended is not None and row.index == recommended.row.index
        colour = theme.BLUE if rate.value > highest else theme.FAINT
        place = (factor * latency, rate.value)
        ends = (rate.low, rate.high) if math.isfinite(rate.high) else None
        marker, size = ("D", 11.0) if is_best else ("o", 8.0)
        series.append(Series([place[0]], [place[1]], colour, label, marker, size=size, interval=ends))
        shown = "yes" if rate.value > highest else MISSING
        rows.append((str(number), name, seconds(latency), significant(rate.value), shown))
        front += [place] if rate.value > highest else []
        highest = max(highest, rate.value)
    line = Series([x for x, _ in front], [y for _, y in front], theme.BLUE, dashes=(), is_stepped=True)
    latencies = [factor * latency for _, _, latency in marks]
    lines = [line]
    if bound is not None:
        at = factor * bound.seconds
        latencies.append(at)
        lines.append(Series([at, at], [0, top], theme.VERMILLION, bound.text, dashes=_DASHED))
    which = "median" if bound is None else bound.name
    caption = (
        f"Throughput of all instances together against the {which} latency of a batch; vertical bars are 95 % "
        "intervals over the rounds, with an arrow if they reach beyond the plot. The line joins the configurations "
        "that no other one beats in both; the diamond is the one that is recommended."
    )
    titles = ("", "configuration", f"{which} latency", f"{found.unit}/s", "frontier")
    x = _log_scale(f"{which} latency of a batch in {unit} (log scale)", latencies)
    y = Scale(f"{found.unit} per second", 0.0, top)
    places = [(each.xs[0], each.ys[0]) for each in series]
    table = columns(titles, rows, numbers=("", *titles[2:4]))
    draw_all = partial(draw, [*lines, *series], x, y, places, None)
    return Plot(f"{found.workload}: throughput against latency", Text(caption), table, draw_all)


def load_curve(load: Load) -> Plot | None:
    """Return the plot of latency against the rate of requests: the runs of a search, the bound, and what was found.

    ``None`` is returned unless there are runs at two rates or more.
    """
    percent = load_results.shown_percent(load)
    timed = [(run, run.rate, percentile(run.latencies, 50.0), percentile(run.latencies, percent)) for run in load.runs]
    points = [(run, rate, middle, tail) for run, rate, middle, tail in timed if rate is not None and middle is not None]
    points.sort(key=lambda point: point[1])
    rates = [rate for _, rate, _, _ in points]
    if len(set(rates)) < 2:
        return None
    bound, tail_name = load.plan.bound, f"p{percent:g}"
    times = [value for _, _, middle, tail in points for value in (middle, tail) if value]
    unit, factor = time_unit(bound.seconds if bound is not None else max(times, default=0.0))
    times += [bound.seconds] if bound is not None else []
    x_ends = (min(rates) / _MARGIN, max(rates) * _MARGIN)
    x = Scale("requests per second", *x_ends, is_log=max(rates) > _LOG_FROM * min(rates))
    y = _log_scale(f"latency in {unit} (log scale)", [factor * value for value in times])
    caption = (
        f"Median and {tail_name} of the latency of every run, counted from the scheduled arrivals. Hollow marks: the "
        "run failed; faint ones ended early, because they could not meet the bound any more."
    )
    series, band, answer = [], None, load_results.answer(load)
    if answer is not None:
        caption += " The line is the rate that all repeats sustained, the band the 95 % interval of their level."
        label = f"{rounded_down(answer.sustained)} requests/s, which every repeat sustained"
        series.append(Series([answer.sustained] * 2, [y.low, y.high], theme.GREEN, label, dashes=()))
        level = answer.level
        band = (level.low, level.high) if level.low > 0 and math.isfinite(level.high) else None
    if bound is not None:
        label = f"the bound, {bound.text}"
        series.append(Series(x_ends, [factor * bound.seconds] * 2, theme.VERMILLION, label, dashes=_DASHED))
    looks = ((theme.SKY, "o"), (theme.BLUE, "s"))
    for run, rate, middle, tail in points:
        for value, (colour, marker) in zip((middle, tail), looks):
            edge, fill = theme.GREY if run.given_up else colour, colour if run.is_valid else theme.PAGE
            if value is not None:
                series.append(Series([rate], [factor * value], colour, None, marker, fill=fill, edge=edge))
    series += [Series((), (), colour, name, marker) for name, (colour, marker) in zip(("p50", tail_name), looks)]
    rows = [
        (
            significant(rate, 3),
            seconds(middle),
            seconds(tail),
            "passed" if run.is_valid else "failed",
            "yes" if run.given_up else MISSING,
        )
        for run, rate, middle, tail in points
    ]
    titles = ("requests/s", "p50", tail_name, "verdict", "ended early")
    table = columns(titles, rows, numbers=titles[:3])
    draw_all = partial(draw, series, x, y, (), band)
    return Plot(f"{load.workload}: latency under load", Text(caption), table, draw_all)


def _log_scale(title: str, values: Iterable[float]) -> Scale:
    """A logarithmic axis of all values."""
    found = list(values)
    return Scale(title, min(found) / _MARGIN, max(found) * _MARGIN, is_log=True)
