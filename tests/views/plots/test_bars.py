"""Stacked bars: segments as long as their times, and a legend that names them."""

from __future__ import annotations

import pytest
from drawn import check, svg, texts
from matplotlib.figure import Figure

from modelzoo.document import Column, Text, theme
from modelzoo.views.plots import bars
from modelzoo.views.plots.bars import Look, StackedBar
from modelzoo.views.plots.plot import Plot

KEYS = [("long", "a"), ("short", "b")]
LOOK = Look("time", style=lambda kind: (theme.SKY, "") if kind == "a" else (theme.GREY, "////"), kind=str.upper)
BARS = [StackedBar("first", {KEYS[0]: 0.3, KEYS[1]: 0.1}), StackedBar("second", {KEYS[0]: 0.2})]


def test_segments_follow_each_other_and_add_up() -> None:
    """In the order of the keys; the axis ends with the longest bar."""
    figure = Figure(layout="constrained")
    bars.draw(BARS, KEYS, LOOK, figure)
    (axes,) = figure.axes
    drawn = [(patch.get_x(), patch.get_width()) for patch in axes.patches]
    assert [value for each in drawn for value in each] == pytest.approx([0, 300, 0, 200, 300, 100, 200, 0])
    assert axes.get_xlim() == pytest.approx((0, 400))


def test_the_legend_names_the_segments_with_their_numbers() -> None:
    """Its height is part of the plot's."""
    height = bars.height(BARS, KEYS, LOOK)
    text = svg(Plot("t", Text("c"), (Column("a", ("1",)),), height, lambda figure: bars.draw(BARS, KEYS, LOOK, figure)))
    check(text)
    assert {"first", "second", "time in ms", "1 long, A", "2 short, B"} <= set(texts(text))


def test_a_wide_label_does_not_squeeze_the_bars() -> None:
    """matplotlib would make room for it at the expense of the axes, and warn when none is left."""
    figure = Figure(figsize=(6, 2), layout="constrained")
    bars.draw([StackedBar("W" * 60, {KEYS[0]: 0.3})], KEYS, LOOK, figure)
    figure.draw_without_rendering()
    assert figure.axes[0].get_position().width > 0.8


def test_a_bar_has_the_time_of_its_parts() -> None:
    """Whatever their order."""
    assert StackedBar("one", {KEYS[1]: 0.1, KEYS[0]: 0.3}).total == pytest.approx(0.4)
