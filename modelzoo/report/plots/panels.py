"""Panels below each other, one per setting: values in their order, with level and interval, on the same relative scale.

Every panel spans the same factor from its lower to its upper end. A change of 5 % therefore has the same height in all
of them, and what slowed down several settings at the same time is seen at the same place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelzoo import stats
from modelzoo.document import theme
from modelzoo.report.plots import canvas
from modelzoo.report.plots.ticks import log_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_SPAN = 0.03
"""Panels show at least the levels plus and minus this fraction."""
WIDEST_SPAN = 1.0
"""An interval may enlarge the panels up to this factor's logarithm; a wider one is cut off at their edges."""
_LEFT, _RIGHT, _HEAD, _TITLE, _AREA, _GAP, _AXIS = 46.0, 18.0, 20.0, 22.0, 84.0, 14.0, 44.0


@dataclass(frozen=True)
class PanelPoint:
    """One value of a panel.

    Attributes:
        x: its place on the axis that all panels share.
        value: in seconds.
        low: lower end of its own interval; ``None`` if it has none.
        high: upper end, likewise.
    """

    x: float
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PanelLevel:
    """A horizontal line with its interval.

    Attributes:
        value: the level with its interval, in seconds.
        start: where it begins on the shared axis; ``None``: at the left end.
        end: likewise.
    """

    value: stats.Interval
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True)
class Panel:
    """One setting.

    Attributes:
        title: its label, with its level.
        points: from left to right.
        levels: lines behind the points.
        breaks: places of vertical lines.
    """

    title: str
    points: tuple[PanelPoint, ...]
    levels: tuple[PanelLevel, ...] = ()
    breaks: tuple[float, ...] = ()


def draw(panels: Sequence[Panel], width: float, axis: str) -> tuple[Figure, list[Axes]]:
    """Draw the panels; return the figure and its axes, whose shared horizontal axis the caller labels.

    Args:
        panels: at least one.
        width: in CSS pixels.
        axis: title of the shared axis.
    """
    titles = [canvas.wrapped(panel.title, width - _RIGHT) for panel in panels]
    heights = [_TITLE + (len(lines) - 1) * canvas.LINE + _AREA + _GAP for lines in titles]
    figure = canvas.new_figure(width, _HEAD + sum(heights) + _AXIS)
    half = _half_span(panels)
    scale, unit = canvas.time_unit([point.value for panel in panels for point in panel.points])
    xs = [point.x for panel in panels for point in panel.points]
    canvas.write(figure, 4, 13, f"latency in {unit} (log scale)", size=canvas.SMALL, colour=theme.FAINT)
    top, found = _HEAD, []
    for index, (panel, lines, height) in enumerate(zip(panels, titles, heights)):
        for number, line in enumerate(lines):
            canvas.write(figure, 4, top + 14 + number * canvas.LINE, line)
        area = canvas.new_axes(figure, _LEFT, top + height - _AREA - _GAP, width - _LEFT - _RIGHT, _AREA)
        _set_scale(area, panel, half, scale)
        _set_horizontal(area, xs, is_last=index == len(panels) - 1)
        _draw_panel(area, panel, theme.series_style(index))
        found.append(area)
        top += height
    canvas.write(figure, width - _RIGHT, top + _AXIS - 6, axis, align="right", size=canvas.SMALL)
    return figure, found


def _half_span(panels: Sequence[Panel]) -> float:
    """Half the height of every panel, as a logarithm: what the most scattered one needs."""
    spans = [math.log1p(LEAST_SPAN)]
    for panel in panels:
        centre = _centre(panel)
        spans += [abs(math.log(point.value) - centre) for point in panel.points]
        ends = [end for point in panel.points for end in (point.low, point.high)]
        ends += [end for level in panel.levels for end in (level.value.low, level.value.high)]
        distances = [abs(math.log(end) - centre) for end in ends if end is not None and 0 < end < math.inf]
        spans += [min(distance, WIDEST_SPAN) for distance in distances]
    return 1.12 * max(spans)


def _centre(panel: Panel) -> float:
    logs = [math.log(point.value) for point in panel.points]
    return (min(logs) + max(logs)) / 2


def _set_scale(area: Axes, panel: Panel, half: float, scale: float) -> None:
    low, high = math.exp(_centre(panel) - half), math.exp(_centre(panel) + half)
    area.set_yscale("log")
    area.set_ylim(low, high)
    # A tick at the very end of a panel would be beside the next one's title.
    inset = math.exp(0.1 * half)
    ticks = log_ticks(low * scale * inset, high * scale / inset, 0.9 * _AREA, 20)
    canvas.set_ticks(area.yaxis, ticks, scale)
    area.grid(True, axis="y")


def _set_horizontal(area: Axes, xs: Sequence[float], is_last: bool) -> None:
    margin = 0.06 * (max(xs) - min(xs)) or 0.5
    area.set_xlim(min(xs) - margin, max(xs) + margin)
    area.tick_params(axis="x", labelbottom=is_last)


def _draw_panel(area: Axes, panel: Panel, style: theme.SeriesStyle) -> None:
    left, right = area.get_xlim()
    bottom, top = area.get_ylim()
    for level in panel.levels:
        ends = [left if level.start is None else level.start, right if level.end is None else level.end]
        low, high = max(level.value.low, bottom), min(level.value.high, top)
        area.fill_between(ends, [low, low], [high, high], color=theme.BAND, lw=0, zorder=0.5)
        area.plot(ends, [level.value.value] * 2, color=style.colour, lw=1.6, ls=style.line, zorder=2)
    for x in panel.breaks:
        area.axvline(x, color=theme.FAINT, lw=1.2, ls=(0, (2, 2)), zorder=1)
    for point in panel.points:
        if point.low is not None and point.high is not None:
            ends = [max(point.low, bottom), min(point.high, top)]
            area.plot([point.x, point.x], ends, color=style.colour, lw=1.6, zorder=3)
    xs, values = [point.x for point in panel.points], [point.value for point in panel.points]
    area.plot(xs, values, ls="none", marker=style.marker, color=style.colour, ms=7, mec=theme.PAGE, mew=1, zorder=4)
