"""Values with their intervals below each other, on one logarithmic axis: a forest plot.

The lines of the axis are drawn beside the intervals only, so that none runs through a text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo.document import theme
from modelzoo.stats import Interval
from modelzoo.views.plots.plot import log_scale, wrapped
from modelzoo.views.plots.svg import HALO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST_BEYOND = 3.0
"""An interval may reach beyond all values by this factor; what is farther out is an arrow at the edge."""
_LINE = 16.0
"""Height of a line of text in CSS pixels."""


class ForestRow(msgspec.Struct, frozen=True):
    """One value.

    Attributes:
        label: what it is of.
        said: the value as text.
        value: where its mark is; ``None`` if there is none.
        colour: of the mark.
        marker: of matplotlib.
    """

    label: str
    said: str
    value: Optional[Interval]
    colour: str
    marker: str


def height(rows: Sequence[ForestRow]) -> float:
    """The height of a plot of these rows in CSS pixels."""
    return sum(map(_height, rows)) + 46


def _label(row: ForestRow) -> str:
    return wrapped(row.label, 0.95, lines=2)


def _height(row: ForestRow) -> float:
    """Label, value, and the interval below them."""
    return _LINE * ((3.4 if row.value is not None else 2.4) + _label(row).count("\n"))


def limits(found: Sequence[Optional[Interval]], also: Sequence[float] = ()) -> tuple[float, float]:
    """The ends of the axis: all values, and their intervals as far as these are not much wider than that."""
    known = [each for each in found if each is not None]
    values = [value for value in (*also, *(each.value for each in known)) if 0 < value < math.inf]
    low, high = min(values) / WIDEST_BEYOND, max(values) * WIDEST_BEYOND
    shown = [*values, *(max(each.low, low) for each in known), *(min(each.high, high) for each in known)]
    margin = max((max(shown) / min(shown)) ** 0.06, 1.01)
    return min(shown) / margin, max(shown) * margin


def draw(
    figure: Figure, rows: Sequence[ForestRow], ends: tuple[float, float], band: Optional[tuple[float, float]]
) -> Axes:
    """Draw the rows from top to bottom; return their axes, which the caller labels.

    Args:
        figure: an empty one.
        rows: at least one.
        ends: of the axis.
        band: shaded, with a line at 1; ``None``: nothing is.
    """
    axes: Axes = figure.add_subplot()
    log_scale(axes.xaxis, *ends)
    axes.set_ylim(sum(map(_height, rows)), 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(False)
    where, top = axes.get_yaxis_transform(), 0.0
    for row in rows:
        label = _label(row)
        below = top + _LINE * (1 + label.count("\n"))
        axes.text(0, top, label, transform=where, va="top", gid=HALO, in_layout=False)
        axes.text(0, below, row.said, transform=where, va="top", fontweight="bold", gid=HALO)
        if row.value is not None:
            middle = below + 1.6 * _LINE
            _draw_ground(axes, middle - 0.45 * _LINE, middle + 0.45 * _LINE, band)
            _draw_interval(axes, row.value, middle, row)
        top += _height(row)
    return axes


def _draw_ground(axes: Axes, top: float, bottom: float, band: Optional[tuple[float, float]]) -> None:
    left, right = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if left <= tick <= right]
    axes.vlines(ticks, top, bottom, color=theme.GRID, lw=0.8, zorder=0.5)
    if band is not None:
        low, high = band
        axes.barh((top + bottom) / 2, high - low, bottom - top, left=low, color=theme.BAND, lw=0, zorder=0)
        axes.vlines([1], top, bottom, color=theme.FAINT, lw=1, zorder=1)


def _draw_interval(axes: Axes, value: Interval, y: float, row: ForestRow) -> None:
    left, right = axes.get_xlim()
    low, high = max(value.low, left), min(value.high, right)
    axes.plot([low, high], [y, y], color=row.colour, lw=2, solid_capstyle="butt")
    for end, limit, arrow in ((value.low, left, "<"), (value.high, right, ">")):
        beyond = end < left or end > right
        shape = arrow if beyond else "|"
        place = limit if beyond else end
        axes.plot([place], [y], color=row.colour, marker=shape, mec=row.colour, mew=2, clip_on=False)
    axes.plot([value.value], [y], color=row.colour, marker=row.marker, ms=9, clip_on=False)
