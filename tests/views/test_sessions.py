"""What is printed after the last of several sessions."""

from __future__ import annotations

from printed import printed

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.results.adjustment import Adjustment, Fit
from modelzoo.results.sessions import SessionsRow, SessionsSummary
from modelzoo.views.run import sessions_document

ROW = SessionsRow("resnet50", "fp32", 5, stats.Interval(0.0753, 0.072, 0.079), 0.031, 0.012)
BF16 = replace(ROW, label="bf16=autocast", spread=0.042, adjusted_spread=None)

FIT = Fit(stats.Control(1.0, 0.9, 20), 18, 0.0, ())
ADJUSTED = Adjustment(FIT)


def shown(summary: SessionsSummary) -> str:
    """What is printed."""
    return printed(sessions_document(summary))


def header(text: str) -> str:
    """The line with the names of the columns."""
    return next(line for line in text.splitlines() if line.startswith("workload"))


def test_levels_and_spreads_are_shown() -> None:
    """One row per workload and setting; a level that was not normalized has a dash."""
    text = shown(SessionsSummary(5, (ROW, BF16), ADJUSTED))
    assert "Over 5 sessions" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["resnet50", "fp32", "75", "ms", "±4.9", "%", "3.1", "%", "1.2", "%"] in rows
    assert ["resnet50", "bf16=autocast", "75", "ms", "±4.9", "%", "4.2", "%", "–"] in rows
    assert "The intervals of a single session, above, do not cover other sessions." in " ".join(text.split())
    assert max(map(len, text.splitlines()[:8])) <= 100


def test_levels_that_are_not_adjusted_have_no_column_but_a_reason() -> None:
    """It is the same for all."""
    text = shown(SessionsSummary(2, (replace(ROW, adjusted_spread=None),), Adjustment()))
    assert "Levels are not normalized: no calibration workload ran." in text
    assert "normalized: the same" not in text
    assert header(text).split()[-1] == "sessions"


def test_workloads_that_the_load_does_not_predict_are_named() -> None:
    """Their rows have a dash."""
    adjustment = Adjustment(replace(FIT, left_out=("bert",)))
    summary = SessionsSummary(5, (ROW, replace(ROW, workload="bert", adjusted_spread=None)), adjustment)
    assert "The calibration workload does not predict the latency of bert." in shown(summary)


def test_rows_with_fewer_sessions_say_so() -> None:
    """A setting failed in some of them."""
    once = replace(ROW, label="bf16", sessions=1, spread=None, level=stats.Interval(0.1, 0.0, float("inf")))
    text = shown(SessionsSummary(5, (ROW, once), ADJUSTED))
    assert header(text).split()[-2:] == ["normalized", "sessions"]
    assert any(line.split()[-1:] == ["1"] and "(no interval)" in line for line in text.splitlines())
    assert header(shown(SessionsSummary(5, (ROW,), ADJUSTED))).split()[-1] == "normalized"
