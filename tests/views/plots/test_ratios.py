"""The plot of all ratios, and that of the steps to the winner of a search."""

from __future__ import annotations

import math

import pytest
from drawn import HOSTILE, arrows, check, filled, marks, parsed, svg, texts
from fake_runs import make, result_of
from stored_search import STAGES, searched

from modelzoo.records.tuning import Choice
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.stats import Interval
from modelzoo.views.plots import ratios
from modelzoo.views.plots.ratios import RatioRow, Ratios

BF16 = Setting(precision="bf16")

ROWS = (
    RatioRow("resnet50 fp32", Interval(1.01, 0.99, 1.03), "SAME"),
    RatioRow("resnet50 bf16 batch=8 threads=2 memory-format=channels_last", Interval(1.5, 1.3, 1.8), "FASTER"),
    RatioRow("ssd bf16", Interval(0.62, 0.58, 0.67), "SLOWER", "a reason"),
    RatioRow("bert fp32", Interval(1.05, 0.0, math.inf), "AMBIGUOUS"),
    RatioRow("bert bf16", None, "NOT COMPARABLE", "other weights"),
)
DATA = Ratios((*ROWS, RatioRow(ratios.MEAN, Interval(1.1, 1.0, 1.2), "")), "speed relative to base")


def test_every_row_has_its_ratio_and_its_verdict_as_text() -> None:
    """Nothing is said by colour or place alone, and no two texts overlap."""
    text = svg(ratios.plot(DATA))
    check(text)
    shown = " ".join(texts(text))
    for expected in (
        "1.50× [1.30, 1.80] FASTER",
        "1.05× (one process: no interval) AMBIGUOUS",
        "NOT COMPARABLE",
        "geometric mean",
        "slower;",
    ):
        assert expected in shown
    assert svg(ratios.plot(DATA)) == text


def test_each_ratio_has_a_mark_and_an_unbounded_interval_two_arrows() -> None:
    """FASTER is blue, SLOWER vermillion, SAME and the mean are ink; what cannot be compared has no mark."""
    text = svg(ratios.plot(DATA))
    counts = {name: marks(text, f"--plot-{name}") for name in ("blue", "vermillion", "ink", "faint")}
    assert counts == {"blue": 1, "vermillion": 1, "ink": 2, "faint": 1}
    assert filled(text, "--plot-band") == 5
    assert arrows(text) == 2
    assert arrows(svg(ratios.plot(Ratios((RatioRow("a", Interval(1.05, 0.9, 1.2), "AMBIGUOUS"),))))) == 0


def test_the_axis_shows_all_ratios_and_is_not_stretched_by_a_wide_interval() -> None:
    """An interval up to 200 does not squeeze ratios around 1; the ratio 40 is shown."""
    low, high = ratios.limits(Ratios((RatioRow("a", Interval(1.05, 0.01, 200.0), ""),)))
    assert 0.2 < low < 0.5 and 3 < high < 5
    low, high = ratios.limits(Ratios((RatioRow("a", Interval(40.0, 39.0, 41.0), ""),)))
    assert low < 1 and high > 41


def test_without_rows_there_is_no_plot_and_one_row_is_enough() -> None:
    """A row that cannot be compared is shown all the same."""
    assert svg(ratios.plot(Ratios(()))) == ""
    check(svg(ratios.plot(Ratios(ROWS[:1]))))
    check(svg(ratios.plot(Ratios(ROWS[-1:]))))


def test_hostile_names_are_text() -> None:
    """In the label and in the name of the base, which is a file's."""
    text = svg(ratios.plot(Ratios((RatioRow(HOSTILE, Interval(1, 0.9, 1.1), "SAME"),), HOSTILE)))
    check(text)
    assert "<script>" in "".join(texts(text)) and "<script>" in "".join(parsed(text)[0].itertext())
    assert ratios.columns(Ratios((RatioRow(HOSTILE, None, "?"),)))[0].cells == (HOSTILE,)


def test_the_table_has_all_rows_and_the_mean() -> None:
    """The reason is a column if there is one."""
    found = ratios.columns(DATA)
    assert [column.title for column in found] == ["", "speed relative to base", "verdict", "reason"]
    assert all(len(column.cells) == 6 for column in found)
    assert found[1].cells[-2:] == ("–", "1.10× [1.00, 1.20]")
    assert [column.title for column in ratios.columns(Ratios(ROWS[:1]))] == ["", "speedup", "verdict"]


def test_a_result_is_compared_with_the_first_setting() -> None:
    """One row per other setting."""
    runs = [make([1.0, 1.1], round=i) for i in range(2)] + [make([0.5, 0.51], setting=BF16, round=i) for i in range(2)]
    (row,) = ratios.of_rows(summary.rows(result_of(*runs))).rows
    assert row.label == "toy bf16 / fp32"
    assert row.ratio is not None
    assert row.ratio.value == pytest.approx(2.08, abs=0.01)


def test_each_step_of_a_search_is_compared_with_the_one_before() -> None:
    """And the last with the default."""
    data = ratios.of_search(searched())
    assert [row.label for row in data.rows] == [
        "fp32 compile / fp32",
        "fp32 compile channels-last / fp32 compile",
        "fp32 compile channels-last / fp32",
    ]
    assert [row.verdict for row in data.rows] == ["", "", ""]
    assert "fp32 compile channels-last / fp32 compile" in texts(svg(ratios.steps(data)))


def test_a_single_step_is_not_repeated() -> None:
    """It is the whole way."""
    data = ratios.of_search(searched(choice=Choice(1, 1, (), (1,))))
    assert [row.label for row in data.rows] == ["fp32 compile / fp32"]


def test_without_a_confirmation_there_is_no_plot() -> None:
    """Nothing was measured again."""
    assert ratios.steps(ratios.of_search(searched(stages=STAGES[:3]))) is None
