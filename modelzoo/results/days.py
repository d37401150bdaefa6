"""Which sessions are of one day, so that they say nothing about how much days differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

APART = 12 * 3600.0
"""Sessions that begin within this many seconds of a day's first session are of that day.

What slows down a machine for an hour or a day (neighbours on a shared server, temperature, what the kernel has cached)
slows down all sessions of that time together: their spread is too small, however many they are. So the sessions of one
call, or of one hour, count as one, unless the call has pauses of this length. With half a day, a session each night is
of a day of its own, and one each morning and each evening too."""


def days(created: Sequence[str]) -> tuple[int, ...]:
    """Return the number of the day of each session, from 0 in the order of time.

    Days are not those of the calendar: a session at 23:55 and one at 0:05 are of one day, see ``APART``.

    Args:
        created: when each session began, ISO 8601; UTC unless it says otherwise. If one of them is not a time, all
            sessions are of one day, because nothing shows that they are not.

    >>> days(["2026-05-01T23:55:00", "2026-05-02T00:05:00", "2026-05-02T23:55:00"])
    (0, 0, 1)
    """
    try:
        begins = [_seconds(each) for each in created]
    except ValueError:
        return (0,) * len(created)
    found, first, day = [0] * len(begins), -float("inf"), -1
    for index in sorted(range(len(begins)), key=begins.__getitem__):
        if begins[index] - first >= APART:
            first, day = begins[index], day + 1
        found[index] = day
    return tuple(found)


def _seconds(iso: str) -> float:
    """Seconds since the Unix epoch."""
    moment = datetime.fromisoformat(iso)
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
