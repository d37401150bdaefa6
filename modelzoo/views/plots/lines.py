"""Lines over rounds, sessions and tokens, one for each setting, on the same axes.

Settings are drawn relative to their own levels. A change of 5 % therefore has the same height for all of them, and what
slowed down several settings at the same time is seen at the same place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from modelzoo.document import theme
from modelzoo.formatting import seconds, time_unit
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Interval
from modelzoo.views.differences import short_names
from modelzoo.views.intervals import interval
from modelzoo.views.plots.plot import HEIGHT, Plot, add_legend, captioned, columns, few, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_SPAN = 0.03
"""The axis of relative latencies shows at least 1 plus and minus this fraction."""
MOST_POINTS = 64
"""Tokens of one line at most; they lie at equal distances, the first and the last one among them."""
UNKNOWN_TIME = datetime.min.replace(tzinfo=timezone.utc)
"""Sorts before all others. A session without a time is in the table and not in the plot."""
Points = Sequence[tuple[float, Interval]]
"""From left to right: the place on the axis, and the value with its interval."""


def draw_relative(series: Sequence[tuple[str, float, Points]], across: str, are_dates: bool, figure: Figure) -> float:
    """Draw the points of each setting, given with its name and its level, as multiples of this level.

    ``across`` is the title of the other axis, of whole numbers or of dates. Intervals are cut off at the edges.
    """
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axes: Axes = figure.add_subplot(xlabel=across, ylabel="latency ÷ its level")
    axes.axhline(1, color=theme.FAINT, lw=1)
    for index, (name, level, points) in enumerate(series):
        style = theme.series_style(index)
        ends = [(x, point.low / level, point.high / level) for x, point in points if math.isfinite(point.high)]
        axes.vlines(*(zip(*ends) if ends else ([], [], [])), color=style.colour, lw=1.6)
        xs, values = zip(*((x, point.value / level) for x, point in points))
        axes.plot(xs, values, color=style.colour, ls=style.line, lw=1, marker=style.marker, label=name, zorder=4)
    places = [x for *_, points in series for x, _ in points]
    shown = [point.value / level for _, level, points in series for _, point in points]
    low, high = min(*shown, 1 - LEAST_SPAN), max(*shown, 1 + LEAST_SPAN)
    margin, room = 0.06 * (max(places) - min(places)) or 0.5, 0.15 * (high - low)
    axes.set(xlim=(min(places) - margin, max(places) + margin), ylim=(low - room, high + room))
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    dates = AutoDateLocator(minticks=2, maxticks=7)
    axes.xaxis.set_major_locator(dates if are_dates else MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    if are_dates:
        axes.xaxis.set_major_formatter(ConciseDateFormatter(dates))
    add_legend(figure)
    return HEIGHT


def processes(shown: Sequence[SummaryRow]) -> Plot | None:
    """Return the plot of the median of every process of a workload's settings, by round; ``None`` without processes."""
    timed = [
        (name, row.latency, [(run, median(run.steady)) for run in row.runs if run.steady])
        for name, row in zip(short_names(shown), shown)
        if row.latency is not None and any(run.steady for run in row.runs)
    ]
    if not timed:
        return None
    rounds = sorted({run.round for _, _, runs in few(timed) for run, _ in runs})
    series = []
    for name, level, runs in few(timed):
        points = [(rounds.index(run.round) + 1.0, Interval(value, value, value)) for run, value in runs]
        series.append((f"{name}: {interval(level)}", level.value, points))
    ran = sorted(
        ((run, value, name) for name, _, runs in timed for run, value in runs),
        key=lambda each: (each[0].round, each[0].started),
    )
    cells = [(run.started.replace("+00:00", ""), str(run.round + 1), name, seconds(value)) for run, value, name in ran]
    titles = ("started (UTC)", "round", "setting", "median latency")
    caption = (
        "Median latency of each process, in the order in which they ran, relative to the level of its setting, which "
        "is in the legend with its 95 % interval."
    )
    draw = partial(draw_relative, series, "round, in the order in which they ran", False)
    table = columns(titles, cells, numbers=("round", "median latency"))
    return Plot(f"{shown[0].workload}: median latency of each process", captioned(caption, timed), table, draw)


def moment(iso: str) -> datetime:
    """The time that a result stores, in UTC; ``UNKNOWN_TIME`` if the text is not a time."""
    try:
        found = datetime.fromisoformat(iso)
    except ValueError:
        return UNKNOWN_TIME
    return found.astimezone(timezone.utc) if found.tzinfo else found.replace(tzinfo=timezone.utc)


def history(workload: str, sessions: Mapping[str, Sequence[tuple[str, Interval]]]) -> Plot | None:
    """Return the plot of the level of each session over time; ``None`` without any whose time is known.

    Args:
        workload: its name.
        sessions: of each setting, oldest first: when it began, and the level with the interval within the session.
    """
    from matplotlib.dates import date2num

    timed: list[tuple[str, float, Points]] = []
    for label, levels in sessions.items():
        own = [(float(date2num(moment(at))), level) for at, level in levels if moment(at) > UNKNOWN_TIME]
        timed += [(f"{label}: {interval(own[-1][1])} in the latest session", own[-1][1].value, own)] if own else []
    if not timed:
        return None
    cells = [
        (label, created.replace("+00:00", ""), interval(level))
        for label, own in sessions.items()
        for created, level in own
    ]
    table = columns(("setting", "session (UTC)", "latency"), cells, numbers=("latency",))
    caption = captioned("Latency in each session with its interval, relative to that of the latest session.", timed)
    draw = partial(draw_relative, few(timed), "start of the session (UTC)", True)
    return Plot(f"{workload}: latency by session", caption, table, draw)


def tokens(workload: str, found: Sequence[tuple[str, Sequence[float]]]) -> Plot | None:
    """Return the plot of the time of each token over its position; ``None`` if nothing was generated.

    Args:
        workload: its name.
        found: of each setting, the seconds of the second token and of each one after it, medians of all generations.
    """
    if not found:
        return None
    points = [(label, [(rank + 2, own[rank]) for rank in spread(len(own), MOST_POINTS)]) for label, own in found]
    highest = max(max(medians) for _, medians in few(found))
    unit, scale = time_unit(highest)

    def draw(figure: Figure) -> float:
        axes: Axes = figure.add_subplot(xlabel="number of the token", ylabel=f"time in {unit}")
        axes.set(xlim=(1.5, max(own[-1][0] for _, own in few(points)) + 0.5), ylim=(0.0, 1.05 * scale * highest))
        for index, (label, own) in enumerate(few(points)):
            style, (numbers, times) = theme.series_style(index), zip(*own)
            axes.plot(numbers, [scale * each for each in times], color=style.colour, ls=style.line, lw=1.7, label=label)
        add_legend(figure)
        return HEIGHT

    caption = (
        "Time of each token after the first one, the median over all generations of all processes. A line that rises "
        "shows the cost of the cache, which grows by one position with each token."
    )
    rows = [(label, str(number), seconds(value)) for label, own in points for number, value in own]
    table = columns(("setting", "token", "median time"), rows, numbers=("token", "median time"))
    return Plot(f"{workload}: time of each token", captioned(caption, found), table, draw)
