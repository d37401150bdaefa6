"""Which sessions are of one day."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.comparison.estimate import APART, days

START = datetime(2026, 5, 1, 22, 0, tzinfo=timezone.utc)


def at(*hours: float) -> list[str]:
    """Sessions that begin so many hours after the first of May, 22:00 UTC."""
    return [(START + timedelta(hours=each)).isoformat() for each in hours]


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        ((), ()),
        ((0,), (0,)),
        ((0, 1 / 6, 1 / 3), (0, 0, 0)),  # every ten minutes, across midnight
        ((0, 2, 4), (0, 0, 0)),
        ((0, 24, 48), (0, 1, 2)),
        ((0, 12, 24), (0, 1, 2)),
        ((0, 11.9, 12.1), (0, 0, 1)),
        ((24, 0, 25), (1, 0, 1)),  # any order
        ((5, 5, 5), (0, 0, 0)),
    ],
)
def test_a_day_begins_half_a_day_after_the_one_before(hours: tuple[float, ...], expected: tuple[int, ...]) -> None:
    """Whatever the calendar says: what slows down a machine does not end at midnight."""
    assert days(at(*hours)) == expected


def test_sessions_all_the_time_are_of_many_days() -> None:
    """One every half hour for a week: a day holds those of half a day, and does not grow for ever."""
    found = days(at(*(0.5 * number for number in range(2 * 24 * 7))))
    assert max(found) == 13
    assert found.count(3) == 24


def test_a_time_zone_is_taken_into_account() -> None:
    """Without one it is UTC, as the suite writes it."""
    assert days(["2026-05-01T20:00:00", "2026-05-02T09:00:00+02:00"]) == (0, 0)
    assert days(["2026-05-01T20:00:00", "2026-05-02T09:00:00"]) == (0, 1)


def test_sessions_of_unknown_times_are_of_one_day() -> None:
    """Nothing shows that they are not; results of other tools may have no time."""
    assert days(["yesterday", *at(0, 48)]) == (0, 0, 0)
    assert days(["", ""]) == (0, 0)


@given(st.lists(st.floats(0, 1000), max_size=20))
def test_days_are_apart_and_sessions_of_an_hour_are_seldom_divided(hours: list[float]) -> None:
    """The first sessions of two days are at least ``APART`` from each other, and days are numbered without gaps."""
    found = days(at(*hours))
    assert sorted(set(found)) == list(range(len(set(found))))
    firsts = [min(hour for hour, day in zip(hours, found) if day == number) for number in sorted(set(found))]
    assert all(3600 * (b - a) >= APART - 1e-3 for a, b in itertools.pairwise(firsts))
