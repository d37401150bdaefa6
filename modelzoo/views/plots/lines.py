"""Lines, one for each setting, on the same axes: over rounds, sessions and tokens, and the distribution of samples.

Over rounds and sessions, settings are drawn relative to their own levels. A change of 5 % therefore has the same height
for all of them, and what slowed down several settings at the same time is seen at the same place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from modelzoo import stats
from modelzoo.document import theme
from modelzoo.formatting import counted, seconds, time_unit
from modelzoo.records import run as records
from modelzoo.records.run import Run
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Interval
from modelzoo.views.differences import short_names
from modelzoo.views.plots import HEIGHT, SMALL, Plot, add_legend, captioned, columns, few, log_scale, spread
from modelzoo.views.speed import PERCENTILES, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_SPAN = 0.03
"""The axis of relative latencies shows at least 1 plus and minus this fraction."""
MOST_TOKENS = 64
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
        colour, marker, dashes = theme.series_style(index)
        ends = [(x, point.low / level, point.high / level) for x, point in points if math.isfinite(point.high)]
        axes.vlines(*(zip(*ends) if ends else ([], [], [])), color=colour, lw=1.6)
        xs, values = zip(*((x, point.value / level) for x, point in points))
        axes.plot(xs, values, color=colour, ls=dashes, lw=1, marker=marker, label=name, zorder=4)
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
    """The time that a result stores, in UTC; ``UNKNOWN_TIME`` if the text is not a time, or none that UTC has."""
    seconds_since_1970 = records.moment(iso)
    try:
        return UNKNOWN_TIME if seconds_since_1970 is None else datetime.fromtimestamp(seconds_since_1970, timezone.utc)
    except (OverflowError, ValueError):  # the year is 0 or 10000 there
        return UNKNOWN_TIME


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
    points = [(label, [(rank + 2, own[rank]) for rank in spread(len(own), MOST_TOKENS)]) for label, own in found]
    highest = max(max(medians) for _, medians in few(found))
    unit, scale = time_unit(highest)

    def draw(figure: Figure) -> float:
        axes: Axes = figure.add_subplot(xlabel="number of the token", ylabel=f"time in {unit}")
        axes.set(xlim=(1.5, max(own[-1][0] for _, own in few(points)) + 0.5), ylim=(0.0, 1.05 * scale * highest))
        for index, (label, own) in enumerate(few(points)):
            (colour, _, dashes), (numbers, times) = theme.series_style(index), zip(*own)
            axes.plot(numbers, [scale * each for each in times], color=colour, ls=dashes, lw=1.7, label=label)
        add_legend(figure)
        return HEIGHT

    caption = (
        "Time of each token after the first one, the median over all generations of all processes. A line that rises "
        "shows the cost of the cache, which grows by one position with each token."
    )
    rows = [(label, str(number), seconds(value)) for label, own in points for number, value in own]
    table = columns(("setting", "token", "median time"), rows, numbers=("token", "median time"))
    return Plot(f"{workload}: time of each token", captioned(caption, found), table, draw)


MOST_POINTS = 400
"""Points of one curve. What is left out lies at most 1 / this beside the curve, vertically."""
FARTHEST = 2.0
"""The axis of the steady samples ends at this multiple of the largest median; samples beyond it are counted."""
_CURVES, _LANE = 180.0, 30.0
"""Heights of the curves, and of a lane, in CSS pixels."""


class SampleSeries(msgspec.Struct, frozen=True):
    """The samples of one setting, of all of its processes together, in seconds.

    Attributes:
        label: the setting.
        steady: the steady samples, at least one; in ascending order, the plot is drawn much faster.
        warmup: the calls of the warm-up, after the first one.
        cold: the first timed call of each process.
    """

    label: str
    steady: tuple[float, ...]
    warmup: tuple[float, ...]
    cold: tuple[float, ...]


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


def curve(samples: Sequence[float]) -> list[tuple[float, float]]:
    """Return points of the empirical distribution function: a sample, and the share of samples up to it.

    With more than ``MOST_POINTS`` samples these are order statistics at equal distances of rank, the smallest and the
    largest among them, each with its own exact share.
    """
    ordered = sorted(samples)
    return [(ordered[rank], (rank + 1) / len(ordered)) for rank in spread(len(ordered), MOST_POINTS)]


def samples(workload: str, found: Sequence[SampleSeries]) -> Plot | None:
    """Return the plot of the distributions; ``None`` without samples.

    The table has percentiles of the steady samples, with the first timed call and the warm-up.
    """
    if not found:
        return None
    percentiles = [stats.percentiles(one.steady) for one in found]
    names = [name for name in PERCENTILES if any(name in each for each in percentiles)]
    titles = ("setting", "samples", "min", *names, "max", "first timed call (median)", "warm-up calls")
    rows = [
        (
            one.label,
            str(len(one.steady)),
            seconds(min(one.steady)),
            *(seconds(own.get(name)) for name in names),
            seconds(max(one.steady)),
            seconds(median(one.cold)),
            str(len(one.warmup)),
        )
        for one, own in zip(found, percentiles)
    ]
    caption = (
        "Distribution of the steady samples of all processes; below it the warm-up and the first timed call "
        "of each process, which are not part of it."
    )
    title = f"{workload}: distribution of the latencies"
    table = columns(titles, rows, numbers=titles[1:])
    return Plot(title, captioned(caption, found), table, partial(_draw_samples, few(found)))


def _draw_samples(drawn: Sequence[SampleSeries], figure: Figure) -> float:
    """Draw the curves up to the end of the axis, and a lane for each setting below them."""
    middles = [median(one.steady) for one in drawn]
    unit, scale = time_unit(max(middles))
    upper, lower = figure.subplots(2, height_ratios=[_CURVES, _LANE * len(drawn)])
    every = [scale * sample for one in drawn for sample in one.steady]
    end = min(max(every), FARTHEST * scale * max(middles))
    margin = (end / min(every)) ** 0.04 if end > min(every) else 1.02
    log_scale(upper.xaxis, min(every) / margin, end * margin)
    count = sum(sample > end * margin for sample in every)
    beyond = f"; {count} beyond, up to {seconds(max(every) / scale)} →" if count else ""
    upper.set(xlabel=f"latency in {unit} (log scale){beyond}", ylabel="share of the steady samples", ylim=(0, 1.02))
    every = [scale * sample for one in drawn for sample in (*one.warmup, *one.cold, median(one.steady))]
    margin = (max(every) / min(every)) ** 0.05 if max(every) > min(every) else 1.1
    log_scale(lower.xaxis, min(every) / margin, max(every) * margin)
    lower.set(ylim=(len(drawn) - 0.5, -0.5), yticks=[], xlabel=f"latency in {unit} (log scale); dotted: steady median")
    lower.set_title("not in the curves: | warm-up, × first timed call", fontsize=SMALL)
    lower.spines["left"].set_visible(False)
    for lane, (one, steady) in enumerate(zip(drawn, middles)):
        (colour, marker, dashes), middle, points = theme.series_style(lane), scale * steady, curve(one.steady)
        steps, shares = zip((points[0][0], 0.0), *points)
        upper.plot([scale * x for x in steps], shares, drawstyle="steps-post", color=colour, lw=2, ls=dashes)
        entry = f"{one.label}: {counted(len(one.steady), 'sample')}"
        upper.plot(middle, 0.5, marker=marker, color=colour, lw=2, ls=dashes, label=entry)
        # The marker of the curve at the left edge tells whose lane it is.
        edge = lower.get_yaxis_transform()
        lower.plot([-0.02], [lane], transform=edge, marker=marker, color=colour, clip_on=False)
        lower.plot([middle, middle], [lane - 0.45, lane + 0.45], color=theme.INK, lw=1.4, ls=(0, (1, 1)))
        # One path with gaps instead of a marker for each call, which would take ten times the space.
        xs = [x for sample in one.warmup for x in (scale * sample, scale * sample, math.nan)]
        lower.plot(xs, [lane - 0.35, lane - 0.05, math.nan] * len(one.warmup), lw=1.2, color=colour)
        cold = [scale * sample for sample in one.cold]
        lower.plot(cold, [lane + 0.24] * len(cold), ls="none", marker="x", mew=1.6, color=colour, mec=colour)
    add_legend(figure)
    return _CURVES + _LANE * len(drawn)
