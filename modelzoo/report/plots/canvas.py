"""What all plots draw on: a figure measured in CSS pixels, without any global state of matplotlib."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from modelzoo.formatting import printable
from modelzoo.report.plots import svg, theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NARROW, WIDE = 360.0, 960.0
"""Widths in CSS pixels: of a phone's page, and of a desktop's."""
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


def write(figure: Figure, x: float, y: float, text: str, **properties: object) -> None:
    """Write ``text`` on the figure with its baseline at (``x``, ``y``), in CSS pixels from the top left corner."""
    width, height = figure.get_size_inches() * 72
    figure.text(x / width, 1 - y / height, text, **{"va": "baseline", "fontsize": TEXT, **properties})


def element(figure: Figure, name: str, title: str, description: str) -> str:
    """The figure as an element of a page; see ``svg.element``."""
    is_wide = figure.get_size_inches()[0] * 72 >= WIDE_FROM
    classes = f"plot plot-{'wide' if is_wide else 'narrow'}"
    return svg.element(drawn(figure), name, printable(title), printable(description), classes)


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


def plain_ticks(axes: Axes, scale: float = 1.0) -> None:
    """Show the numbers of both axes without exponents; those of the vertical one multiplied by ``scale``."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * scale:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())


def time_unit(values: Sequence[float]) -> tuple[float, str]:
    """The unit in which times like these are shown: its number per second, and its name."""
    largest = max(values, default=0.0)
    if largest >= 2:
        return 1.0, "s"
    return (1e3, "ms") if largest >= 2e-3 else (1e6, "µs")
