"""The medians of the processes in the order in which they ran."""

from __future__ import annotations

import re

from drawn import HOSTILE, check, marks, parsed, svg, texts
from fake_runs import make

from modelzoo.frozen import replace
from modelzoo.stats import Interval
from modelzoo.views.plots import processes
from modelzoo.views.plots.processes import Processes, ProcessSeries

LEVEL = Interval(0.1, 0.095, 0.105)


def _runs(*medians: float) -> list:
    runs = [make([m, m, 2 * m], round=i) for i, m in enumerate(medians)]
    return [replace(run, started=f"2026-01-01T00:0{i}:00+00:00") for i, run in enumerate(runs)]


FP32 = processes.series("fp32", [_runs(0.1, 0.11, 0.09)], LEVEL)
BF16 = processes.series(
    "bf16", [[*_runs(0.05, 0.06), make(None, error="killed", round=2)]], Interval(0.055, 0.05, 0.06)
)


def test_one_mark_per_timed_process_and_the_level_of_each_setting() -> None:
    """A process that failed has none."""
    text = svg(processes.plot(Processes("toy", (FP32, BF16))))
    check(text)
    assert (marks(text, "--plot-blue"), marks(text, "--plot-vermillion")) == (3, 2)
    shown = texts(text)
    assert "fp32: 100 ms ±5.0 %" in shown and "ms" in shown
    assert [each for each in shown if each in ("1", "2", "3", "4")] == ["1", "2", "3"]


def test_sessions_follow_each_other_with_a_line_between_them() -> None:
    """Rounds of the second session come after those of the first, although their numbers begin again."""
    one = processes.series("fp32", [_runs(0.1, 0.11), _runs(0.12)], LEVEL)
    assert [(each.session, each.round) for each in one.medians] == [(0, 0), (0, 1), (1, 0)]
    text = svg(processes.plot(Processes("toy", (one,))))
    dashed = [p for p in parsed(text).iter("path") if re.search(r"dasharray: 2\.4,2\.4", p.get("style", ""))]
    assert marks(text, "--plot-blue") == 3 and len(dashed) == 1
    assert processes.columns(Processes("toy", (one,)))[0].title == "session"


def test_without_processes_there_is_no_plot() -> None:
    """A setting without timed processes is left out."""
    empty = processes.series("bf16", [[make(None, error="killed")]], LEVEL)
    assert empty.medians == () and svg(processes.plot(Processes("toy", (empty,)))) == ""
    assert svg(processes.plot(Processes("toy", ()))) == ""
    check(svg(processes.plot(Processes("toy", (empty, FP32)))))


def test_the_table_is_in_the_order_in_which_the_processes_ran() -> None:
    """Round by round, the settings of a round after each other."""
    found = {column.title: column.cells for column in processes.columns(Processes("toy", (FP32, BF16)))}
    assert found["round"] == ("1", "1", "2", "2", "3")
    assert found["setting"] == ("fp32", "bf16", "fp32", "bf16", "fp32")
    assert found["median latency"][:2] == ("100.0 ms", "50.00 ms")
    assert found["started (UTC)"][0] == "2026-01-01T00:00:00"


def test_more_settings_than_colours_are_in_the_table_only() -> None:
    """The caption says so; a setting that was not timed does not count."""
    found = processes.plot(Processes("toy", tuple(replace(FP32, label=f"batch={i}") for i in range(1, 10))))
    assert found is not None
    assert "Drawn are the first 7 of 9 settings" in str(found.caption)
    assert "batch=9" in found.columns[2].cells
    assert "batch=7" in svg(found) and "batch=8" not in svg(found)
    one = processes.plot(Processes("toy", (FP32, *[processes.series("bf16", [[]], LEVEL)] * 7)))
    assert one is not None
    assert "Drawn" not in str(one.caption)


def test_hostile_names_are_text() -> None:
    """In the panel's title and in the accessible name."""
    text = svg(processes.plot(Processes(HOSTILE, (ProcessSeries(HOSTILE, FP32.medians, LEVEL),))))
    check(text)
    assert "<script>" in "".join(texts(text)) and "<script>" in "".join(parsed(text)[0].itertext())
