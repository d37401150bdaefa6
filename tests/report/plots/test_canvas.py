"""What all plots draw on."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from drawn import boxes, parsed

from modelzoo.document import theme
from modelzoo.report.plots import canvas


def test_drawing_does_not_depend_on_the_users_style_and_leaves_it_alone() -> None:
    """A matplotlibrc with other colours, fonts or TeX changes nothing, and its values are back afterwards."""

    def element() -> str:
        with canvas.drawing():
            figure = canvas.new_figure(360, 60)
            canvas.new_axes(figure, 20, 10, 300, 30).plot([1, 2])
            canvas.write(figure, 5, 12, "$a$")
            return canvas.element(figure, "a", "t", "d")

    plain = element()
    with mpl.rc_context({"text.color": "red", "font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path"}):
        assert element() == plain
        assert mpl.rcParams["font.size"] == 30
    assert "$a$" in plain


def test_positions_are_pixels_from_the_top_left_corner() -> None:
    """Text and axes lie where they were put."""
    with canvas.drawing():
        figure = canvas.new_figure(200, 100)
        axes = canvas.new_axes(figure, 10, 20, 100, 30)
        axes.axhspan(0, 1, color=theme.BAND)
        axes.set_ylim(0, 1)
        canvas.write(figure, 50, 40, "here")
        text = canvas.element(figure, "a", "t", "d")
    (box,) = [box for box in boxes(text) if box.text == "here"]
    assert (box.left, box.bottom) == (50, 40)
    (span,) = [part for part in parsed(text).iter("path") if theme.BAND in part.get("style", "")]
    assert span.attrib["d"].split()[:3] == ["M", "10", "50"]


@pytest.mark.parametrize(("width", "name"), [(canvas.NARROW, "plot-narrow"), (canvas.WIDE, "plot-wide")])
def test_the_class_says_how_wide_a_plot_is(width: float, name: str) -> None:
    """So that a page can show the one that fits."""
    with canvas.drawing():
        assert f'class="plot {name}"' in canvas.element(canvas.new_figure(width, 50), "a", "t", "d")


def test_long_text_is_wrapped_and_cut() -> None:
    """Three lines at most; a word that is longer than a line is broken; control characters are shown escaped."""
    assert canvas.wrapped("a b", 100) == ["a b"]
    assert canvas.wrapped("", 100) == [""]
    lines = canvas.wrapped("word " * 50, 100)
    assert len(lines) == 3 and lines[-1].endswith(" …")
    assert max(map(len, canvas.wrapped("x" * 500, 100))) <= 100 / canvas.CHARACTER + 1
    assert canvas.wrapped("a\n\x1b", 200) == ["a\\n\\x1b"]


def test_units_of_time() -> None:
    """The largest value decides, so that it has at most four digits before the point."""
    assert canvas.time_unit([0.05, 3.0]) == (1.0, "s")
    assert canvas.time_unit([0.05]) == (1e3, "ms")
    assert canvas.time_unit([5e-5]) == (1e6, "µs")
