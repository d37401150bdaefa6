"""Colours of the plots: drawn in the colours of the light theme, which a page replaces through CSS variables.

The series have the colours of Okabe and Ito ("Color Universal Design", 2008), which colour-blind readers can tell
apart; each series has a marker and a line style of its own besides.
"""

from __future__ import annotations

_COLOURS = {
    "ink": ("#1a1a1a", "#ececec"),
    "faint": ("#5c5c5c", "#b3b3b3"),
    "grid": ("#d9d9d9", "#3d4248"),
    "band": ("#e3e8ee", "#2b3138"),
    "grey": ("#c3c9d1", "#565e68"),
    "page": ("#ffffff", "#15181c"),
    "blue": ("#0072b2", "#56b4e9"),  # too dark on a dark page; it changes places with the light blue
    "vermillion": ("#d55e00", "#d55e00"),
    "green": ("#009e73", "#009e73"),
    "purple": ("#cc79a7", "#cc79a7"),
    "orange": ("#e69f00", "#e69f00"),
    "sky": ("#56b4e9", "#0072b2"),
}
"""By name, the colour of the light theme and that of the dark one: text and lines; secondary text; grids; areas behind
the data; what is not of interest; the page itself; those of the series.
"""
INK, FAINT, GRID, BAND, GREY, PAGE, *_SERIES_COLOURS = (light for light, _ in _COLOURS.values())
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = _SERIES_COLOURS
VARIABLES = {light: f"--plot-{name}" for name, (light, _) in _COLOURS.items()}
"""The CSS variable that replaces each colour."""
DARK = {light: dark for light, dark in _COLOURS.values() if dark != light}
"""The colours that differ in the dark theme."""

_PRECISIONS = {
    "fp32": (BLUE, ""),
    "bf16": (VERMILLION, "////"),
    "tf32": (SKY, "----"),
    "fp16": (ORANGE, "\\\\\\\\"),
    "int8": (PURPLE, "xxxx"),
    "unknown precision": (GREY, "...."),
}


def precision_style(precision: str) -> tuple[str, str]:
    """Return the colour and the hatch of a precision, which are the same in all plots."""
    return _PRECISIONS.get(precision, (GREEN, "...."))


Style = tuple[str, str, tuple[int, tuple[float, ...] | None]]
_SERIES: tuple[Style, ...] = (
    (BLUE, "o", (0, None)),
    (VERMILLION, "s", (0, (5, 2))),
    (GREEN, "^", (0, (1.5, 1.5))),
    (PURPLE, "D", (0, (6, 2, 1.5, 2))),
    (ORANGE, "v", (0, (9, 3))),
    (SKY, "P", (0, (3, 1.5, 1, 1.5, 1, 1.5))),
    (INK, "X", (0, (12, 3))),
)
"""The colour, the marker and the line style of each series, as matplotlib takes them: a style is lengths of dashes and
gaps in line widths; ``None`` is a solid line.
"""


def series_style(index: int) -> Style:
    """The style of the series ``index``, from 0. Colours repeat from the eighth on, with other markers."""
    colour, _, line = _SERIES[index % len(_SERIES)]
    return colour, _SERIES[(index + index // len(_SERIES)) % len(_SERIES)][1], line


def _declarations(colours: dict[str, str]) -> str:
    return "".join(f"{VARIABLES[light]}:{shown};" for light, shown in colours.items())


CSS = (
    f":root{{{_declarations({light: light for light in VARIABLES})}}}\n"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_declarations(DARK)}}}}}\n"
    ".plot{display:block;width:100%;height:auto;max-width:34rem}\n"
    ".plot text{font-family:system-ui,sans-serif!important}\n"
)
"""What a page needs so that its plots follow its theme, its width and its font. Print is always light."""
