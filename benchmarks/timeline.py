"""Time lines as pictures: bars on lanes, with marks at certain times. Used by ``timing_pictures.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.document import theme
from modelzoo.files import write_atomically
from modelzoo.report.plots import canvas
from modelzoo.report.plots.svg import HALO, svg_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, LEFT = 760.0, 130.0
ROW, TITLE, MOMENTS, AXIS = 30.0, 30.0, 18.0, 40.0
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
    titles = [TITLE + (MOMENTS if each.moments else 0.0) for each in lines]
    heights = [title + ROW * len(each.lanes) for title, each in zip(titles, lines)]
    end = max(each.end for each in lines)
    with canvas.drawing():
        figure = canvas.new_figure(WIDTH, sum(heights) + AXIS)
        top = 0.0
        for each, title_height, height in zip(lines, titles, heights):
            canvas.write(figure, 8, top + 19, each.title, is_bold=True)
            axes = canvas.new_axes(figure, LEFT, top + title_height, WIDTH - LEFT - 16, ROW * len(each.lanes))
            axes.set_xlim(0, end)
            axes.set_ylim(len(each.lanes), 0)
            axes.set_yticks([])
            axes.spines["left"].set_visible(False)
            for index, lane in enumerate(each.lanes):
                canvas.write(figure, LEFT - 10, top + title_height + ROW * (index + 0.65), lane, align="right")
            _draw(axes, each, (WIDTH - LEFT - 16) / end)
            if each is not lines[-1]:
                axes.set_xticks([])
            top += height
        canvas.write(figure, WIDTH - 16, top + 32, "ms", align="right", size=canvas.SMALL)
        drawn = canvas.drawn(figure)
    write_atomically(path, svg_file(drawn, title, description))


def _draw(axes: Axes, line: Lanes, pixels: float) -> None:
    for bar in line.bars:
        colour, hatch = STYLES[bar.kind]
        row = line.lanes.index(bar.lane)
        axes.barh(row + 0.5, bar.end - bar.start, 0.76, left=bar.start, color=colour, hatch=hatch, ec=theme.PAGE, lw=1)
        if len(bar.text) * canvas.CHARACTER * 0.9 < (bar.end - bar.start) * pixels:
            axes.text((bar.start + bar.end) / 2, row + 0.5, bar.text, ha="center", va="center_baseline", gid=HALO)
    for name, at in line.moments:
        axes.axvline(at, color=theme.INK, lw=1, ls=(0, (2, 2)))
        axes.text(at, -0.08, name, ha="center", va="bottom", fontweight="bold")
