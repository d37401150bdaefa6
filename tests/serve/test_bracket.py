"""The search finds the highest rate from any first guess, in few steps."""

from __future__ import annotations

import pytest

from modelzoo.results.load import RESOLUTION
from modelzoo.serve.search import LOWEST, Bracket


def searched(truth: float) -> tuple[Bracket, list[float]]:
    """What is known at the end of a search that begins at 10, and the rates that were tried."""
    bracket, tried = Bracket(10.0), list[float]()
    while (rate := bracket.next()) is not None:
        tried.append(rate)
        bracket = bracket.tried(rate, passed=rate <= truth)
    return bracket, tried


@pytest.mark.parametrize("truth", [1.0, 7.0, 9.9, 10.0, 10.4, 25.0, 300.0])
def test_the_highest_rate_is_found(truth: float) -> None:
    """To within the resolution, from below."""
    found, tried = searched(truth)
    assert found.low is not None
    assert found.low <= truth <= found.low * (1 + RESOLUTION)
    assert len(set(tried)) == len(tried) <= 14


def test_a_good_guess_takes_few_runs() -> None:
    """Within 10 % of the truth: at most five."""
    assert all(len(searched(truth)[1]) <= 5 for truth in (9.1, 9.7, 10.2, 10.9))


def test_a_bound_that_no_rate_meets_ends_the_search() -> None:
    """Far below the first guess."""
    found, tried = searched(0.0)
    assert found.low is None
    assert min(tried) >= LOWEST * 10.0
