"""The forest plot of all ratios."""

from __future__ import annotations

import math

import pytest
from drawn import HOSTILE, arrows, check, filled, marks, texts
from fake_runs import make, result_of

from modelzoo.report.plots import canvas, forest
from modelzoo.report.plots.forest import Forest, ForestRow
from modelzoo.setting import Setting
from modelzoo.stats import Interval

BF16 = Setting(precision="bf16")

ROWS = (
    ForestRow("resnet50 fp32", Interval(1.01, 0.99, 1.03), "SAME"),
    ForestRow("resnet50 bf16 batch=8 threads=2 memory-format=channels_last", Interval(1.5, 1.3, 1.8), "FASTER"),
    ForestRow("ssd bf16", Interval(0.62, 0.58, 0.67), "SLOWER", "a reason"),
    ForestRow("bert fp32", Interval(1.05, 0.0, math.inf), "AMBIGUOUS"),
    ForestRow("bert bf16", None, "NOT COMPARABLE", "other weights"),
)
DATA = Forest(ROWS, "speed relative to base", mean=Interval(1.1, 1.0, 1.2))


@pytest.mark.parametrize("width", [canvas.NARROW, canvas.WIDE])
def test_every_row_has_its_ratio_and_its_verdict_as_text(width: float) -> None:
    """Nothing is said by colour or place alone, and no two texts overlap."""
    text = forest.svg(DATA, "a", width)
    check(text)
    shown = " ".join(texts(text))
    for expected in ("1.50× [1.30, 1.80] FASTER", "1.05× [0, ∞] AMBIGUOUS", "NOT COMPARABLE", "geometric mean", "1×"):
        assert expected in shown
    assert forest.svg(DATA, "a", width) == text


def test_each_ratio_has_a_mark_and_an_unbounded_interval_two_arrows() -> None:
    """FASTER is blue, SLOWER vermillion, SAME and the mean are ink; what cannot be compared has no mark."""
    text = forest.svg(DATA, "a")
    counts = {name: marks(text, f"--plot-{name}") for name in ("blue", "vermillion", "ink", "faint")}
    assert counts == {"blue": 1, "vermillion": 1, "ink": 2, "faint": 1}
    assert filled(text, "--plot-band") == 1
    assert arrows(text) == 2
    assert arrows(forest.svg(Forest((ForestRow("a", Interval(1.05, 0.9, 1.2), "AMBIGUOUS"),)), "a")) == 0


def test_the_axis_shows_all_ratios_and_is_not_stretched_by_a_wide_interval() -> None:
    """An interval up to 200 does not squeeze ratios around 1; the ratio 40 is shown."""
    low, high = forest.limits(Forest((ForestRow("a", Interval(1.05, 0.01, 200.0), ""),)))
    assert 0.2 < low < 0.5 and 3 < high < 5
    low, high = forest.limits(Forest((ForestRow("a", Interval(40.0, 39.0, 41.0), ""),)))
    assert low < 1 and high > 41


def test_without_rows_there_is_no_plot_and_one_row_is_enough() -> None:
    """A row that cannot be compared is shown all the same."""
    assert forest.svg(Forest(()), "a") == ""
    check(forest.svg(Forest(ROWS[:1]), "a"))
    check(forest.svg(Forest(ROWS[-1:]), "a"))


def test_hostile_names_are_text() -> None:
    """In the label, in the verdict and in the title of the axis."""
    text = forest.svg(Forest((ForestRow(HOSTILE, Interval(1, 0.9, 1.1), "SAME"),), HOSTILE), "a", canvas.WIDE)
    check(text)
    assert "".join(texts(text)).count("<script>") == 2
    assert forest.columns(Forest((ForestRow(HOSTILE, None, "?"),)))[0].cells == (HOSTILE,)


def test_the_table_has_all_rows_and_the_mean() -> None:
    """The reason is a column if there is one."""
    found = forest.columns(DATA)
    assert [column.title for column in found] == ["", "speed relative to base", "verdict", "reason"]
    assert all(len(column.cells) == 6 for column in found)
    assert found[1].cells[-2:] == ("–", "1.10× [1.00, 1.20]")
    assert [column.title for column in forest.columns(Forest(ROWS[:1]))] == ["", "speedup", "verdict"]


def test_a_result_is_compared_with_the_first_setting() -> None:
    """One row per other setting."""
    runs = [make([1.0, 1.1], round=i) for i in range(2)] + [make([0.5, 0.51], setting=BF16, round=i) for i in range(2)]
    (row,) = forest.of_result(result_of(*runs)).rows
    assert row.label == "toy bf16=autocast / fp32"
    assert row.ratio is not None
    assert row.ratio.value == pytest.approx(2.08, abs=0.01)
