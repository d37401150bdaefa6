"""Time lines as pictures: bars on lanes, with marks at certain times. Used by ``timing_pictures.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.document import theme
from modelzoo.views.plots import GROUND, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, ROW = 720.0, 30.0
"""In CSS pixels."""
CHARACTERS = 96
"""Of a text that is as wide as the lanes."""
STYLES = {
    "host": (theme.ORANGE, "////"),
    "issue": (theme.ORANGE, ""),
    "device": (theme.SKY, ""),
    "wait": (theme.GREY, ""),
}
"""Colour and hatch by kind: work of the host, issuing work to the device, work of the device, waiting for it."""


@dataclass(frozen=True)
class Bar:
    """Something that takes time on a lane; ``start`` and ``end`` in milliseconds."""

    lane: str
    kind: str
    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Lanes:
    """One time line: its lanes from top to bottom, what happens on them, and moments with a name."""

    title: str
    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    moments: tuple[tuple[str, float], ...] = ()

    @property
    def end(self) -> float:
        """When the last bar ends."""
        return max(bar.end for bar in self.bars)


def write(path: Path, lines: Sequence[Lanes], title: str, description: str) -> None:
    """Draw time lines one below the other, on one axis, as an SVG file."""
    Plot(title, description, (), partial(_draw_all, lines), WIDTH).write(path)


def _draw_all(lines: Sequence[Lanes], figure: Figure) -> float:
    heights = [len(each.lanes) for each in lines]
    every = figure.subplots(len(lines), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for each, axes in zip(lines, every):
        axes.set_xlim(0, max(line.end for line in lines))
        axes.set_ylim(len(each.lanes), 0)
        axes.set_yticks([index + 0.5 for index in range(len(each.lanes))], each.lanes)
        axes.grid(False)
        axes.spines["left"].set_visible(False)
        axes.set_title(each.title, fontweight="bold", pad=18 if each.moments else 6)
        _draw(axes, each)
    every[-1].set_xlabel("ms")
    return ROW * sum(heights)


def _draw(axes: Axes, line: Lanes) -> None:
    for bar in line.bars:
        colour, hatch = STYLES[bar.kind]
        row, share = line.lanes.index(bar.lane), (bar.end - bar.start) / axes.get_xlim()[1]
        axes.barh(row + 0.5, bar.end - bar.start, 0.76, left=bar.start, color=colour, hatch=hatch, ec=theme.PAGE, lw=1)
        if len(bar.text) < CHARACTERS * share:
            text = axes.text((bar.start + bar.end) / 2, row + 0.5, bar.text, ha="center", va="center_baseline")
            text.set_bbox(GROUND if hatch else None)
    for name, at in line.moments:
        axes.axvline(at, color=theme.INK, lw=1, ls=(0, (2, 2)))
        above = axes.annotate(name, (at, 0), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom")
        above.set_fontweight("bold")
