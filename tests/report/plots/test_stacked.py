"""Stacked bars: segments as long as their times, and a list that names them."""

from __future__ import annotations

import pytest
from drawn import check

from modelzoo.document import theme
from modelzoo.report.plots import canvas, stacked
from modelzoo.report.plots.stacked import Look, StackedBar

KEYS = [("long", "a"), ("short", "b")]
LOOK = Look("time", style=lambda kind: (theme.SKY, "") if kind == "a" else (theme.GREY, "////"), kind=str.upper)


@pytest.mark.parametrize("width", [canvas.NARROW, canvas.WIDE])
def test_segments_follow_each_other_and_add_up(width: float) -> None:
    """In the order of the keys; the axis ends with the longest bar."""
    bars = [StackedBar("first", {KEYS[0]: 0.3, KEYS[1]: 0.1}), StackedBar("second", {KEYS[0]: 0.2})]
    with canvas.drawing():
        figure = stacked.draw(bars, KEYS, LOOK, width)
        axes = figure.axes[0]
        drawn = [(patch.get_x(), patch.get_width()) for patch in axes.patches]
        assert [value for each in drawn for value in each] == pytest.approx([0, 300, 300, 100, 0, 200])
        assert axes.get_xlim() == pytest.approx((0, 400))
        texts = [text.get_text() for text in figure.texts]
        assert {"first", "second", "time in ms", "1 long", "2 short", "A", "B"} <= set(texts)
        check(canvas.element(figure, "plot", "title", "description"))


def test_a_bar_has_the_time_of_its_parts() -> None:
    """Whatever their order."""
    assert StackedBar("one", {KEYS[1]: 0.1, KEYS[0]: 0.3}).total == pytest.approx(0.4)
