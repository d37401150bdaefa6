"""Tests of comparisons of speed in words."""

from __future__ import annotations

from collections.abc import Callable

from modelzoo.stats import Doubt, Outcome, Outlook, Verdict
from modelzoo.views.speed import outlook_text, verdict_reason


def test_reasons_and_outlooks_are_clauses(approved: Callable[[str, str], None]) -> None:
    """A p-value has as many digits as tell it from the limit; an outlook is the effort, and what it would show."""
    decided = Verdict(Outcome.SLOWER, p_value=0.0129), Verdict(Outcome.SAME, p_value=0.01)
    open_ = (Verdict(Outcome.AMBIGUOUS, doubt, 0.0203, rounds=3) for doubt in Doubt)
    outlooks = ((9, 180.0, 1.0), (1, 44.6, 0.05), (1200, 8880.0, 0.02), (9, None, 0.02))
    said = [*map(verdict_reason, (*decided, *open_)), *(outlook_text(Outlook(*each)) for each in outlooks)]
    approved("said/verdicts.txt", "".join(f"{each}\n" for each in said))
