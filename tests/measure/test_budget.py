"""How the time of a call is divided."""

from __future__ import annotations

import math

import pytest

from modelzoo.measure.schedule import FEWEST, MINIMUM, State, needed_rounds, next_workload


def state(rounds: int = 8, cost: float = 10.0, width: float = 0.1, **changes: object) -> State:
    """A workload with two settings that needs 8 rounds."""
    values = {"needed": 8, "fixed": False, "decided": True, **changes}
    return State(rounds=rounds, cost=cost, half_width=width, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("costs", "seconds", "expected"),
    [
        ([10, 10], 1000, [MINIMUM, MINIMUM]),
        ([14, 14, 16, 47], 570, [8, 8, 8, 4]),
        ([14, 14, 16, 47], 620, [8, 8, 8, 5]),
        ([47, 14], 160, [FEWEST, 5]),
        ([100.0], 120, [FEWEST]),
        ([], 100, []),
    ],
)
def test_expensive_workloads_get_fewer_rounds(costs: list[float], seconds: float, expected: list[int]) -> None:
    """The cheap ones get 8 each; what is left goes to the expensive ones, at least 3 rounds each."""
    assert needed_rounds(costs, seconds) == expected


def test_needed_rounds_come_first_and_in_turn() -> None:
    """However wide another one's interval is; the workload that has the smallest share of its rounds is next."""
    states = [state(5), state(4), state(8, width=0.9)]
    assert next_workload(states, 0.05, 1000.0, hard=True) == 1
    assert next_workload([state(2, needed=3), state(2)], 0.05, 1000.0, hard=True) == 1


def test_rounds_that_are_needed_may_exceed_the_default_budget_but_not_a_given_one() -> None:
    """The default is a guess; a budget that the user gave is a limit."""
    assert next_workload([state(5)], 0.05, 3.0, hard=False) == 0
    assert next_workload([state(5)], 0.05, 3.0, hard=True) is None


def test_after_that_the_widest_interval_decides() -> None:
    """Compared with the margin, among those that can still be afforded."""
    states = [state(width=0.08), state(width=0.12, cost=50.0), state(width=0.11)]
    assert next_workload(states, 0.05, 100.0, hard=False) == 1
    assert next_workload(states, 0.05, 20.0, hard=False) == 2
    assert next_workload(states, 0.05, 5.0, hard=False) is None


def test_narrow_and_decided_workloads_need_nothing() -> None:
    """Narrow but undecided ones go on; those whose number is fixed end with it, those that cannot run at once."""
    assert next_workload([state(width=0.04)], 0.05, 100.0, hard=False) is None
    assert next_workload([state(width=0.04, decided=False)], 0.05, 100.0, hard=False) == 0
    assert next_workload([state(width=0.4, fixed=True)], 0.05, 100.0, hard=False) is None
    assert next_workload([state(0, width=math.inf, can_run=False)], 0.05, 100.0, hard=False) is None
