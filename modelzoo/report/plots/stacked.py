"""Stacked bars of times, one per setting, with what the segments are as a numbered list below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable

from modelzoo.document import theme
from modelzoo.report.plots import canvas
from modelzoo.report.plots.svg import HALO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NUMBERED_FROM = 15.0
"""Width in CSS pixels from which on a segment has its number in it."""
_LABEL, _BAR, _GAP, _AXIS, _ENTRY = 18.0, 30.0, 12.0, 44.0, 19.0

Key = tuple[str, str]
"""What a segment is: its name, and its kind, which decides the colour."""


@dataclass(frozen=True)
class StackedBar:
    """One setting.

    Attributes:
        label: text above the bar.
        parts: seconds of each segment.
    """

    label: str
    parts: Mapping[Key, float]

    @property
    def total(self) -> float:
        """Seconds of the whole bar."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Look:
    """How bars are drawn.

    Attributes:
        axis: what the times are, without their unit.
        style: colour and hatch of a kind.
        kind: the text of a kind in the list; may be empty.
    """

    axis: str
    style: Callable[[str], tuple[str, str]]
    kind: Callable[[str], str]


def draw(bars: Sequence[StackedBar], keys: Sequence[Key], look: Look, width: float) -> Figure:
    """Draw the bars, whose segments are in the order of ``keys``; call it inside of ``canvas.drawing``."""
    heights = len(bars) * (_LABEL + _BAR + _GAP)
    entries = [canvas.wrapped(f"{number} {key[0]}", _list_width(width) - 88) for number, key in enumerate(keys, 1)]
    legend = sum(_ENTRY + (len(lines) - 1) * canvas.LINE for lines in entries)
    figure = canvas.new_figure(width, heights + _AXIS + legend + 8)
    axes = canvas.new_axes(figure, 8, 0, width - 22, heights)
    scale, unit = canvas.time_unit([one.total for one in bars])
    _draw_bars(figure, axes, bars, keys, look, scale)
    canvas.write(figure, width - 14, heights + 34, f"{look.axis} in {unit}", align="right", size=canvas.SMALL)
    _draw_legend(figure, keys, entries, look, heights + _AXIS + 8)
    return figure


def _draw_bars(
    figure: Figure, axes: Axes, bars: Sequence[StackedBar], keys: Sequence[Key], look: Look, scale: float
) -> None:
    longest = max(one.total for one in bars) * scale
    axes.set_xlim(0, longest)
    height = len(bars) * (_LABEL + _BAR + _GAP)
    axes.set_ylim(height, 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=6)
    pixels = (figure.get_size_inches()[0] * 72 - 22) / longest
    for index, one in enumerate(bars):
        top, left = index * (_LABEL + _BAR + _GAP), 0.0
        canvas.write(figure, 8, top + 14, canvas.wrapped(one.label, figure.get_size_inches()[0] * 72 - 16, 1)[0])
        for number, key in enumerate(keys, 1):
            spent = one.parts.get(key, 0.0) * scale
            colour, hatch = look.style(key[1])
            if spent:
                middle = top + _LABEL + _BAR / 2
                axes.barh(middle, spent, _BAR, left=left, color=colour, hatch=hatch, ec=theme.PAGE, lw=1)
                if spent * pixels >= NUMBERED_FROM:
                    _write_number(axes, left + spent / 2, middle, number)
            left += spent


def _write_number(axes: Axes, x: float, y: float, number: int) -> None:
    axes.text(x, y, str(number), ha="center", va="center_baseline", fontweight="bold", gid=HALO)


def _draw_legend(figure: Figure, keys: Sequence[Key], entries: Sequence[Sequence[str]], look: Look, top: float) -> None:
    from matplotlib.patches import Rectangle

    width, height = figure.get_size_inches() * 72
    for (_, kind), lines in zip(keys, entries):
        colour, hatch = look.style(kind)
        corner = (8 / width, 1 - (top + 13) / height)
        patch = Rectangle(corner, 20 / width, 13 / height, fc=colour, hatch=hatch, ec=theme.PAGE, lw=1)
        patch.set_transform(figure.transFigure)
        figure.add_artist(patch)
        for index, line in enumerate(lines):
            canvas.write(figure, 34, top + 11 + index * canvas.LINE, line)
        if look.kind(kind):
            canvas.write(figure, _list_width(width) - 14, top + 11, look.kind(kind), align="right")
        top += _ENTRY + (len(lines) - 1) * canvas.LINE


def _list_width(width: float) -> float:
    """A kind at the far end of a wide line would be hard to tell from its neighbours."""
    return min(width, 480.0)
