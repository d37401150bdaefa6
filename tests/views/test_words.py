"""Values with their intervals, verdicts and stages as text."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from fake_runs import result_of
from pipelines import pipeline_run

from modelzoo.records.timing import LATENCY, MODEL, SYNCHRONIZED
from modelzoo.results.pipeline import pipelines
from modelzoo.stats import Doubt, Interval, Outcome, Outlook, Verdict
from modelzoo.views import intervals, stages
from modelzoo.views.speed import outlook_text, verdict_reason


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Interval(0.0561, 0.0515, 0.0561), "56 ms ±8.2 %"),
        (Interval(4.0, 2.0, 12.0), "4 s (noisy)"),
        (Interval(1.0, 0.0, math.inf), "1.000 s (no interval)"),
        (None, "–"),
    ],
)
def test_a_time_is_rounded_in_its_unit(found: Interval | None, text: str) -> None:
    """An interval is shown by its larger side, one that is wider than its value by a word, a missing one by a dash."""
    assert intervals.interval(found) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Interval(0.62, 0.6, 0.64), "0.62× [0.60, 0.64]"),
        (Interval(0.62, 0.611, 0.628), "0.620× [0.611, 0.628]"),
        (Interval(0.62, 0.0, math.inf), "0.62× (one process: no interval)"),
        (Interval(0.62, 0.005, 40312.0), "0.62× (noisy)"),
        (None, "–"),
    ],
)
def test_a_ratio_is_shown_with_its_interval(found: Interval | None, text: str) -> None:
    """As many decimals as the interval supports; one whose ends are far apart says nothing and is not shown."""
    assert intervals.ratio(found) == text


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (56.1234, 0.73, "56.1"),
        (264.4, 13.9, "264"),
        (0.0123, 0.0001, "0.01230"),
        (56.0, 700.0, "60"),
        (0.0, 0.1, "0"),
        (12.345, math.inf, "12.35"),
    ],
)
def test_a_number_is_rounded_as_its_interval_allows(value: float, half_width: float, text: str) -> None:
    """Two digits of the half width if it begins with 100 to 354, else one; without an interval, four digits."""
    assert intervals.rounded(value, half_width) == text


def test_reasons_and_outlooks_are_clauses(approved: Callable[[str, str], None]) -> None:
    """A p-value has as many digits as tell it from the limit; an outlook is the effort, and what it would show."""
    decided = Verdict(Outcome.SLOWER, p_value=0.0129), Verdict(Outcome.SAME, p_value=0.01)
    open_ = (Verdict(Outcome.AMBIGUOUS, doubt, 0.0203, rounds=3) for doubt in Doubt)
    outlooks = ((9, 180.0, 1.0), (1, 44.6, 0.05), (1200, 8880.0, 0.02), (9, None, 0.02))
    said = [*map(verdict_reason, (*decided, *open_)), *(outlook_text(Outlook(*each)) for each in outlooks)]
    approved("said/verdicts.txt", "".join(f"{each}\n" for each in said))


COLUMNS = {LATENCY: [0.1] * 4, "decode": [0.02] * 4, MODEL: [0.07] * 4, "answer": [0.01] * 4}


def test_what_the_stages_show_is_said(approved: Callable[[str, str], None]) -> None:
    """The slowest one, whether they add up within 2 %, and what timing them costs on an accelerator."""
    apart = {LATENCY: [0.1, 0.1, 0.2], "decode": [0.01, 0.05, 0.1], MODEL: [0.08, 0.04, 0.09], "answer": [0.01] * 3}
    said = []
    slow = {LATENCY: [0.28] * 4, "decode": [0.2] * 4}
    for changed in (slow, {LATENCY: [0.11] * 4}, apart, {SYNCHRONIZED: [0.12] * 4}):
        runs = (pipeline_run({**COLUMNS, **changed}, round=number) for number in (0, 1))
        (found,) = pipelines(result_of(*runs))
        said += stages.sentences(found)
    approved("said/stages.txt", "".join(f"{each}\n" for each in said))
