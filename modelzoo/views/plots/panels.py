"""Panels below each other, one per setting: values in their order, with level and interval, on the same relative scale.

Every panel spans the same factor from its lower to its upper end. A change of 5 % therefore has the same height in all
of them, and what slowed down several settings at the same time is seen at the same place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo import stats
from modelzoo.document import theme
from modelzoo.formatting import time_unit
from modelzoo.views.plots.plot import SMALL, log_scale, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_SPAN = 0.03
"""Panels show at least the levels plus and minus this fraction."""
WIDEST_SPAN = 1.0
"""An interval may enlarge the panels up to this factor's logarithm; a wider one is cut off at their edges."""


class PanelPoint(msgspec.Struct, frozen=True):
    """One value of a panel.

    Attributes:
        x: its place on the axis that all panels share.
        value: in seconds.
        low: lower end of its own interval; ``None`` if it has none.
        high: upper end, likewise.
    """

    x: float
    value: float
    low: Optional[float] = None
    high: Optional[float] = None


class Panel(msgspec.Struct, frozen=True):
    """One setting.

    Attributes:
        title: its label, with its level.
        value: this level in seconds; the axis has the unit in which it is shown.
        points: from left to right.
        level: a line with a band behind the points.
        breaks: places of vertical lines.
    """

    title: str
    value: float
    points: tuple[PanelPoint, ...]
    level: Optional[stats.Interval] = None
    breaks: tuple[float, ...] = ()


def height(panels: Sequence[Panel]) -> float:
    """The height of a plot of these panels in CSS pixels."""
    return sum(112.0 + 15 * (1 + wrapped(panel.title).count("\n")) for panel in panels) + 40


def draw(figure: Figure, panels: Sequence[Panel], axis: str) -> list[Axes]:
    """Draw the panels; return their axes, whose shared horizontal axis the caller labels.

    Args:
        figure: an empty one.
        panels: at least one.
        axis: title of the shared axis.
    """
    half, (left, right) = _half_span(panels), _sides(panels)
    found: list[Axes] = list(figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0])
    for index, (area, panel) in enumerate(zip(found, panels)):
        unit, scale = time_unit(panel.value)
        centre = scale * math.exp(_centre(panel))
        log_scale(area.yaxis, centre / math.exp(half), centre * math.exp(half), most=5)
        area.grid(False, axis="x")
        area.set_xlim(left, right)
        area.set_title(wrapped(panel.title))
        area.set_ylabel(unit)
        _draw_panel(area, panel, theme.series_style(index), scale)
    figure.supylabel("latency (log scale)", fontsize=SMALL)
    found[-1].set_xlabel(axis)
    return found


def _sides(panels: Sequence[Panel]) -> tuple[float, float]:
    """The ends of the shared axis."""
    xs = [point.x for panel in panels for point in panel.points]
    margin = 0.06 * (max(xs) - min(xs)) or 0.5
    return min(xs) - margin, max(xs) + margin


def _half_span(panels: Sequence[Panel]) -> float:
    """Half the height of every panel, as a logarithm: what the most scattered one needs."""
    spans = [math.log1p(LEAST_SPAN)]
    for panel in panels:
        centre = _centre(panel)
        spans += [abs(math.log(point.value) - centre) for point in panel.points]
        ends = [end for point in panel.points for end in (point.low, point.high)]
        ends += [panel.level.low, panel.level.high] if panel.level is not None else []
        distances = [abs(math.log(end) - centre) for end in ends if end is not None and 0 < end < math.inf]
        spans += [min(distance, WIDEST_SPAN) for distance in distances]
    return 1.12 * max(spans)


def _centre(panel: Panel) -> float:
    logs = [math.log(point.value) for point in panel.points]
    return (min(logs) + max(logs)) / 2


def _draw_panel(area: Axes, panel: Panel, style: theme.SeriesStyle, scale: float) -> None:
    xs, values = [point.x for point in panel.points], [scale * point.value for point in panel.points]
    area.plot(xs, values, ls="none", marker=style.marker, color=style.colour, zorder=4)
    bottom, top = area.get_ylim()
    if panel.level is not None:
        across, level = area.get_xlim(), panel.level
        low, high = max(scale * level.low, bottom), min(scale * level.high, top)
        area.fill_between(across, [low, low], [high, high], color=theme.BAND, lw=0, zorder=0.5)
        area.plot(across, [scale * level.value] * 2, color=style.colour, lw=1.6, ls=style.line, zorder=2)
    for x in panel.breaks:
        area.axvline(x, color=theme.FAINT, lw=1.2, ls=(0, (2, 2)), zorder=1)
    for point in panel.points:
        if point.low is not None and point.high is not None:
            ends = [max(scale * point.low, bottom), min(scale * point.high, top)]
            area.plot([point.x, point.x], ends, color=style.colour, lw=1.6, zorder=3)
