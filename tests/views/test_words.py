"""Values with their intervals, verdicts and stages as text."""

from __future__ import annotations

import math
from collections.abc import Callable

from fake_runs import result_of
from pipelines import pipeline_run

from modelzoo.records.timing import LATENCY, MODEL, SYNCHRONIZED
from modelzoo.results.parts import pipelines
from modelzoo.stats import Doubt, Interval, Outcome, Outlook, Verdict
from modelzoo.views import speed, tables
from modelzoo.views.speed import outlook_text, verdict_reason


def test_digits_are_those_that_an_interval_supports(approved: Callable[[str, str], None]) -> None:
    """An interval that is wider than its value, or whose ends are far apart, says nothing: it is a word.

    Two digits of the half width if it begins with 100 to 354, else one; without an interval, four digits.
    """
    levels = Interval(0.0561, 0.0515, 0.0561), Interval(4.0, 2.0, 12.0), Interval(1.0, 0.0, math.inf), None
    bounds = (0.6, 0.64), (0.611, 0.628), (0.0, math.inf), (0.005, 40312.0)
    numbers = (56.1234, 0.73), (264.4, 13.9), (0.0123, 0.0001), (56.0, 700.0), (0.0, 0.1), (12.345, math.inf)
    said = [*map(speed.interval, levels), *(speed.ratio(Interval(0.62, *each)) for each in bounds)]
    said += [speed.ratio(None), *(speed.rounded(*each) for each in numbers)]
    approved("said/intervals.txt", "".join(f"{each}\n" for each in said))


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
        said += tables.stage_sentences(found)
    approved("said/stages.txt", "".join(f"{each}\n" for each in said))
