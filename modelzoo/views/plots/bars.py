"""Stacked bars of times or of shares, one per setting, with what the segments are as a numbered legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Callable

import msgspec

from modelzoo.document import theme
from modelzoo.formatting import time_unit
from modelzoo.views.plots.plot import add_legend, height_of, wrapped, write_number
from modelzoo.views.plots.svg import HALO

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERED_FROM = 0.04
"""Share of the longest bar from which on a segment has its number in it."""
_LINE, _BAR, _GAP = 16.0, 28.0, 10.0
"""Heights in CSS pixels."""

Key = tuple[str, str]
"""What a segment is: its name, and its kind, which decides the colour."""


class StackedBar(msgspec.Struct, frozen=True):
    """One setting.

    Attributes:
        label: text above the bar.
        parts: seconds, or share, of each segment.
    """

    label: str
    parts: Mapping[Key, float]

    @property
    def total(self) -> float:
        """Of the whole bar."""
        return sum(self.parts.values())


class Look(msgspec.Struct, frozen=True):
    """How bars are drawn.

    Attributes:
        axis: what the values are, without their unit.
        style: colour and hatch of a kind.
        kind: the text of a kind in the legend; may be empty.
        is_share: whether the values are shares, 0 to 1, and not seconds.
    """

    axis: str
    style: Callable[[str], tuple[str, str]]
    kind: Callable[[str], str]
    is_share: bool = False


def height(bars: Sequence[StackedBar], keys: Sequence[Key], look: Look) -> float:
    """The height of a plot of these bars in CSS pixels."""
    return sum(map(_height, bars)) + 46 + height_of(_entries(keys, look))


def _label(one: StackedBar) -> str:
    return wrapped(one.label)


def _height(one: StackedBar) -> float:
    return _LINE * (1 + _label(one).count("\n")) + _BAR + _GAP


def _entries(keys: Sequence[Key], look: Look) -> list[str]:
    kinds = [look.kind(kind) for _, kind in keys]
    return [
        wrapped(f"{number} {name}" + (f", {kind}" if kind else ""), 0.85)
        for number, ((name, _), kind) in enumerate(zip(keys, kinds), 1)
    ]


def draw(bars: Sequence[StackedBar], keys: Sequence[Key], look: Look, figure: Figure) -> None:
    """Draw the bars, whose segments are in the order of ``keys``."""
    axes = figure.add_subplot()
    unit, scale = ("%", 100.0) if look.is_share else time_unit(max(one.total for one in bars))
    axes.set_xlim(0, scale * max(one.total for one in bars))
    bottoms = list(accumulate(map(_height, bars)))
    axes.set_ylim(bottoms[-1], 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"{look.axis} in {unit}")
    for one, bottom in zip(bars, bottoms):
        axes.text(0, bottom - _height(one), _label(one), va="top", gid=HALO, in_layout=False)
    middles, left = [bottom - _GAP - _BAR / 2 for bottom in bottoms], [0.0] * len(bars)
    for number, (key, entry) in enumerate(zip(keys, _entries(keys, look)), 1):
        colour, hatch = look.style(key[1])
        spent = [scale * one.parts.get(key, 0.0) for one in bars]
        axes.barh(middles, spent, _BAR, left=left, color=colour, hatch=hatch, ec=theme.PAGE, lw=1, label=entry)
        for start, width, middle in zip(left, spent, middles):
            if width >= NUMBERED_FROM * axes.get_xlim()[1]:
                write_number(axes, number, (start + width / 2, middle))
        left = [start + width for start, width in zip(left, spent)]
    add_legend(figure)
