"""The search finds the highest rate from any first guess, in few steps."""

from __future__ import annotations

import pytest

from modelzoo.results.load import RESOLUTION
from modelzoo.serve.search import LOWEST, Bracket, highest


@pytest.mark.parametrize("truth", [1.0, 7.0, 9.9, 10.0, 10.4, 25.0, 300.0])
def test_the_highest_rate_is_found(truth: float) -> None:
    """To within the resolution, from below."""
    tried = []

    def passes(rate: float) -> bool:
        tried.append(rate)
        return rate <= truth

    found = highest(10.0, passes)
    assert found is not None
    assert found <= truth <= found * (1 + RESOLUTION)
    assert len(set(tried)) == len(tried) <= 14


def test_a_good_guess_takes_few_runs() -> None:
    """Within 10 % of the truth: at most five."""
    for truth in (9.1, 9.7, 10.2, 10.9):
        tried: list[float] = []
        highest(10.0, lambda rate, truth=truth, tried=tried: not tried.append(rate) and rate <= truth)  # type: ignore[misc]
        assert len(tried) <= 5


def test_a_bound_that_no_rate_meets_ends_the_search() -> None:
    """Far below the first guess."""
    tried: list[float] = []
    assert highest(10.0, lambda rate: bool(tried.append(rate))) is None
    assert min(tried) >= LOWEST * 10.0


def test_the_bracket_only_narrows() -> None:
    """A rate is always tried between what passed and what failed."""
    bracket = Bracket(10.0).tried(10.0, passed=True).tried(12.0, passed=False)
    rate = bracket.next()
    assert rate is not None
    assert 10.0 < rate < 12.0
    assert bracket.tried(rate, passed=False).high == rate
