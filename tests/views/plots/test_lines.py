"""Processes and sessions in panels on the same relative scale."""

from __future__ import annotations

import math
import re

import pytest
from drawn import HOSTILE, check, marks, parsed, svg, texts
from fake_runs import make, result_of
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from modelzoo.views.plots.panels import UNKNOWN_TIME, Panel, moment

from modelzoo.formatting import seconds
from modelzoo.frozen import replace
from modelzoo.records.run import Run
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.stats import Interval
from modelzoo.views.plots import panels

SESSIONS = [
    (f"2026-11-{day:02d}T03:00:00+00:00", Interval(level, level * 0.97, level * 1.03))
    for day, level in enumerate((0.065, 0.066, 0.064, 0.075, 0.074, 0.075), 1)
]


def _panel(scale: float, *values: float, level: Interval | None = None) -> Panel:
    points = tuple((float(x), Interval(*[scale * value] * 3)) for x, value in enumerate(values))
    return Panel(f"scale {scale}", scale * values[0], points, level)


def _axes(*found: Panel) -> list[Axes]:
    figure = Figure()
    panels.draw(found, "the axis", False, figure)
    return figure.axes


def test_all_panels_span_the_same_factor() -> None:
    """5 % have the same height in a panel of 10 ms and in one of 1 s."""
    spans = [each.get_ylim()[1] / each.get_ylim()[0] for each in _axes(_panel(0.01, 1, 1.05), _panel(1.0, 1, 1.2))]
    assert spans[0] == pytest.approx(spans[1]) and spans[0] > 1.2


def test_equal_values_still_have_a_scale_and_a_wide_interval_is_cut_off() -> None:
    """±3 % at least; an interval from 0 to infinity changes nothing."""
    (plain,) = _axes(_panel(1, 1, 1))
    (unbounded,) = _axes(_panel(1, 1, 1, level=Interval(1, 0, math.inf)))
    (wide,) = _axes(_panel(1, 1, 1, level=Interval(1, 1e-6, 1e6)))
    assert plain.get_ylim() == unbounded.get_ylim()
    assert 1.03 < plain.get_ylim()[1] < 1.1 and wide.get_ylim()[1] < 4


def test_all_panels_show_all_places() -> None:
    """A setting with fewer values than the next one does not cut those off; a single place has room on both sides."""
    first, second = _axes(_panel(1, 1, 1), _panel(1, 1, 1, 1, 1))
    assert first.get_xlim() == second.get_xlim()
    assert first.get_xlim()[0] < 0 and first.get_xlim()[1] > 3
    assert _axes(_panel(1, 1))[0].get_xlim() == (-0.5, 0.5)


def test_the_axis_of_a_panel_has_the_unit_of_its_title() -> None:
    """A level of 1.5 s, and one of 900 ms beside it."""
    one = Interval(1.0, 1.0, 1.0)
    drawn = _axes(*(Panel(seconds(value), value, ((0.0, one),)) for value in (1.5, 0.9)))
    assert [area.get_title(loc="left") or area.get_title() for area in drawn] == ["1.500 s", "900.0 ms"]
    assert [area.get_ylabel() for area in drawn] == ["s", "ms"]


def _runs(*medians: float, group: int = 0, setting: Setting | None = None) -> list[Run]:
    made = [make([m, m, 2 * m], round=i, group=group, setting=setting or Setting()) for i, m in enumerate(medians)]
    return [replace(run, started=f"2026-01-01T00:0{run.round}:00+00:00") for run in made]


def test_one_mark_per_timed_process_and_the_level_of_each_setting() -> None:
    """A process that failed has none; the table is in the order in which they ran."""
    failed = make(None, error="killed", round=2, group=1, setting=Setting("bf16"))
    runs = [*_runs(0.1, 0.11, 0.09), *_runs(0.05, 0.06, group=1, setting=Setting("bf16")), failed]
    plot = panels.processes(summary.rows(result_of(*runs)))
    text = svg(plot)
    check(text)
    assert (marks(text, "--plot-blue"), marks(text, "--plot-vermillion")) == (3, 2)
    shown = texts(text)
    assert any(re.match("fp32: [0-9.]+ ms ±", each) for each in shown) and {"ms", "latency (log scale)"} <= set(shown)
    assert [each for each in shown if each in ("1", "2", "3", "4")] == ["1", "2", "3"]
    assert plot is not None
    found = {column.title: column.cells for column in plot.columns}
    assert found["round"] == ("1", "1", "2", "2", "3")
    assert found["setting"] == ("fp32", "bf16", "fp32", "bf16", "fp32")
    assert found["median latency"][:2] == ("100.0 ms", "50.00 ms")
    assert found["started (UTC)"][0] == "2026-01-01T00:00:00"
    assert panels.processes(summary.rows(result_of(failed))) is None


def test_more_settings_than_colours_are_in_the_table_only() -> None:
    """The caption says so."""
    runs = [run for i in range(1, 10) for run in _runs(0.1, 0.11, group=i, setting=Setting(batch=i))]
    found = panels.processes(summary.rows(result_of(*runs)))
    assert found is not None
    assert "Drawn are the first 7 of 9 settings" in found.caption
    assert any("batch=9" in each for each in found.columns[2].cells)
    assert "batch=7" in svg(found) and "batch=8" not in svg(found)


def test_one_mark_per_session() -> None:
    """In the panel of its setting, whose title has the latest level; the table has them setting by setting."""
    plot = panels.history("toy", {"fp32": SESSIONS, "bf16": SESSIONS[:2]})
    text = svg(plot)
    check(text)
    assert (marks(text, "--plot-blue"), marks(text, "--plot-vermillion")) == (6, 2)
    shown = " ".join(texts(text))
    assert "fp32: 75.0 ms ±3.0 % in the latest session" in shown and "start of the session (UTC)" in shown
    assert "2026" in shown
    assert plot is not None
    found = {column.title: column.cells for column in plot.columns}
    assert found["setting"] == ("fp32",) * 6 + ("bf16",) * 2
    assert (found["session (UTC)"][0], found["latency"][0]) == ("2026-11-01T03:00:00", "65.0 ms ±3.0 %")


def test_a_session_without_a_time_is_in_the_table_only() -> None:
    """It has no place in the plot; one session of one process has an interval without ends."""
    assert moment("yesterday") == UNKNOWN_TIME < moment("2026-11-01T00:00:00")
    assert moment("2026-11-01T01:00:00+01:00") == moment("2026-11-01T00:00:00")
    unknown = ("yesterday", Interval(1.0, 0.9, 1.1))
    plot = panels.history(HOSTILE, {HOSTILE: [unknown, (SESSIONS[0][0], Interval(1.0, 0.0, math.inf))]})
    text = svg(plot)
    check(text)
    assert marks(text, "--plot-blue") == 1
    assert plot is not None
    assert plot.columns[1].cells[0] == "yesterday"
    assert "<script>" in "".join(texts(text)) and "<script>" in "".join(parsed(text)[0].itertext())
    assert panels.history("toy", {"fp32": [unknown], "bf16": []}) is None
