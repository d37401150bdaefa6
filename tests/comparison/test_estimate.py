"""Ratios of stored results: by hand, by their symmetries, and what they say of sides that are alike."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

import pytest
from compared_sides import session, side_setting
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.comparison.estimate import TOKENS, days, is_one_day, mean_ratio, ratio, worse_by_more
from modelzoo.frozen import replace
from modelzoo.results.refusals import Metric, Pair, SideSetting
from modelzoo.stats import Basis, Doubt, LogRatio, Outcome, Ratio, verdicts
from modelzoo.views.speed import basis_text

T4 = 2.7764451
"""97.5 % quantile of Student's t with 4 degrees of freedom."""
MIRRORED = {Outcome.FASTER: Outcome.SLOWER, Outcome.SLOWER: Outcome.FASTER, Outcome.AMBIGUOUS: Outcome.AMBIGUOUS}
ESTIMATED = (Metric.LATENCY, Metric.THROUGHPUT)

SESSIONS = st.lists(st.lists(st.floats(0.05, 0.2), min_size=1, max_size=8), min_size=1, max_size=4)
"""Seconds of each process of each session."""


def side(*sessions: list[float], first_day: int = 1) -> SideSetting:
    """A side whose sessions have these processes (seconds), on successive days of July."""
    return side_setting(*(session(each, day) for day, each in enumerate(sessions, first_day)))


def levels(*logs: float, first_day: int = 1) -> SideSetting:
    """A side whose sessions have 8 equal processes of 0.1 s times e to the power of ``logs``."""
    return side(*([0.1 * math.exp(log)] * 8 for log in logs), first_day=first_day)


def compared(base: SideSetting, other: SideSetting, metric: Metric = Metric.LATENCY) -> Ratio:
    """The ratio of two sides that have values."""
    return ratio(Pair(base, other), metric)


def log(found: Ratio) -> LogRatio:
    """Its logarithm, with its error."""
    (look,) = found.seen
    return look.ratio


def half(found: Ratio) -> float:
    """Half the width of the interval of the log ratio."""
    return math.log(found.interval.high / found.interval.value)


def outcome(found: Ratio, table: int = 1) -> Outcome:
    """The verdict on one of ``table`` equal rows."""
    return verdicts([found] * table)[0].outcome


# By hand


def test_three_days_a_side_know_their_own_variance() -> None:
    """Levels -0.01, 0, 0.01 on both sides: error² = 2 × 1e-4 / 3, with 4 degrees of freedom."""
    found = compared(levels(-0.01, 0, 0.01), levels(-0.06, -0.05, -0.04, first_day=4))
    assert found.basis is Basis.SESSIONS
    assert found.interval.value == pytest.approx(math.exp(0.05))
    assert (log(found).error, log(found).freedom) == (pytest.approx(math.sqrt(2e-4 / 3)), pytest.approx(4))
    assert half(found) == pytest.approx(T4 * math.sqrt(2e-4 / 3))
    assert basis_text(found) == "sessions differ by 1 % (its own sessions on 3 days), standard deviation"
    assert [(each.sessions, each.days) for each in found.spreads] == [(3, 3)] * 2


@pytest.mark.parametrize("count", [2, 3, 5])
def test_sessions_of_one_day_are_one(count: int) -> None:
    """However alike they are: how much days differ is assumed, and that is said."""
    base, other = (of_one_day(level, count, day) for level, day in ((0.1, 1), (0.1 / 1.05, 2)))
    found = compared(base, other)
    assert (found.basis, log(found).error) == (Basis.ASSUMED, pytest.approx(math.sqrt(0.02)))
    why = f"assumed; {count} sessions of one day do not show it"
    assert basis_text(found) == f"sessions differ by 10 % ({why}), standard deviation"
    assert outcome(found) is Outcome.AMBIGUOUS


def of_one_day(level: float, count: int, day: int) -> SideSetting:
    """A side of sessions half an hour apart, as a loop makes them."""
    sessions = [session([level] * 8, day) for _ in range(count)]
    apart = [f"2026-07-{day:02}T{number // 2:02}:{30 * (number % 2):02}:00+00:00" for number in range(count)]
    return side_setting(*(replace(each, created=created) for each, created in zip(sessions, apart)))


def test_an_assumption_is_marked_and_the_error_within_sessions_added() -> None:
    """error² = 0.1² + 0.1² + what the processes of the one side say; the reason names the assumption."""
    wide = side([0.1 * math.exp(0.03 * sign) for sign in (1, -1) * 4])
    found = compared(wide, levels(0, first_day=2))
    assert found.basis is Basis.ASSUMED
    assert log(found).error == pytest.approx(math.sqrt(0.02 + 0.03**2 / 7))
    assert basis_text(found) == "sessions differ by 10 % (assumed), standard deviation"
    assert verdicts([found])[0].doubt is Doubt.CHANCE


@pytest.mark.parametrize("processes", [1, 3, 8])
def test_under_the_assumption_a_factor_of_two_is_a_verdict_and_five_percent_are_not(processes: int) -> None:
    """Even in a table of eight, and even with a single process each."""
    base = side([0.1] * processes)
    half_the_time, faster = side([0.05] * processes, first_day=2), side([0.1 / 1.05] * processes, first_day=2)
    assert outcome(compared(base, half_the_time), 8) is Outcome.FASTER
    assert outcome(compared(half_the_time, base), 8) is Outcome.SLOWER
    assert outcome(compared(base, faster)) is Outcome.AMBIGUOUS


def test_few_processes_are_not_trusted_alone() -> None:
    """Three equal processes a side vary as is assumed, beside the sessions; nor are three sessions of one process."""
    found = compared(side([0.1] * 3), side([0.1] * 3, first_day=2))
    assert log(found).error == pytest.approx(math.sqrt(2 * (0.01 + 0.01 / 3)))
    few = "sessions differ by 10 % (assumed), and fewer than 6 processes by 10 %, standard deviation"
    assert basis_text(found) == few
    enough = side([0.1] * 6), side([0.1] * 6, first_day=2)
    assert log(compared(*enough)).error == pytest.approx(math.sqrt(0.02))
    found = compared(side([0.1], [0.1], [0.1]), side([0.104], [0.104], [0.104], first_day=4))
    assert (found.basis, outcome(found)) == (Basis.SESSIONS, Outcome.AMBIGUOUS)
    assert log(found).error == pytest.approx(math.sqrt(2 * 0.1**2 / 3))


def test_sessions_of_one_day_have_a_ratio_of_their_own() -> None:
    """error² = 0.03² / 7 + 0.01² / 7, with the 7 degrees of freedom of either side; of 3 sessions, theirs: 2."""
    sides = [side([0.1 * math.exp(spread * sign) for sign in (1, -1) * 4]) for spread in (0.03, 0.01)]
    assert is_one_day(Pair(*sides))
    found = ratio(Pair(*sides), Metric.LATENCY, is_alone=True)
    assert (log(found).error, log(found).freedom) == (pytest.approx(math.sqrt((0.03**2 + 0.01**2) / 7)), 7)
    several = [
        replace(session([0.1 * math.exp(each)] * 8), created=f"2026-07-01T0{hour}:00:00+00:00")
        for hour, each in enumerate((-0.01, 0, 0.01))
    ]
    found = ratio(Pair(sides[0], side_setting(*several)), Metric.LATENCY, is_alone=True)
    assert (log(found).error, log(found).freedom) == (pytest.approx(math.sqrt(0.03**2 / 7 + 1e-4 / 3)), 2)
    assert not is_one_day(Pair(sides[0], side([0.1] * 8, first_day=2)))
    assert ratio(Pair(sides[0], side([0.1] * 3)), Metric.LATENCY, is_alone=True) is Doubt.FEW_PROCESSES


# Verdicts of a table


def test_worse_by_more_than_a_limit_is_more_than_worse() -> None:
    """10 % slower is certainly worse by 3 %, 4 % slower is only certainly slower, and faster is not worse."""
    base, by = levels(-0.005, 0, 0.005), (0.1, 0.04, -0.1)
    rows = [compared(base, levels(more - 0.005, more, more + 0.005, first_day=4)) for more in by]
    assert [each.outcome for each in verdicts(rows)] == [Outcome.SLOWER, Outcome.SLOWER, Outcome.FASTER]
    assert worse_by_more(rows, 0.03) == [True, False, False]
    assert worse_by_more(rows, 0.5) == [False] * 3


def test_the_mean_of_rows_is_as_certain_as_a_row() -> None:
    """Rows share their sessions, so more rows do not make their mean more certain."""
    found = compared(levels(-0.01, 0, 0.01), levels(-0.06, -0.05, -0.04, first_day=4))
    mean = mean_ratio([found, found])
    assert (mean.value, mean.low, mean.high) == pytest.approx(
        (found.interval.value, found.interval.low, found.interval.high)
    )
    assert mean_ratio([]) is None


# Properties


@given(SESSIONS, st.sampled_from(sorted(set(Metric) - set(TOKENS))))
def test_a_side_is_never_faster_than_itself(sessions: list[list[float]], metric: Metric) -> None:
    """The ratio is 1, and the verdict SAME or AMBIGUOUS."""
    base = side(*sessions)
    found = compared(base, base, metric)
    assert (found.interval.value, found.p_value) == (1, 1)
    assert outcome(found) in (Outcome.SAME, Outcome.AMBIGUOUS)


@given(SESSIONS, SESSIONS, st.sampled_from(ESTIMATED))
def test_swapped_sides_have_the_inverse_ratio_and_the_opposite_verdict(
    mine: list[list[float]], theirs: list[list[float]], metric: Metric
) -> None:
    """FASTER becomes SLOWER; the limits of SAME are not symmetric, so a verdict at the edge may come or go."""
    base, other = side(*mine), side(*theirs, first_day=5)
    there, back = compared(base, other, metric), compared(other, base, metric)
    assert there.interval.value == pytest.approx(1 / back.interval.value)
    assert there.interval.low == pytest.approx(1 / back.interval.high)
    assert (there.p_value, there.basis) == (pytest.approx(back.p_value, abs=1e-9), back.basis)
    found = outcome(there), outcome(back)
    if Outcome.SAME not in found and abs(there.p_value - 0.02) > 1e-6:
        assert found[1] is MIRRORED[found[0]]


# Which sessions are of one day

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


def test_a_time_zone_is_taken_into_account_and_an_unknown_time_separates_nothing() -> None:
    """Without a zone it is UTC, as the suite writes it; results of other tools may have no time."""
    assert days(["2026-05-01T20:00:00", "2026-05-02T09:00:00+02:00"]) == (0, 0)
    assert days(["2026-05-01T20:00:00", "2026-05-02T09:00:00"]) == (0, 1)
    assert days(["yesterday", *at(0, 48)]) == (0, 0, 0)
    assert days(["", ""]) == (0, 0)
