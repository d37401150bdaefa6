"""Picking the winner: the simplest of those that cannot be told from the best."""

from __future__ import annotations

import pytest

from modelzoo.setting import Setting
from modelzoo.tuning import choice
from modelzoo.tuning.choice import Pick

STEADY = {0: 0.40, 1: 0.41, 2: 0.39, 3: 0.40}
"""Log ratios of a candidate that is faster in every round."""


def shifted(by: float, noise: float = 0.0) -> dict[int, float]:
    """``STEADY``, faster by ``by``, with noise that alternates."""
    return {number: value + by + (noise if number % 2 else -noise) for number, value in STEADY.items()}


def test_a_clear_winner_has_no_ties() -> None:
    """It is told apart in every round."""
    found = choice.pick({1: shifted(0), 2: shifted(0.2, 0.001)}, {1: 1, 2: 2})
    assert found == Pick(winner=2, best=2, ties=())


def test_the_simplest_of_equals_wins() -> None:
    """A candidate that changes two options and seems 0.5 % faster does not beat one that changes one."""
    found = choice.pick({1: shifted(0), 2: shifted(0.005, 0.02)}, {1: 1, 2: 2})
    assert found == Pick(winner=1, best=2, ties=(1,))


def test_a_tie_that_is_far_behind_is_named_but_does_not_win() -> None:
    """Noisy rounds tell nothing apart; the estimate still counts."""
    found = choice.pick({1: shifted(0), 2: shifted(0.1, 0.2)}, {1: 1, 2: 2})
    assert found == Pick(winner=2, best=2, ties=(1,))


def test_of_equally_simple_ties_the_faster_wins() -> None:
    """Nothing else tells them apart."""
    assert choice.pick({1: shifted(0), 2: shifted(0.005, 0.02)}, {1: 1, 2: 1}).winner == 2


def test_the_default_takes_part() -> None:
    """It wins if nothing seems faster, or if the fastest cannot be told from it and is hardly faster."""
    slower = dict.fromkeys(range(4), -0.1)
    assert choice.pick({1: slower}, {1: 1}) == Pick(0, 0, ())
    hardly = {0: 0.03, 1: -0.02, 2: 0.02, 3: -0.01}
    assert choice.pick({1: hardly}, {1: 1}) == Pick(winner=0, best=1, ties=(0,))
    assert choice.pick({}, {}) == Pick(0, 0, ())


def test_one_round_tells_nothing_apart() -> None:
    """But a large difference is still worth measuring again."""
    assert choice.pick({1: {0: 0.5}}, {1: 1}) == Pick(winner=1, best=1, ties=(0,))


def test_candidates_without_common_rounds_are_compared_by_all_of_theirs() -> None:
    """They sampled in different blocks."""
    found = choice.pick({1: {0: 0.5, 1: 0.5}, 2: {2: 0.2, 3: 0.2}}, {1: 2, 2: 1})
    assert found.winner == 1
    assert 2 in found.ties


def test_steps_lead_from_the_default_to_the_winner_by_one_option_each() -> None:
    """The precision and its method are one option."""
    winner = Setting("bf16", "autocast", mode="compile", channels_last=True, threads=2)
    found = choice.steps(Setting(), winner)
    assert [each.label for each in found[:3]] == [
        "fp32 compile",
        "fp32 compile channels-last",
        "bf16=autocast compile channels-last",
    ]
    assert found[-1] == winner
    assert choice.complexities([Setting(), winner]) == {0: 0, 1: 4}


def test_every_option_that_a_candidate_may_change_is_an_axis() -> None:
    """Otherwise the steps would not reach the winner."""
    from modelzoo.tuning import grid

    declared = (*grid.MODES, *grid.BF16, *grid.MEMORY, *grid.LAST)
    names = {name for changes in declared for name in changes} | {"threads", "batch"}
    assert names <= {name for axis in choice.AXES for name in axis}


@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_true_improvement_of_half_the_time_always_wins(count: int) -> None:
    """Whatever the number of rounds."""
    logs = {number: 0.69 + 0.05 * (number % 3) for number in range(count)}
    assert choice.pick({1: logs}, {1: 3}).winner == 1
