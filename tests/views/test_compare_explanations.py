"""What is said of the passes that explain a difference."""

from __future__ import annotations

import pytest

from modelzoo.comparison.explanations import Explanation, Part
from modelzoo.views.compare import passes_text


def explained(base: float, other: float, *, timed: tuple[float, float] = (1.0, 0.8)) -> str:
    """What is said of two audited passes and one that took ``base`` and ``other`` seconds each."""
    found = Explanation("bert", "fp32", "audited", (Part("aten::mm", base, other),), 2, 1, *timed)
    return passes_text(found, ("xeon", "arm"))


def test_passes_are_set_beside_the_timed_ones() -> None:
    """How much slower they are on each side, and their share of the timed difference."""
    said = explained(1.25, 1.0)
    assert "xeon: 2 audited passes of 1.250 s, 25 % more than the timed ones (1.000 s as measured)" in said
    assert "arm: 1 audited pass of 1.000 s, 25 % more than the timed ones (800.0 ms as measured)" in said
    assert "They differ by −250.0 ms, 125 % of the timed difference (−200.0 ms)." in said


@pytest.mark.parametrize(("base", "other"), [(1.0, 1.1), (1.0, 1.0)])
def test_passes_may_not_explain_the_difference(base: float, other: float) -> None:
    """If they differ the other way round, or not at all."""
    assert "so they do not explain the timed difference" in explained(base, other)


def test_without_a_timed_difference_there_is_no_share() -> None:
    """Nothing is divided by zero."""
    assert "the timed ones by +0" in explained(1.0, 0.9, timed=(1.0, 1.0))


def test_without_a_significant_difference_nothing_is_explained() -> None:
    """A share of what may be chance says nothing; one of 10,000 % was shown."""
    found = Explanation("bert", "fp32", "audited", (Part("aten::mm", 1.0, 0.9),), 2, 1, 1.0, 0.999)
    assert "of the timed difference" not in passes_text(found, ("xeon", "arm"), is_decided=False)
