"""What all plots draw on: a figure measured in CSS pixels, without any global state of matplotlib."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from modelzoo.document import theme
from modelzoo.files import write_atomically
from modelzoo.formatting import printable
from modelzoo.report.plots.svg import HALO, svg_element, svg_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

NARROW, WIDE = 360.0, 960.0
"""Widths in CSS pixels: of a phone's page, and of a desktop's."""
FILE_WIDTH = 720.0
"""Width of the files that commands write beside a result, in CSS pixels."""
WIDE_FROM = 600.0
"""From this width on, text stands beside what it belongs to, below it above."""
TEXT, SMALL = 12.5, 11.5
"""Sizes of text in CSS pixels."""
LINE = 16.0
"""Height of a line of text."""
CHARACTER = 6.6
"""Width of an average character of ``TEXT``; a page's sans-serif fonts are rarely wider."""
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "modelzoo",
    "text.parse_math": False,
    "path.simplify": False,
    "font.size": TEXT,
    "axes.edgecolor": theme.FAINT,
    "axes.labelcolor": theme.INK,
    "axes.labelsize": SMALL,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "figure.dpi": 72,
    "grid.color": theme.GRID,
    "grid.linewidth": 0.8,
    "text.color": theme.INK,
    "xtick.color": theme.FAINT,
    "ytick.color": theme.FAINT,
    "xtick.labelcolor": theme.INK,
    "ytick.labelcolor": theme.INK,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "hatch.linewidth": 1.0,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Everything that draws runs in here: with the suite's style, whatever the user's matplotlibrc says."""
    from matplotlib import style

    # Names of layers and files may have characters that matplotlib's fonts lack; the page's fonts will show them.
    with style.context(["default", _SETTINGS]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*[Gg]lyph.*missing from")
        yield


def new_figure(width: float, height: float) -> Figure:
    """A figure of this size in CSS pixels."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    FigureCanvasSVG(figure)
    return figure


def new_axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes whose plotting area lies there, in CSS pixels from the top left corner of the figure."""
    whole_width, whole_height = figure.get_size_inches() * 72
    axes = figure.add_axes(
        (left / whole_width, 1 - (top + height) / whole_height, width / whole_width, height / whole_height)
    )
    axes.set_axisbelow(True)
    return axes


def write(
    figure: Figure,
    x: float,
    y: float,
    text: str,
    *,
    align: str = "left",
    size: float = TEXT,
    colour: str = theme.INK,
    is_bold: bool = False,
    has_halo: bool = False,
) -> None:
    """Write ``text`` on the figure with its baseline at (``x``, ``y``), in CSS pixels from the top left corner.

    Args:
        figure: the figure.
        x: of the text's left end, its right end or its middle, by ``align``.
        y: of the baseline.
        text: one line; what cannot be printed is escaped.
        align: ``left``, ``right`` or ``center``.
        size: of the font, in CSS pixels.
        colour: of the theme.
        is_bold: whether it is set in bold.
        has_halo: whether it is outlined in the colour of the page, to be readable on lines.
    """
    width, height = figure.get_size_inches() * 72
    figure.text(
        x / width,
        1 - y / height,
        printable(text),
        ha=align,
        va="baseline",
        fontsize=size,
        color=colour,
        fontweight="bold" if is_bold else "normal",
        gid=HALO if has_halo else None,
    )


def element(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as an element of a page; see ``svg_element``."""
    is_wide = figure.get_size_inches()[0] * 72 >= WIDE_FROM
    classes = f"plot plot-{'wide' if is_wide else 'narrow'}"
    return svg_element(drawn(figure), name, printable(title), printable(description), classes)


def write_file(draw: Callable[[float], Figure], path: Path, title: str, description: str) -> Path:
    """Write a plot as an SVG file of its own; see ``svg_file``.

    Args:
        draw: makes the figure, of the width that it is given.
        path: of the file.
        title: what the plot shows.
        description: what can be seen in it.

    Returns:
        ``path``.

    Raises:
        OSError: the file cannot be written.
    """
    with drawing():
        text = drawn(draw(FILE_WIDTH))
    write_atomically(path, svg_file(text, title, description))
    return path


def drawn(figure: Figure) -> str:
    """The SVG file as matplotlib writes it; equal figures give equal files."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def wrapped(text: str, width: float, lines: int = 3) -> list[str]:
    """Break ``text`` into at most ``lines`` lines that fit into ``width`` CSS pixels; ``…`` stands for the rest."""
    characters = max(4, int(width / CHARACTER))
    found = textwrap.wrap(printable(text), characters) or [""]
    if len(found) > lines:
        found = [*found[: lines - 1], found[lines - 1][: characters - 2].rstrip() + " …"]
    return found


def set_ticks(axis: Axis, ticks: Sequence[float], scale: float = 1.0, suffix: str = "") -> None:
    """Put ticks on an axis whose values are ``scale`` times smaller than the numbers that it shows.

    Args:
        axis: the axis.
        ticks: the numbers to show.
        scale: by which the axis's values are multiplied.
        suffix: after each number.
    """
    axis.set_ticks([tick / scale for tick in ticks], [f"{tick:g}{suffix}" for tick in ticks])
    axis.set_ticks([], minor=True)


def time_unit(values: Sequence[float]) -> tuple[float, str]:
    """The unit in which times like these are shown: its number per second, and its name."""
    largest = max(values, default=0.0)
    if largest >= 2:
        return 1.0, "s"
    return (1e3, "ms") if largest >= 2e-3 else (1e6, "µs")
