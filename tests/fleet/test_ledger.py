"""Who judges what: each shard once, whatever members do."""

from __future__ import annotations

import pytest
from fleet_members import judged, plan
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.fleet.sharding import Ledger, chosen_again, differing
from modelzoo.frozen import replace
from modelzoo.records.fleet import Judge, SendShard

SHARDS = plan(5).shards


def test_members_get_different_shards_in_order() -> None:
    """None is given out twice while it is being judged."""
    ledger = Ledger(SHARDS)
    assert [ledger.next(member) for member in (1, 2, 3)] == [Judge(0), Judge(1), Judge(2)]


def test_the_shard_of_a_lost_member_is_free_again() -> None:
    """The next member that asks gets it first."""
    ledger = Ledger(SHARDS)
    ledger.next(1)
    ledger.next(2)
    ledger.lost(1)
    assert ledger.next(3) == Judge(0)


def test_a_shard_on_the_disk_of_a_member_is_fetched_and_not_judged() -> None:
    """Unless that member is lost before it has sent it."""
    ledger = Ledger(SHARDS[:1])
    ledger.joined(1, {SHARDS[0].identity: "s", "of another data set": "t"})
    assert ledger.next(2) is None
    assert not ledger.complete([1, 2])
    assert ledger.next(1) == SendShard(0)
    ledger.lost(1)
    assert ledger.next(2) == Judge(0)


@pytest.mark.parametrize("number", [0, 1])
def test_what_was_not_asked_for_is_refused(number: int) -> None:
    """Another shard than that of the task, or one without a task."""
    ledger = Ledger(SHARDS)
    if number:
        ledger.next(1)
    with pytest.raises(ValueError, match="which it was not asked for"):
        ledger.received(1, judged(SHARDS[number], "a"))


def test_a_result_must_hold_the_items_of_its_shard() -> None:
    """A member cannot put the items of one shard in place of another's."""

    ledger = Ledger(SHARDS)
    ledger.next(1)
    with pytest.raises(ValueError, match="does not hold its 4 items"):
        ledger.received(1, replace(judged(SHARDS[1], "a"), shard=SHARDS[0]))


def test_a_second_look_is_by_another_member() -> None:
    """With one member there is none, and the work is complete without it."""
    ledger = Ledger(SHARDS[:1], again=(0,))
    ledger.next(1)
    assert ledger.received(1, judged(SHARDS[0], "a"))
    assert ledger.next(1) is None
    assert ledger.complete([1])
    assert not ledger.complete([1, 2])
    assert ledger.next(2) == Judge(0, again=True)
    assert not ledger.received(2, judged(SHARDS[0], "b"))
    assert ledger.complete([1, 2])


def test_differing_items_are_counted_to_the_last_digit() -> None:
    """One bit is a difference."""
    first, second = judged(SHARDS[0], "a", 0.5).result, judged(SHARDS[0], "b", 0.5 + 2**-50).result
    assert differing(first, first) == 0
    assert 0 < differing(first, second) <= 4


def test_shards_that_are_judged_twice_are_spread_evenly() -> None:
    """All of them if more are wanted than there are."""
    assert chosen_again(10, 3) == (0, 3, 6)
    assert chosen_again(2, 5) == (0, 1)
    assert chosen_again(4, 0) == ()


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=60))
def test_whatever_happens_every_shard_counts_once(events: list[tuple[int, bool]]) -> None:
    """Members come, judge and are lost in any order; one that stays then finishes the rest."""
    ledger, counted = Ledger(SHARDS), []
    tasks: dict[int, Judge] = {}
    for member, is_lost in [*events, *((9, False) for _ in range(4 * len(SHARDS)))]:
        if is_lost or (member == 9 and set(tasks) - {9}):
            for gone in [member] if is_lost else sorted(set(tasks) - {9}):
                ledger.lost(gone)
                tasks.pop(gone, None)
        elif member in tasks:
            number = tasks.pop(member).number
            counted += [number] if ledger.received(member, judged(SHARDS[number], str(member))) else []
        else:
            task = ledger.next(member)
            if isinstance(task, Judge):
                tasks[member] = task
    assert sorted(counted) == list(range(len(SHARDS)))
    assert ledger.complete([9])
