"""Which sessions are of one day."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from modelzoo.comparison.estimate import days

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


def test_a_time_zone_is_taken_into_account() -> None:
    """Without one it is UTC, as the suite writes it."""
    assert days(["2026-05-01T20:00:00", "2026-05-02T09:00:00+02:00"]) == (0, 0)
    assert days(["2026-05-01T20:00:00", "2026-05-02T09:00:00"]) == (0, 1)


def test_sessions_of_unknown_times_are_of_one_day() -> None:
    """Nothing shows that they are not; results of other tools may have no time."""
    assert days(["yesterday", *at(0, 48)]) == (0, 0, 0)
    assert days(["", ""]) == (0, 0)
