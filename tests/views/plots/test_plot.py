"""What all plots have in common."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from drawn import svg, texts
from matplotlib.figure import Figure

from modelzoo.document import Column, Text
from modelzoo.views.plots import plot
from modelzoo.views.plots.plot import Plot


def draw(figure: Figure) -> None:
    """A line, and a title that TeX would take for mathematics."""
    axes = figure.add_subplot()
    axes.plot([1, 2])
    axes.set_title("$a$")


PLOT = Plot("title", Text("caption"), (Column("a", ("1",)),), 90, draw)


def test_drawing_does_not_depend_on_the_users_style_and_leaves_it_alone() -> None:
    """A matplotlibrc with other colours, fonts or TeX changes nothing, and its values are back afterwards."""
    plain = svg(PLOT)
    with mpl.rc_context({"text.color": "red", "font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path"}):
        assert svg(PLOT) == plain
        assert mpl.rcParams["font.size"] == 30
    assert "$a$" in texts(plain)


def test_a_figure_has_the_caption_and_the_data_of_its_plot() -> None:
    """Who cannot see the plot hears its caption, and that there is a table."""
    figure = PLOT.figure("name")
    assert figure.caption == PLOT.caption
    assert figure.data.columns == PLOT.columns
    assert "caption The data are in a table." in figure.drawing


def test_the_description_of_a_file_has_the_data(tmp_path: Path) -> None:
    """No table is beside it."""
    columns = (Column("", ("fp32", "bf16")), Column("speed", ("1 GFLOP/s", "–")))
    path = Plot("title", Text("caption"), columns, 90, draw).write(tmp_path / "a.svg")
    assert "caption fp32, speed 1 GFLOP/s; bf16, speed –</desc>" in path.read_text()


def test_more_settings_than_colours_are_in_the_table_only() -> None:
    """The caption says how many are drawn."""
    assert plot.few(range(9)) == range(7)
    assert str(plot.captioned("Text.", range(9))).endswith(
        "Drawn are the first 7 of 9 settings; the table has all of them."
    )
    assert str(plot.captioned("Text.", range(7))) == "Text."


def test_long_text_is_wrapped_and_cut() -> None:
    """Three lines at most; a word that is longer than a line is broken; control characters are shown escaped."""
    assert plot.wrapped("a b") == "a b"
    assert plot.wrapped("") == ""
    lines = plot.wrapped("word " * 50, 0.3).split("\n")
    assert len(lines) == 3 and lines[-1].endswith(" …")
    assert plot.wrapped("a\n\x1b") == "a\\n\\x1b"


def test_numbers_of_neighbours_are_on_different_sides() -> None:
    """Even if two marks are at the same place, their numbers are not."""
    axes = Figure().add_subplot()
    plot.number_marks(axes, [(0.5, 0.5), (0.5, 0.5)])
    first, second = (text.get_position() for text in axes.texts)
    assert first != second


def test_numbers_stay_inside_of_the_axes() -> None:
    """Those of marks at an edge do not stand on the labels of the ticks."""
    axes = Figure().add_subplot()
    plot.number_marks(axes, [(0.0, 0.0), (0.5, 0.01), (1.0, 1.0)])
    for text in axes.texts:
        place = axes.transData.transform(text.xy)
        assert axes.bbox.contains(*(place + text.get_position()))
