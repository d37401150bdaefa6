"""The level of each session over time."""

from __future__ import annotations

import math
import re

from drawn import HOSTILE, check, marks, svg, texts

from modelzoo.stats import Interval
from modelzoo.views.plots import history
from modelzoo.views.plots.history import UNKNOWN_TIME, History, HistorySeries, SessionPoint, moment


def _points(*levels: float) -> tuple[SessionPoint, ...]:
    return tuple(
        SessionPoint(f"2026-11-{day:02d}T03:00:00+00:00", Interval(level, level * 0.97, level * 1.03))
        for day, level in enumerate(levels, 1)
    )


FP32 = HistorySeries("fp32", _points(0.065, 0.066, 0.064, 0.075, 0.074, 0.075))
BF16 = HistorySeries("bf16", _points(0.055, 0.056))


def _svg(data: History) -> str:
    return svg(history.plot(data, "Caption."))


def test_one_mark_per_session() -> None:
    """In the panel of its setting, whose title has the latest level."""
    text = _svg(History("toy", (FP32, BF16)))
    check(text)
    assert (marks(text, "--plot-blue"), marks(text, "--plot-vermillion")) == (6, 2)
    shown = " ".join(texts(text))
    assert "fp32: 75.0 ms ±3.0 % in the latest session" in shown and "start of the session (UTC)" in shown
    assert re.search(r"2026", shown)


def test_one_session_and_unbounded_intervals() -> None:
    """A single session of one process has an interval without ends."""
    one = HistorySeries("fp32", (SessionPoint("2026-11-01T00:00:00+00:00", Interval(1.0, 0.0, math.inf)),))
    text = _svg(History("toy", (one,)))
    check(text)
    assert marks(text, "--plot-blue") == 1


def test_a_session_without_a_time_is_in_the_table_only() -> None:
    """It has no place in the plot."""
    assert moment("yesterday") == UNKNOWN_TIME < moment("2026-11-01T00:00:00")
    assert moment("2026-11-01T01:00:00+01:00") == moment("2026-11-01T00:00:00")
    first = SessionPoint("yesterday", Interval(1.0, 0.9, 1.1))
    data = History("toy", (HistorySeries("fp32", (first, *FP32.points)),))
    text = _svg(data)
    check(text)
    assert marks(text, "--plot-blue") == 6
    assert history.columns(data)[1].cells[0] == "yesterday" and len(history.columns(data)[1].cells) == 7
    assert _svg(History("toy", (HistorySeries("fp32", (first,)),))) == ""


def test_without_sessions_there_is_no_plot() -> None:
    """Nor for a setting without any."""
    assert _svg(History("toy", ())) == ""
    check(_svg(History("toy", (HistorySeries("bf16", ()), FP32))))


def test_the_table_has_every_session() -> None:
    """Setting by setting."""
    found = {column.title: column.cells for column in history.columns(History("toy", (FP32, BF16)))}
    assert found["setting"] == ("fp32",) * 6 + ("bf16",) * 2
    assert found["session (UTC)"][0] == "2026-11-01T03:00:00" and found["latency"][0] == "65.0 ms ±3.0 %"


def test_hostile_names_are_text() -> None:
    """In the panel's title."""
    text = _svg(History(HOSTILE, (HistorySeries(HOSTILE, FP32.points),)))
    check(text)
    assert "<script>" in "".join(texts(text))
