"""Latencies and ratios with their intervals, below each other."""

from __future__ import annotations

import math
import re

import pytest
from drawn import HOSTILE, arrows, check, filled, marks, parsed, svg, texts
from fake_runs import make, result_of
from stored_search import STAGES, searched

from modelzoo.document import Column
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.stats import Interval
from modelzoo.stats.race import Choice
from modelzoo.views.plots import forest
from modelzoo.views.plots.forest import ForestRow
from modelzoo.views.plots.plot import Plot

BF16 = Setting(precision="bf16")
ROWS = (
    ForestRow("resnet50 fp32", Interval(1.01, 0.99, 1.03), "SAME"),
    ForestRow("resnet50 bf16 batch=8 threads=2 memory-format=channels_last", Interval(1.5, 1.3, 1.8), "FASTER"),
    ForestRow("ssd bf16", Interval(0.62, 0.58, 0.67), "SLOWER", "a reason"),
    ForestRow("bert fp32", Interval(1.05, 0.0, math.inf), "AMBIGUOUS"),
    ForestRow("bert bf16", None, "NOT COMPARABLE", "other weights"),
    ForestRow(forest.MEAN, Interval(1.1, 1.0, 1.2)),
)
RUNS = [
    make([level + round / 100] * 3, setting=setting, group=group, round=round)
    for group, (setting, level) in enumerate(((Setting(), 1.0), (BF16, 0.5)))
    for round in range(3)
]


def _ratios(*rows: ForestRow, title: str = "speed relative to base") -> Plot:
    found = forest.ratios(rows, title)
    assert found is not None
    return found


def _columns(plot: Plot | None) -> list[Column]:
    assert plot is not None
    return list(plot.columns)


def test_every_row_has_its_ratio_and_its_verdict_as_text() -> None:
    """Nothing is said by colour or place alone, and no two texts overlap."""
    text = svg(_ratios(*ROWS))
    check(text)
    shown = " ".join(texts(text))
    expected = ("1.50× [1.30, 1.80] FASTER", "1.05× (one process: no interval) AMBIGUOUS", "NOT COMPARABLE", "slower;")
    assert all(each in shown for each in (*expected, forest.MEAN))
    assert svg(_ratios(*ROWS)) == text
    check(svg(_ratios(ROWS[0])))
    check(svg(_ratios(ROWS[4])))


def test_each_ratio_has_a_mark_and_an_unbounded_interval_two_arrows() -> None:
    """FASTER is blue, SLOWER vermillion, SAME and the mean are ink; what cannot be compared has no mark."""
    text = svg(_ratios(*ROWS))
    counts = {name: marks(text, f"--plot-{name}") for name in ("blue", "vermillion", "ink", "faint")}
    assert counts == {"blue": 1, "vermillion": 1, "ink": 2, "faint": 1}
    assert filled(text, "--plot-band") == 5
    assert arrows(text) == 2
    assert arrows(svg(_ratios(ForestRow("a", Interval(1.05, 0.9, 1.2), "AMBIGUOUS")))) == 0


def test_the_axis_shows_all_values_and_is_not_stretched_by_a_wide_interval() -> None:
    """An interval up to 200 does not squeeze values around 1; the value 40 is shown."""
    low, high = forest.limits([Interval(1.05, 0.01, 200.0)], (1.0,))
    assert 0.2 < low < 0.5 and 3 < high < 5
    low, high = forest.limits([Interval(40.0, 39.0, 41.0)], (1.0,))
    assert low < 1 and high > 41


def test_hostile_names_are_text() -> None:
    """In the label and in the name of the base, which is a file's."""
    plot = _ratios(ForestRow(HOSTILE, Interval(1, 0.9, 1.1), "SAME"), title=HOSTILE)
    text = svg(plot)
    check(text)
    assert "<script>" in "".join(texts(text)) and "<script>" in "".join(parsed(text)[0].itertext())
    assert plot.columns[0].cells == (HOSTILE,)


def test_the_table_has_all_rows_and_the_mean() -> None:
    """The reason is a column if there is one."""
    found = _ratios(*ROWS).columns
    assert [column.title for column in found] == ["", "speed relative to base", "verdict", "reason"]
    assert found[1].cells[-2:] == ("–", "1.10× [1.00, 1.20]")
    assert [column.title for column in _ratios(ROWS[0]).columns] == ["", "speed relative to base", "verdict"]


def test_a_result_is_compared_with_the_first_setting() -> None:
    """One row per other setting; nothing is drawn without one."""
    label, ratio, *_ = _columns(forest.of_rows(summary.rows(result_of(*RUNS))))
    assert label.cells == ("toy bf16 / fp32",)
    assert float(ratio.cells[0].split("×")[0]) == pytest.approx(1.98, abs=0.02)
    assert forest.of_rows(summary.rows(result_of(*RUNS[:3]))) is None


def test_each_step_of_a_search_is_compared_with_the_one_before() -> None:
    """And the last with the default, unless it is the only one; without a confirmation nothing was measured again."""
    plot = forest.of_search(searched())
    assert _columns(plot)[0].cells == (
        "fp32 compile / fp32",
        "fp32 compile channels-last / fp32 compile",
        "fp32 compile channels-last / fp32",
    )
    assert "fp32 compile channels-last / fp32 compile" in texts(svg(plot))
    assert len(_columns(forest.of_search(searched(choice=Choice(1, 1, (), (1,)))))[0].cells) == 1
    assert forest.of_search(searched(stages=STAGES[:3])) is None


def test_latencies_stand_below_each_other_under_the_names_of_the_table() -> None:
    """With their intervals; a setting that was not timed is left out; no line of the axis runs through a text."""
    failed = make(None, setting=Setting(batch=9), group=2, error="died")
    assert len(_columns(forest.latencies(summary.rows(result_of(*RUNS, failed))))[0].cells) == 2
    text = svg(forest.latencies(summary.rows(result_of(*RUNS))))
    check(text)
    assert {"fp32", "bf16", "1.010 s ±2.5 %"} <= set(texts(text))
    for part in parsed(text).iter("path"):
        drawn = re.fullmatch(r"M ([\d.]+) ([\d.]+) ?L ([\d.]+) ([\d.]+) ?", part.get("d", ""))
        if drawn is not None:
            left, top, right, bottom = map(float, drawn.groups())
            assert left != right or abs(bottom - top) < 20


def test_many_latencies_are_in_the_table_only() -> None:
    """What was not timed has no plot."""
    assert forest.latencies([]) is None
    many = forest.latencies(summary.rows(result_of(*RUNS)) * 20)
    assert many is not None
    assert "the first 16 of 40 settings" in many.caption
    assert len(many.columns[0].cells) == 40
