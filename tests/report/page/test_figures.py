"""Plots with their captions, data and limits."""

from __future__ import annotations

from example_machine import TWO_CORES
from fake_runs import evidence, make, result_of

from modelzoo import stats
from modelzoo.records.evidence import ProofVerdict
from modelzoo.report.differences import ShownRow, shown_rows
from modelzoo.report.page import figures
from modelzoo.report.plots import forest, history, roofline
from modelzoo.results import summary
from modelzoo.setting import Setting


def shown(count: int = 2) -> list[ShownRow]:
    """That many batch sizes, two processes each."""
    runs = [
        make([0.1 * batch] * 5, setting=Setting(batch=batch), group=batch - 1, round=i)
        for batch in range(1, count + 1)
        for i in range(2)
    ]
    result = result_of(*runs)
    return shown_rows(result, summary.rows(result))


def test_every_plot_is_drawn_in_the_widths_that_are_wanted() -> None:
    """Under different names, so that their ids differ."""
    for draw in (figures.medians, figures.distributions):
        both, one = draw(shown(), "a"), draw(shown(), "a", figures.ONE)
        assert both is not None
        assert one is not None
        assert len(set(both.drawings)) == 2
        assert one.drawings == both.drawings[:1]
        assert both.data.rows


def test_more_settings_than_colours_are_in_the_table_only() -> None:
    """The caption says how many are drawn."""
    found = figures.medians(shown(9), "a")
    assert found is not None
    assert "Drawn are the first 7 of 9 settings" in str(found.caption)
    assert len({row[2] for row in found.data.rows}) == 9
    assert "batch=9" not in found.drawings[0]


def test_what_was_not_measured_has_no_plot() -> None:
    """Nothing timed, nothing audited, nothing compared."""
    result = result_of(make(None, error="died"))
    rows = shown_rows(result, summary.rows(result))
    assert figures.medians(rows, "a") is None
    assert figures.distributions(rows, "a") is None
    assert figures.time_shares(rows, "a") is None
    assert figures.time_shares(shown(), "a") is None
    assert figures.ratios(forest.of_result(result), "a") is None


def test_an_audit_without_kernels_has_no_bar() -> None:
    """There would be nothing to divide."""
    result = result_of(make([0.1], evidence=evidence(ProofVerdict.FP32)))
    assert figures.time_shares(shown_rows(result, summary.rows(result)), "a") is None


def test_roofs_and_histories_have_their_data_as_tables() -> None:
    """As all plots."""
    data = roofline.Roofline((roofline.RooflinePoint("toy", "fp32", 5.0, 40.0),), TWO_CORES)
    assert figures.roofs(data, "a").data.rows[0][0] == "toy"
    point = history.SessionPoint("2026-01-01T00:00:00+00:00", stats.Interval(1.0, 0.9, 1.1))
    found = figures.sessions(history.History("toy", (history.HistorySeries("fp32", (point,)),)), "a", "caption")
    assert str(found.caption) == "caption"
    assert len(found.data.rows) == 1
