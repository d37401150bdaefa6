"""Latencies and ratios with their intervals, below each other."""

from __future__ import annotations

import math

from drawn import arrows, checked, columns, filled, marks, texts
from fake_runs import make, shown
from stored_search import STAGES, searched

from modelzoo.setting import Setting
from modelzoo.stats import Interval
from modelzoo.stats.race import Choice
from modelzoo.views.plots import forest
from modelzoo.views.plots.forest import ForestRow

BF16 = Setting(precision="bf16")
ROWS = (
    ForestRow("resnet50 fp32", Interval(1.01, 0.99, 1.03), "SAME"),
    ForestRow("resnet50 bf16 batch=8 threads=2 memory-format=channels_last", Interval(1.5, 1.3, 1.8), "FASTER"),
    ForestRow("ssd bf16", Interval(0.62, 0.58, 0.67), "SLOWER", "a reason"),
    ForestRow("bert fp32", Interval(1.05, 0.0, math.inf), "AMBIGUOUS"),
    ForestRow("bert bf16", None, "NOT COMPARABLE", "other weights"),
    ForestRow(forest.MEAN, Interval(1.1, 1.0, 1.2)),
)
TITLE = "speed relative to base"
RUNS = [
    make([level + round / 100] * 3, setting=setting, group=group, round=round)
    for group, (setting, level) in enumerate(((Setting(), 1.0), (BF16, 0.5)))
    for round in range(3)
]


def test_every_row_has_its_ratio_and_its_verdict_as_text_and_a_mark() -> None:
    """Nothing is said by colour or place alone; an unbounded interval has two arrows."""
    text = checked(forest.ratios(ROWS, TITLE))
    shown = " ".join(texts(text))
    expected = ("1.50× [1.30, 1.80] FASTER", "1.05× (one process: no interval) AMBIGUOUS", "NOT COMPARABLE", "slower;")
    assert all(each in shown for each in (*expected, forest.MEAN))
    counts = {name: marks(text, f"--plot-{name}") for name in ("blue", "vermillion", "ink", "faint")}
    assert counts == {"blue": 1, "vermillion": 1, "ink": 2, "faint": 1}
    assert (filled(text, "--plot-band"), arrows(text)) == (5, 2)
    for row in (ROWS[0], ROWS[4]):
        assert arrows(checked(forest.ratios([row], TITLE))) == 0


def test_the_axis_shows_all_values_and_is_not_stretched_by_a_wide_interval() -> None:
    """An interval up to 200 does not squeeze values around 1; the value 40 is shown."""
    low, high = forest.limits([Interval(1.05, 0.01, 200.0)], (1.0,))
    assert 0.2 < low < 0.5 and 3 < high < 5
    low, high = forest.limits([Interval(40.0, 39.0, 41.0)], (1.0,))
    assert low < 1 and high > 41


def test_a_result_is_compared_with_the_first_setting() -> None:
    """One row per other setting; nothing is drawn without one."""
    found = columns(forest.of_rows(shown(*RUNS)))
    assert found[""] == ("toy bf16 / fp32",)
    assert found["speedup over the baseline"][0].startswith("1.98")
    assert forest.of_rows(shown(*RUNS[:3])) is None


def test_each_step_of_a_search_is_compared_with_the_one_before() -> None:
    """And the last with the default, unless it is the only one; without a confirmation nothing was measured again."""
    assert columns(forest.of_search(searched()))[""] == (
        "fp32 compile / fp32",
        "fp32 compile channels-last / fp32 compile",
        "fp32 compile channels-last / fp32",
    )
    assert len(columns(forest.of_search(searched(choice=Choice(1, 1, (), (1,)))))[""]) == 1
    assert forest.of_search(searched(stages=STAGES[:3])) is None


def test_latencies_stand_below_each_other_under_the_names_of_the_table() -> None:
    """With their intervals; a setting that was not timed is left out; many are in the table only."""
    failed = make(None, setting=Setting(batch=9), group=2, error="died")
    assert columns(forest.latencies(shown(*RUNS, failed)))["setting"] == ("fp32 batch=4", "bf16 batch=4")
    assert {"fp32", "bf16", "1.010 s ±2.5 %"} <= set(texts(checked(forest.latencies(shown(*RUNS)))))
    assert forest.latencies([]) is None
    many = forest.latencies(shown(*RUNS) * 20)
    assert "the first 16 of 40 settings" in many.caption
    assert len(columns(many)["setting"]) == 40
