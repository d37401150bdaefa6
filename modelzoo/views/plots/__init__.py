"""A plot: what it shows, its data as a table, and what draws it.

matplotlib lays it out: axes have the height that they ask for, and titles, ticks and legends what they need besides. A
page's plots have one width, which it scales; text stays text, and colours follow the page.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from modelzoo.document import Column, Figure, Table, theme
from modelzoo.files import write_atomically
from modelzoo.formatting import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas


WIDTH = 400.0
"""Of a page's plots in CSS pixels. A phone shows it at nine tenths of that, a desktop at up to 1.4 times."""
HEIGHT = 270.0
"""Of axes that have no rows of their own, in CSS pixels."""
MOST_DRAWN = 7
"""Settings of one workload that are drawn: as many as there are colours. The tables have all of them."""
TEXT, SMALL, LINE = 12.0, 11.0, 16.0
"""Sizes of text, and the height of a line, in CSS pixels."""
GROUND = {"facecolor": theme.PAGE, "edgecolor": "none", "pad": 0.5}
"""Behind text that stands on lines or colours (``bbox``)."""
_TALL = 5000.0
"""Of a figure that is not laid out yet, in CSS pixels: more than any legend takes."""
_SETTINGS = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "path.simplify": False,
    "font.sans-serif": "DejaVu Sans",
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
    "figure.constrained_layout.hspace": 0,
    "figure.constrained_layout.use": True,
    "figure.dpi": 72,
    "figure.facecolor": theme.PAGE,
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
_TAG = re.compile("<[^>]+>")
_COLOUR = re.compile("|".join(theme.VARIABLES))
_SUPERFLUOUS = re.compile(r'(?<=^<g) id="[^"]*"|(?<=\.\d\d)\d+|xlink:(?=href)')
"""In a tag: ids of groups, to which nothing refers and which would not be unique in a page; digits; a namespace."""
T = TypeVar("T")


class Plot(msgspec.Struct, frozen=True):
    """A plot that is not drawn yet.

    Attributes:
        title: what it shows.
        caption: how to read it.
        columns: all that it shows as a table, for whoever cannot see it or wants the numbers.
        draw: draws it on an empty figure, and returns the height of all its axes in CSS pixels.
        width: in CSS pixels; that of a page's plots is always the same.
    """

    title: str
    caption: str
    columns: Sequence[Column]
    draw: Callable[[Canvas], float]
    width: float = WIDTH

    def figure(self, name: str) -> Figure:
        """Return the plot as a part of a page; ``name`` is unique in it, as an id."""

        def follow_page(tag: re.Match[str]) -> str:
            return _COLOUR.sub(lambda found: f"var({theme.VARIABLES[found.group()]}, {found.group()})", tag.group())

        drawing = _TAG.sub(follow_page, self._drawn(name, "The data are in a table."))
        return Figure(self.caption, drawing, Table("The data of the plot", tuple(self.columns)))

    def write(self, path: Path) -> Path:
        """Write the plot as an SVG file of its own, whose description has the data; return ``path``.

        Raises:
            OSError: the file cannot be written.
        """
        titles = [column.title for column in self.columns]
        rows = zip(*(column.cells for column in self.columns))
        data = "; ".join(", ".join(" ".join(pair).strip() for pair in zip(titles, row)) for row in rows)
        write_atomically(path, f'<?xml version="1.0" encoding="utf-8"?>\n{self._drawn("plot", data)}\n')
        return path

    def _drawn(self, name: str, data: str) -> str:
        """An ``<svg>`` element whose ids begin with ``name``; no matplotlibrc changes it, and equal plots are equal."""
        from matplotlib import style
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure as Canvas
        from matplotlib.text import Text as Label

        out = io.StringIO()
        # Names of layers and files may have characters that matplotlib's fonts lack; the page's fonts will show them.
        with style.context(["default", _SETTINGS, {"svg.hashsalt": name}]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r".*[Gg]lyph.*missing from")
            canvas = Canvas(figsize=(self.width / 72, _TALL / 72))
            FigureCanvasSVG(canvas)
            height = self.draw(canvas)
            for label in canvas.findobj(Label):
                label.set_text("\n".join(map(printable, label.get_text().split("\n"))))
            layout = canvas.get_layout_engine()
            assert layout is not None
            layout.execute(canvas)
            # What is not axes keeps its height.
            height += _TALL * (1 - sum(axes.get_position().height for axes in canvas.axes))
            canvas.set_figheight(height / 72)
            canvas.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        # The first definitions are a style sheet, which would hold for the whole page.
        drawn = _TAG.sub(lambda tag: _SUPERFLUOUS.sub("", tag.group()), out.getvalue().partition("</defs>")[2])
        said = f"{self.caption} {data}".strip()
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" width="{self.width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {height:.2f}" style="stroke-linejoin: round" role="img" '
            f'aria-labelledby="{name}-title" aria-describedby="{name}-desc"><title id="{name}-title">'
            f'{escape(printable(self.title))}</title><desc id="{name}-desc">{escape(printable(said))}</desc>'
            + re.sub(r">\s+<", "><", drawn).strip()
        )


def columns(titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> list[Column]:
    """The rows of a table as columns, those of ``numbers`` aligned as such."""
    found = list(rows)
    return [
        Column(title, tuple(row[index] for row in found), is_number=title in numbers)
        for index, title in enumerate(titles)
    ]


def few(found: Sequence[T]) -> Sequence[T]:
    """The settings that are drawn: the first ones."""
    return found[:MOST_DRAWN]


def captioned(text: str, found: Sequence[object], most: int = MOST_DRAWN) -> str:
    """A caption that says how many settings are drawn if not all are."""
    if len(found) <= most:
        return text
    return f"{text} Drawn are the first {most} of {len(found)} settings; the table has all of them."


def spread(count: int, most: int) -> list[int]:
    """Return at most so many of the indices of ``count`` values, at equal distances, the first and the last of them."""
    kept = min(count, most)
    return [round(index * (count - 1) / max(kept - 1, 1)) for index in range(kept)]


def wrapped(text: str, share: float = 0.85) -> str:
    """Break ``text`` into at most three lines, each about that share of the plot wide; ``…`` is for the rest.

    The default leaves room for the sign of a legend.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    shown = printable(text)
    width, _, _ = text_to_path.get_text_width_height_descent(shown or " ", FontProperties(size=TEXT), False)
    room = max(4, int(len(shown) * share * WIDTH / width))
    return "\n".join(textwrap.wrap(shown, room, max_lines=3, placeholder=" …", break_on_hyphens=False))


def add_legend(figure: Canvas) -> None:
    """Name everything that has a label, below the plot."""
    for entry in figure.legend(loc="outside lower left").get_texts():
        entry.set_text(wrapped(entry.get_text()))


def draw_lanes(axes: Axes, lanes: Sequence[tuple[str, str]], height: float) -> tuple[list[float], float]:
    """Prepare a lane for each pair of a label and what is said of it, which stand above it.

    The lines of the axis, which has its limits already, are drawn in the lanes only, so that none runs through a text.

    Returns:
        The middle of each lane, and the height of all axes.
    """
    left, right = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if left <= tick <= right]
    middles, top = [], 0.0
    where = axes.get_yaxis_transform()
    for texts in lanes:
        for text, weight in zip(texts, ("normal", "bold")):
            shown = wrapped(text, 0.95)
            axes.text(0, top, shown, transform=where, va="top", fontweight=weight, in_layout=False)
            top += LINE * len(shown.splitlines())
        middles.append(top + 2 + height / 2)
        axes.vlines(ticks, top + 2, top + 2 + height, color=theme.GRID, lw=0.8, zorder=0.5)
        top += height + 8
    axes.set_ylim(top, 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(False)
    return middles, top


def log_scale(axis: Axis, low: float, high: float) -> None:
    """Make an axis logarithmic from ``low`` to ``high``, with at most about eight ticks in plain round numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    name = "x" if axis is axis.axes.xaxis else "y"
    axis.axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    # A decade or less has too few powers of ten, and round numbers are as good as evenly spaced there.
    narrow = high < 6 * low
    subs = (1,) if high > 10**3 * low else (1, 2, 5)
    locator = MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]) if narrow else LogLocator(subs=subs, numticks=8)
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))


def write_number(axes: Axes, number: int, place: tuple[float, float], offset: tuple[float, float] = (0, 0)) -> None:
    """Write the number of a mark whose name is in the legend, so many CSS pixels beside it."""
    text = axes.annotate(str(number), place, xytext=offset, textcoords="offset points", ha="center", va="center")
    text.set(fontweight="bold", bbox=GROUND, zorder=5)


def number_marks(axes: Axes, places: Sequence[tuple[float, float]]) -> None:
    """Write the number of each mark beside it, from 1: on the side that is farthest from marks and other numbers.

    The axes have their limits already.
    """
    size = (0.85 * WIDTH, HEIGHT)
    shares = ((axes.transScale + axes.transLimits).transform(place) for place in places)
    taken = [(x * size[0], y * size[1]) for x, y in shares]
    for index, (place, own) in enumerate(zip(places, list(taken))):
        others = taken[:index] + taken[index + 1 :]
        ends = [(own[0] + side[0], own[1] + side[1]) for side in _SIDES]
        inside = [end for end in ends if 0 <= end[0] <= size[0] and 0 <= end[1] <= size[1]] or ends
        best = max(inside, key=lambda end: min((math.dist(end, other) for other in others), default=0))
        write_number(axes, index + 1, place, (best[0] - own[0], best[1] - own[1]))
        taken.append(best)
