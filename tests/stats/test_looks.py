"""Planned looks, and the error that each may spend."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.stats import Look, Looks, planned_looks, ratio_test
from modelzoo.stats.design import spending


@pytest.mark.parametrize(
    ("minimum", "maximum", "planned"),
    [
        (8, 64, (8, 12, 16, 24, 32, 48, 64)),
        (8, 100, (8, 12, 16, 24, 32, 48, 64, 100)),
        (8, 33, (8, 12, 16, 24, 33)),
        (8, 10, (8, 10)),
        (8, 9, (9,)),
        (3, 3, (3,)),
        (3, 20, (3, 8, 12, 16, 20)),
        (8, 5, (5,)),
    ],
)
def test_looks_are_planned_from_the_minimum_to_the_maximum(
    minimum: int, maximum: int, planned: tuple[int, ...]
) -> None:
    """Each adds a third to a half of the rounds before it, and the last is not wasted."""
    assert planned_looks(minimum, maximum) == planned


def test_spending_goes_from_nothing_to_everything() -> None:
    """Half of the rounds spend 62 % (Lan and DeMets 1983)."""
    assert spending(0, 0.02) == 0
    assert spending(0.5, 1) == pytest.approx(0.6201, abs=1e-4)
    assert spending(1, 0.02) == pytest.approx(0.02)
    assert spending(1.5, 0.02) == pytest.approx(0.02), "rounds beyond the maximum have nothing left to spend"


@given(st.integers(2, 12), st.integers(0, 200), st.integers(1, 300), st.booleans())
def test_looks_never_spend_more_than_everything(minimum: int, more: int, rounds: int, final: bool) -> None:
    """The shares of all looks that are taken add up to 1 at most, and to exactly 1 once sampling has ended."""
    looks = Looks(planned_looks(minimum, minimum + more), minimum + more, final)
    taken = looks.taken(rounds)
    total = math.fsum(look.share for look in taken)
    assert total <= 1 + 1e-12
    if final or rounds >= looks.maximum:
        assert total == pytest.approx(1)
    assert all(look.share > 0 and look.rounds <= rounds for look in taken)


def test_a_look_that_was_not_planned_is_taken_only_if_sampling_has_ended_by_itself() -> None:
    """At 10 rounds of a design with looks at 8 and 12: the first, or the first and the rest."""
    first = spending(8 / 16, 1.0)
    assert Looks((8, 12, 16), 16).taken(10) == (Look(8, first),)
    assert Looks((8, 12, 16), 16, final=True).taken(10) == (Look(8, first), Look(10, 1 - first))
    assert Looks((8, 12, 16), 16, final=True).taken(8) == (Look(8, 1.0),)
    assert Looks((8, 12, 16), 16, final=True).taken(5) == (Look(5, 1.0),)
    assert Looks((8, 12, 16), 16).taken(5) == ()


def test_rounds_beyond_the_maximum_are_no_look() -> None:
    """The whole error has been spent at the maximum; more rounds narrow the interval, and divide nothing by zero."""
    looks = Looks((2, 4), 4, final=True)
    assert looks.taken(5) == looks.taken(4) == Looks((2, 4), 4).taken(5)
    a, b = [[1.0, 1.01], [1.0, 1.02], [1.01, 1.0], [1.0, 1.01], [1.0, 1.0]], [[2.0, 2.01]] * 5
    found, planned = (ratio_test(a[:end], b[:end], looks=looks) for end in (5, 4))
    assert found.p_value == planned.p_value
    assert 0 < found.interval.low < found.interval.high < 1
