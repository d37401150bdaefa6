"""A race: its stages, and the order of the entrants. Which of them wins is in tests/tuning/test_choice.py."""

from __future__ import annotations

import itertools
import math

import pytest

from modelzoo.stats import race


@pytest.mark.parametrize("count", range(1, 40))
def test_every_stage_has_about_half_of_the_candidates(count: int) -> None:
    """The first has all, the last a few; a small grid has two stages as well."""
    sizes = race.sizes(count)
    assert sizes[0] == count
    assert sizes[-1] <= race.FINALISTS
    assert len(sizes) > 1
    assert all(after == math.ceil(before / 2) or before == after for before, after in itertools.pairwise(sizes))


def test_candidates_are_ranked_by_their_mean() -> None:
    """The geometric mean of the ratios; those without times are left out."""
    logs = {1: {0: 0.1, 1: 0.1}, 2: {0: 0.5}, 3: {}, 4: {0: -0.2}}
    assert race.ranked(logs) == [2, 1, 4]
    assert race.speed(logs[1]) == pytest.approx(math.exp(0.1))
