"""Panels on the same relative scale."""

from __future__ import annotations

import math

import pytest
from drawn import check, marks, svg, texts
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modelzoo.document import Column, Text
from modelzoo.formatting import seconds
from modelzoo.stats import Interval
from modelzoo.views.plots import panels
from modelzoo.views.plots.panels import Panel, PanelPoint
from modelzoo.views.plots.plot import Plot

COLUMNS = (Column("a", ("1",)),)


def _panel(scale: float, *values: float, level: Interval | None = None, breaks: tuple[float, ...] = ()) -> Panel:
    points = tuple(PanelPoint(float(x), scale * value) for x, value in enumerate(values))
    return Panel(f"scale {scale}", points[0].value, points, level, breaks)


def _element(*found: Panel) -> str:
    return svg(Plot("t", Text("c"), COLUMNS, panels.height(found), lambda figure: _axes(figure, *found)))


def _axes(figure: Figure, *found: Panel) -> list[Axes]:
    return panels.draw(figure, found, "the axis")


def test_all_panels_span_the_same_factor() -> None:
    """5 % have the same height in a panel of 10 ms and in one of 1 s."""
    axes = _axes(Figure(), _panel(0.01, 1, 1.05), _panel(1.0, 1, 1.2))
    spans = [each.get_ylim()[1] / each.get_ylim()[0] for each in axes]
    assert spans[0] == pytest.approx(spans[1]) and spans[0] > 1.2


def test_equal_values_still_have_a_scale_and_a_wide_interval_is_cut_off() -> None:
    """±3 % at least; an interval from 0 to infinity changes nothing."""
    (plain,) = _axes(Figure(), _panel(1, 1, 1))
    (unbounded,) = _axes(Figure(), _panel(1, 1, 1, level=Interval(1, 0, math.inf)))
    (wide,) = _axes(Figure(), _panel(1, 1, 1, level=Interval(1, 1e-6, 1e6)))
    assert plain.get_ylim() == unbounded.get_ylim()
    assert 1.03 < plain.get_ylim()[1] < 1.1 and wide.get_ylim()[1] < 4


def test_all_panels_show_all_places() -> None:
    """A setting with fewer values than the next one does not cut those off; a single place has room on both sides."""
    first, second = _axes(Figure(), _panel(1, 1, 1), _panel(1, 1, 1, 1, 1))
    assert first.get_xlim() == second.get_xlim()
    assert first.get_xlim()[0] < 0 and first.get_xlim()[1] > 3
    assert _axes(Figure(), _panel(1, 1))[0].get_xlim() == (-0.5, 0.5)


def test_a_mark_for_every_point_and_no_text_on_another() -> None:
    """The first panel has circles, the second squares."""
    found = [_panel(0.01, 1, 1.1, 0.9, level=Interval(0.01, 0.0095, 0.0105), breaks=(1.5,)), _panel(0.3, 1, 0.97)]
    text = _element(*found)
    check(text)
    assert (marks(text, "--plot-blue"), marks(text, "--plot-vermillion")) == (3, 2)
    assert {"scale 0.01", "scale 0.3", "the axis", "latency (log scale)", "ms"} <= set(texts(text))


def test_one_point_and_many_panels() -> None:
    """A single value is in the middle of its axis; a long title is wrapped."""
    check(_element(_panel(1, 1)))
    check(_element(*(Panel(f"{'word ' * 20}{i}", 1.0, (PanelPoint(0.0, 1.0),)) for i in range(10))))


def test_the_axis_of_a_panel_has_the_unit_of_its_title() -> None:
    """A level of 1.5 s, and one of 900 ms beside it."""
    panels_of = [Panel(seconds(value), value, (PanelPoint(0.0, value),)) for value in (1.5, 0.9)]
    figure = Figure()
    drawn = panels.draw(figure, panels_of, "")
    assert [area.get_title(loc="left") or area.get_title() for area in drawn] == ["1.500 s", "900.0 ms"]
    assert [area.get_ylabel() for area in drawn] == ["s", "ms"]
