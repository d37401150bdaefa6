"""The latencies of all settings."""

from __future__ import annotations

import re

from drawn import check, parsed, svg, texts
from fake_runs import make, result_of

from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views.plots import latencies
from modelzoo.views.plots.latencies import Latencies

RUNS = [
    make([level + round / 100] * 3, setting=setting, group=group, round=round)
    for group, (setting, level) in enumerate(((Setting(), 1.0), (Setting("bf16"), 0.5)))
    for round in range(3)
]


def test_settings_stand_below_each_other_under_the_names_of_the_table() -> None:
    """With their intervals; one that was not timed is left out."""
    failed = make(None, setting=Setting(batch=9), group=2, error="died")
    data = latencies.of_rows(summary.rows(result_of(*RUNS, failed)))
    assert [each.latency.value < 0.6 for each in data.rows] == [False, True]
    text = svg(latencies.plot(latencies.of_rows(summary.rows(result_of(*RUNS)))))
    check(text)
    assert {"fp32", "bf16", "1.010 s \u00b12.5 %"} <= set(texts(text))


def test_no_line_of_the_axis_runs_through_a_text() -> None:
    """They are drawn beside the intervals only, not over the whole height."""
    found = latencies.plot(latencies.of_rows(summary.rows(result_of(*RUNS))))
    assert found is not None
    for part in parsed(svg(found)).iter("path"):
        drawn = re.fullmatch(r"M ([\d.]+) ([\d.]+) ?L ([\d.]+) ([\d.]+) ?", part.get("d", ""))
        if drawn is not None:
            left, top, right, bottom = map(float, drawn.groups())
            assert left != right or abs(bottom - top) < 20


def test_what_was_not_timed_has_no_plot() -> None:
    """Nor has an empty result."""
    assert latencies.plot(Latencies((), "")) is None
    one = latencies.of_rows(summary.rows(result_of(*RUNS)))
    many = latencies.plot(Latencies(one.rows * 20, one.timed))
    assert many is not None
    assert "the first 16 of 40 settings" in str(many.caption)
    assert len(many.columns[0].cells) == 40
