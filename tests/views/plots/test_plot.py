"""What all plots have in common."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from drawn import HOSTILE, parsed, svg, texts
from matplotlib.figure import Figure

from modelzoo.document import Column, theme
from modelzoo.formatting import printable
from modelzoo.views.plots import plot
from modelzoo.views.plots.plot import GROUND, Plot


def _plot(text: str = "label", caption: str = "caption", legend: int = 0) -> Plot:
    def draw(figure: Figure) -> float:
        axes = figure.add_subplot()
        axes.plot([1, 2, 3], [1.23456789, 2, 3], marker="o", color=theme.BLUE)
        axes.bar([1], [1], hatch="//", color=theme.ORANGE, ec=theme.PAGE)
        axes.text(1, 2, text, bbox=GROUND, in_layout=False)
        for number in range(legend):
            axes.plot([], [], color=theme.INK, label=f"entry {number}")
        if legend:
            plot.add_legend(figure)
        return 100

    return Plot("title", caption, (Column("", ("fp32", "bf16")), Column("speed", ("1 GFLOP/s", "–"))), draw)


def test_drawing_does_not_depend_on_the_users_style_and_leaves_it_alone() -> None:
    """A matplotlibrc with other colours, fonts or TeX changes nothing, and its values are back afterwards."""
    plain = svg(_plot("$a$"))
    with mpl.rc_context({"text.color": "red", "font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path"}):
        assert svg(_plot("$a$")) == plain
        assert mpl.rcParams["font.size"] == 30
    assert "$a$" in texts(plain)


def test_a_file_can_be_opened_anywhere(tmp_path: Path) -> None:
    """Viewers of files know no CSS variables and show a dark ground; no table is beside it."""
    text = _plot().write(tmp_path / "a.svg").read_text()
    assert "caption fp32, speed 1 GFLOP/s; bf16, speed –</desc>" in text
    assert text.startswith("<?xml") and "var(" not in text and "date" not in text
    root = parsed(text.partition("\n")[2])
    assert root.get("width") == "400"
    ground = next(part for part in root.iter("path"))
    assert f"fill: {theme.PAGE}" in ground.attrib["style"]


def test_a_legend_does_not_squeeze_the_axes() -> None:
    """The plot gets as high as it must be."""
    heights = [float(parsed(svg(_plot(legend=count))).attrib["viewBox"].split()[3]) for count in (1, 2, 60)]
    line = heights[1] - heights[0]
    assert 12 < line < 24 and 57 * line < heights[2] - heights[1] < 59 * line


def test_colours_are_variables_and_texts_are_not_changed() -> None:
    """A text that looks like a colour, a reference or markup stays what it is."""
    text = svg(_plot(HOSTILE, HOSTILE))
    assert printable(HOSTILE) in texts(text)
    assert printable(HOSTILE) in str(parsed(text)[1].text)
    assert f"var({theme.VARIABLES[theme.BLUE]}, {theme.BLUE})" in text
    assert "<script" not in text


def test_long_text_is_wrapped_and_cut() -> None:
    """Three lines at most; a word that is longer than a line is broken."""
    lines = plot.wrapped("word " * 50, 0.3).split("\n")
    assert len(lines) == 3 and lines[-1].endswith(" …")
    assert len(plot.wrapped("i" * 100)) > len(plot.wrapped("W" * 30).split("\n")[0]) * 2
