"""Panels below each other, one per setting: values in their order, with level and interval, on the same relative scale.

Every panel spans the same factor from its lower to its upper end. A change of 5 % therefore has the same height in all
of them, and what slowed down several settings at the same time is seen at the same place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from modelzoo.document import theme
from modelzoo.formatting import seconds, time_unit
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Interval
from modelzoo.views.differences import short_names
from modelzoo.views.intervals import interval
from modelzoo.views.plots.plot import SMALL, Plot, captioned, columns, few, log_scale, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_SPAN = 0.03
"""Panels show at least the levels plus and minus this fraction."""
WIDEST_SPAN = 1.0
"""An interval may enlarge the panels up to this factor's logarithm; a wider one is cut off at their edges."""
UNKNOWN_TIME = datetime.min.replace(tzinfo=timezone.utc)
"""Sorts before all others. A session without a time is in the table and not in the plot."""
_HEIGHT = 90.0
"""Of a panel in CSS pixels."""


class Panel(msgspec.Struct, frozen=True):
    """One setting.

    Attributes:
        title: its label, with its level.
        value: this level in seconds; the axis has the unit in which it is shown.
        points: from left to right: the place on the axis that all panels share, and seconds; an interval without ends
            is not drawn.
        level: a line with a band behind the points.
    """

    title: str
    value: float
    points: tuple[tuple[float, Interval], ...]
    level: Interval | None = None


def draw(panels: Sequence[Panel], axis: str, are_dates: bool, figure: Figure) -> float:
    """Draw at least one panel; ``axis`` is the title of the shared axis, of whole numbers or of dates."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import MaxNLocator

    # Half the height of every panel, as a logarithm, is what the most scattered one needs.
    centres, spans = [], [math.log1p(LEAST_SPAN)]
    for panel in panels:
        logs = [math.log(point.value) for _, point in panel.points]
        centre = (min(logs) + max(logs)) / 2
        intervals = [*(point for _, point in panel.points), *([panel.level] if panel.level is not None else [])]
        ends = [math.log(end) for each in intervals for end in (each.low, each.high) if 0 < end < math.inf]
        spans += [max(logs) - centre, *(min(abs(end - centre), WIDEST_SPAN) for end in ends)]
        centres.append(centre)
    half = 1.12 * max(spans)
    places = [x for panel in panels for x, _ in panel.points]
    margin = 0.06 * (max(places) - min(places)) or 0.5
    across = (min(places) - margin, max(places) + margin)
    areas: list[Axes] = list(figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0])
    for index, (area, panel, centre) in enumerate(zip(areas, panels, centres)):
        unit, scale = time_unit(panel.value)
        bottom, top = scale * math.exp(centre - half), scale * math.exp(centre + half)
        log_scale(area.yaxis, bottom, top, most=5)
        area.grid(False, axis="x")
        area.set(xlim=across, title=wrapped(panel.title, 0.8), ylabel=unit)
        style = theme.series_style(index)
        if panel.level is not None:
            low, high = max(scale * panel.level.low, bottom), min(scale * panel.level.high, top)
            area.axhspan(low, high, color=theme.BAND, lw=0, zorder=0.5)
            area.axhline(scale * panel.level.value, color=style.colour, lw=1.6, ls=style.line, zorder=2)
        for x, point in panel.points:
            if point.low < point.high:
                low, high = max(scale * point.low, bottom), min(scale * point.high, top)
                area.plot([x, x], [low, high], color=style.colour, lw=1.6, zorder=3)
        xs, values = [x for x, _ in panel.points], [scale * point.value for _, point in panel.points]
        area.plot(xs, values, ls="none", marker=style.marker, color=style.colour, zorder=4)
    figure.supylabel("latency (log scale)", fontsize=SMALL)
    areas[-1].set_xlabel(axis)
    dates = AutoDateLocator(minticks=2, maxticks=7)
    whole = MaxNLocator(integer=True, nbins=8, min_n_ticks=1)
    areas[-1].xaxis.set_major_locator(dates if are_dates else whole)
    if are_dates:
        areas[-1].xaxis.set_major_formatter(ConciseDateFormatter(dates))
    return _HEIGHT * len(panels)


def processes(shown: Sequence[SummaryRow]) -> Plot | None:
    """Return the plot of the median of every process of a workload's settings, by round; ``None`` without processes."""
    timed = [
        (name, row.latency, [run for run in row.runs if run.steady])
        for name, row in zip(short_names(shown), shown)
        if row.latency is not None and any(run.steady for run in row.runs)
    ]
    if not timed:
        return None
    rounds = sorted({run.round for _, _, runs in few(timed) for run in runs})
    panels = []
    for name, level, runs in few(timed):
        medians = [(run.round, median(run.steady)) for run in runs]
        points = tuple((rounds.index(number) + 1.0, Interval(value, value, value)) for number, value in medians)
        panels.append(Panel(f"{name}: {interval(level)}", level.value, points, level))
    ran = sorted(
        ((run, name) for name, _, runs in timed for run in runs), key=lambda each: (each[0].round, each[0].started)
    )
    cells = [
        (run.started.replace("+00:00", ""), str(run.round + 1), name, seconds(median(run.steady))) for run, name in ran
    ]
    titles = ("started (UTC)", "round", "setting", "median latency")
    table = columns(titles, cells, numbers=("round", "median latency"))
    caption = (
        "Median latency of each process, in the order in which they ran; every panel has the same relative scale. Line "
        "and band: the level with its 95 % interval."
    )
    title = f"{shown[0].workload}: median latency of each process"
    axis = "round, in the order in which they ran"
    return Plot(title, captioned(caption, timed), table, partial(draw, panels, axis, False))


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

    dated = {
        label: [(moment(created), level) for created, level in own if moment(created) > UNKNOWN_TIME]
        for label, own in sessions.items()
    }
    timed = [(label, own) for label, own in dated.items() if own]
    if not timed:
        return None
    panels = [
        Panel(
            f"{label}: {interval(own[-1][1])} in the latest session",
            own[-1][1].value,
            tuple((float(date2num(when)), level) for when, level in own),
        )
        for label, own in few(timed)
    ]
    cells = [
        (label, created.replace("+00:00", ""), interval(level))
        for label, own in sessions.items()
        for created, level in own
    ]
    table = columns(("setting", "session (UTC)", "latency"), cells, numbers=("latency",))
    caption = captioned("Latency in each session with its interval.", timed)
    title = f"{workload}: latency by session"
    return Plot(title, caption, table, partial(draw, panels, "start of the session (UTC)", True))
