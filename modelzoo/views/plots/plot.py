"""A plot: what it shows, its data as a table, and what draws it.

matplotlib lays it out: axes, ticks and legends have the place that they need. A page's plots have one width, which it
scales; text stays text, and colours follow the page.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Callable, TypeVar

import msgspec

from modelzoo.document import Column, Figure, Table, Text, theme
from modelzoo.files import write_atomically
from modelzoo.formatting import printable
from modelzoo.views.plots.svg import HALO, svg_element, svg_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas


WIDTH = 400.0
"""Of a page's plots in CSS pixels. A phone shows it at nine tenths of that, a desktop at up to 1.4 times."""
MOST_DRAWN = 7
"""Settings of one workload that are drawn: as many as there are colours. The tables have all of them."""
TEXT, SMALL = 12.0, 11.0
"""Sizes of text in CSS pixels."""
_CHARACTERS = 51
"""Of a line of ``TEXT`` that is as wide as the plot; a page's sans-serif fonts are rarely wider."""
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "modelzoo",
    "text.parse_math": False,
    "path.simplify": False,
    "font.size": TEXT,
    "axes.axisbelow": True,
    "axes.edgecolor": theme.FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": theme.INK,
    "axes.labelsize": SMALL,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": TEXT,
    "figure.constrained_layout.use": True,
    "figure.dpi": 72,
    "figure.facecolor": "none",
    "grid.color": theme.GRID,
    "grid.linewidth": 0.8,
    "hatch.linewidth": 1.0,
    "legend.fontsize": TEXT,
    "legend.frameon": False,
    "lines.markeredgecolor": theme.PAGE,
    "lines.markersize": 8,
    "text.color": theme.INK,
    "xtick.color": theme.FAINT,
    "ytick.color": theme.FAINT,
    "xtick.labelcolor": theme.INK,
    "ytick.labelcolor": theme.INK,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
}
_SIDES = ((13.0, 0.0), (-13.0, 0.0), (0.0, 13.0), (0.0, -13.0))
"""Where the number of a mark may be."""
T = TypeVar("T")


class Plot(msgspec.Struct, frozen=True):
    """A plot that is not drawn yet.

    Attributes:
        title: what it shows.
        caption: how to read it.
        columns: all that it shows as a table, for whoever cannot see it or wants the numbers.
        height: in CSS pixels.
        draw: draws it on an empty figure.
        width: in CSS pixels; that of a page's plots is always the same.
    """

    title: str
    caption: Text
    columns: Sequence[Column]
    height: float
    draw: Callable[[Canvas], None]
    width: float = WIDTH

    def figure(self, name: str) -> Figure:
        """Return the plot as a part of a page; ``name`` is unique in it."""
        description = printable(f"{self.caption} The data are in a table.")
        drawing = svg_element(self._drawn(), name, printable(self.title), description)
        return Figure(self.caption, drawing, Table("The data of the plot", tuple(self.columns)))

    def write(self, path: Path) -> Path:
        """Write the plot as an SVG file of its own, whose description has the data; return ``path``.

        Raises:
            OSError: the file cannot be written.
        """
        titles = [column.title for column in self.columns]
        rows = zip(*(column.cells for column in self.columns))
        data = "; ".join(", ".join(" ".join(pair).strip() for pair in zip(titles, row)) for row in rows)
        description = printable(f"{self.caption} {data}".strip())
        write_atomically(path, svg_file(self._drawn(), printable(self.title), description))
        return path

    def _drawn(self) -> str:
        """The SVG file as matplotlib writes it; equal plots give equal files, whatever the user's matplotlibrc says."""
        from matplotlib import style
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure as Canvas
        from matplotlib.text import Text as Label

        out = io.StringIO()
        # Names of layers and files may have characters that matplotlib's fonts lack; the page's fonts will show them.
        with style.context(["default", _SETTINGS]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r".*[Gg]lyph.*missing from")
            canvas = Canvas(figsize=(self.width / 72, self.height / 72))
            FigureCanvasSVG(canvas)
            self.draw(canvas)
            for label in canvas.findobj(Label):
                label.set_text("\n".join(map(printable, label.get_text().split("\n"))))
            canvas.savefig(out, format="svg", metadata={"Date": None})
        return out.getvalue()


def few(found: Sequence[T]) -> Sequence[T]:
    """The settings that are drawn: the first ones."""
    return found[:MOST_DRAWN]


def captioned(text: str, found: Sequence[object]) -> Text:
    """A caption that says how many settings are drawn if not all are."""
    if len(found) > MOST_DRAWN:
        text += f" Drawn are the first {MOST_DRAWN} of {len(found)} settings; the table has all of them."
    return Text(text)


def wrapped(text: str, share: float = 1.0, lines: int = 3) -> str:
    """Break ``text`` into at most ``lines`` lines, each as wide as that share of the plot; ``…`` is for the rest."""
    width = max(4, int(_CHARACTERS * share))
    found = textwrap.wrap(printable(text), width, break_on_hyphens=False) or [""]
    if len(found) > lines:
        found = [*found[: lines - 1], found[lines - 1][: width - 2].rstrip() + " …"]
    return "\n".join(found)


def add_legend(figure: Canvas) -> None:
    """Name everything that has a label, below the plot."""
    figure.legend(loc="outside lower left")


def height_of(texts: Sequence[str], line: float = 18.0) -> float:
    """The height of a legend with these entries."""
    return line * sum(1 + text.count("\n") for text in texts) + 8


def log_scale(axis: Axis, low: float, high: float, most: int = 8) -> None:
    """Make an axis logarithmic from ``low`` to ``high``, with at most about ``most`` ticks in plain round numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axes: Axes = axis.axes
    if axis is axes.xaxis:
        axes.set_xscale("log")
        axes.set_xlim(low, high)
    else:
        axes.set_yscale("log")
        axes.set_ylim(low, high)
    # A decade or less has too few powers of ten, and round numbers are as good as evenly spaced there.
    narrow = high < 6 * low
    locator = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]) if narrow else LogLocator(subs=(1, 2, 5), numticks=most)
    if high > 10**3 * low:
        locator = LogLocator(numticks=most)
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))


def write_number(axes: Axes, number: int, place: tuple[float, float], offset: tuple[float, float] = (0, 0)) -> None:
    """Write the number of a mark whose name is in the legend, so many CSS pixels beside it."""
    axes.annotate(
        str(number),
        place,
        xytext=offset,
        textcoords="offset points",
        ha="center",
        va="center",
        fontweight="bold",
        gid=HALO,
        zorder=5,
    )


def number_marks(axes: Axes, places: Sequence[tuple[float, float]]) -> None:
    """Write the number of each mark beside it, from 1: on the side that is farthest from marks and other numbers."""
    # The limits of the axes are set already, and their final size is not much different.
    taken = [tuple(axes.transData.transform(place)) for place in places]
    for number, place in enumerate(places, 1):
        x, y = taken[number - 1]
        others = [other for index, other in enumerate(taken) if index != number - 1]
        ends = [(x + side[0], y + side[1]) for side in _SIDES]
        inside = [end for end in ends if axes.bbox.contains(*end)] or ends
        best = max(inside, key=lambda end: min((math.dist(end, other) for other in others), default=0))
        write_number(axes, number, place, (best[0] - x, best[1] - y))
        taken.append(best)
