"""Tests of comparisons of speed in words."""

from __future__ import annotations

import pytest

from modelzoo.stats import Doubt, Outcome, Outlook, Verdict
from modelzoo.views.speed import effort, outlook_text, verdict_reason


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict(Outcome.SLOWER, p_value=0.0129), "p = 0.013"),
        (Verdict(Outcome.SAME, p_value=0.01), "a difference of 2 % is ruled out: p = 0.01"),
        (Verdict(Outcome.AMBIGUOUS, Doubt.CHANCE, 0.0203), "p = 0.0203, and a verdict needs p ≤ 0.02"),
    ],
)
def test_the_reason_of_a_verdict(verdict: Verdict, said: str) -> None:
    """Its p-value, with as many digits as tell it from the limit."""
    assert verdict_reason(verdict) == said


@pytest.mark.parametrize("doubt", Doubt)
def test_every_doubt_is_a_clause(doubt: Doubt) -> None:
    """It stands in parentheses, and after a semicolon."""
    text = verdict_reason(Verdict(Outcome.AMBIGUOUS, doubt, 0.5, rounds=3))
    assert text[0].islower() or text[0].isdigit()
    assert not text.endswith(".")


def test_an_outlook_is_a_clause() -> None:
    """The effort alone, and what it would show."""
    assert outlook_text(Outlook(9, 180.0, 1.0)) == (
        "too noisy to compare; about 9 more processes per setting (3 min) would show a factor of two"
    )
    assert outlook_text(Outlook(1, 44.6, 0.05)) == (
        "about 1 more process per setting (45 s) would show a difference of 5.0 %"
    )
    assert effort(Outlook(1200, 8880.0, 0.02)) == "1,200 more processes per setting (2 h 28 min)"
    assert effort(Outlook(9, None, 0.02)) == "9 more processes per setting"
