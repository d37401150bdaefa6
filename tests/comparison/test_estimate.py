"""Levels of sessions, and ratios of stored results: by hand, by their symmetries, and of sides that are alike."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

import pytest
from fake_runs import make, result_of
from hypothesis import given
from hypothesis import strategies as st
from proven_results import plain_session, side_setting

from modelzoo.comparison.estimate import (
    TOKENS,
    Level,
    days,
    is_one_day,
    level,
    log_ratio,
    mean_ratio,
    ratio,
    skewness,
    worse_by_more,
)
from modelzoo.frozen import replace
from modelzoo.results.refusals import Metric, Pair, SideSetting
from modelzoo.setting import Setting
from modelzoo.stats import Basis, Doubt, LogRatio, Outcome, Ratio, verdicts
from modelzoo.views.speed import basis_text

T2, T3 = 4.3026527, 3.1824463
"""97.5 % quantiles of Student's t."""


def half_width(known: Level) -> float:
    """Half the width of the interval of the log."""
    return math.log(known.interval.high / known.interval.value)


def logs(*sessions: list[float], days: list[int] | None = None) -> Level:
    """The level of sessions of such processes, each session of a day of its own unless ``days`` says otherwise."""
    days = days or list(range(1, 1 + len(sessions)))
    of = [plain_session([math.exp(each) for each in processes], day) for processes, day in zip(sessions, days)]
    return level(side_setting(*of), Metric.LATENCY)


def test_a_cold_start_is_one_that_compiled() -> None:
    """A process that compiled for 40 s, and one that took 3 s with what the first had left in the cache."""
    runs = [
        make([0.1], compile_seconds=40.0, first_answer_seconds=40.0, compiled_libraries=7),
        make([0.1], round=1, compile_seconds=3.0, first_answer_seconds=3.0, compiled_libraries=0),
    ]
    side = side_setting(result_of(*runs))
    starts = [level(side, metric).interval.value for metric in (Metric.COLD_START, Metric.WARM_START)]
    assert starts == pytest.approx([40, 3])
    assert level(side_setting(result_of(runs[1])), Metric.COLD_START) is None


def test_what_compiles_nothing_starts_the_same_with_any_cache() -> None:
    """An eager process counts for both, even in results without the time to the first answer."""
    for changes in ({"first_answer_seconds": 9.0}, {}):
        side = side_setting(plain_session([0.1, 0.2], **changes))
        starts = [level(side, metric).interval.value for metric in (Metric.COLD_START, Metric.WARM_START)]
        assert starts == pytest.approx([9, 9])
    unknown = side_setting(plain_session([0.1, 0.2], compile_seconds=3.0))
    assert level(unknown, Metric.COLD_START) is level(unknown, Metric.WARM_START) is None


def test_items_per_second_follow_from_the_mean_of_the_latencies() -> None:
    """Five batches of 4 in 9 s, whose median is 1 s; so do those that a whole machine would process."""
    side = side_setting(result_of(*(make([1.0, 1.0, 1.0, 1.0, 5.0], round=number) for number in range(2))))
    assert level(side, Metric.THROUGHPUT).interval.value == pytest.approx(20 / 9)
    assert skewness(side) == pytest.approx(9 / 5)


def test_processes_and_sessions_without_times_do_not_count() -> None:
    """A failed process is left out, and so is a session in which all of them failed."""
    whole, failed = plain_session([0.1, 0.2], 1), plain_session([0.1, 0.2], 2)
    broken = tuple(replace(run, report=None, error="broken") for run in failed.runs)
    part = replace(whole, runs=(whole.runs[0], broken[1]))
    known = level(side_setting(part, replace(failed, runs=broken)), Metric.LATENCY)
    assert (known.mean, known.spread.sessions) == (pytest.approx(math.log(0.1)), 1)
    assert level(side_setting(replace(failed, runs=broken)), Metric.LATENCY) is None


def test_the_day_is_the_unit() -> None:
    """A session of three processes counts as much as one of a single process, and two of a day as much as one."""
    assert logs([0.0, 0.1, 0.2], [0.5]).mean == pytest.approx(0.3)
    more = logs([0.0, 0.1, 0.2], [0.5], [0.7], days=[1, 2, 2])
    assert (more.mean, more.spread.sessions, more.spread.days) == (pytest.approx(0.35), 3, 2)


def test_variances_by_hand() -> None:
    """Processes: 0.01 with 2 degrees of freedom, times (1/3 + 1) / 4; days are assumed to differ by 0.1: 0.01 / 2."""
    known = logs([0.0, 0.1, 0.2], [0.5])
    assert half_width(known) == pytest.approx(T2 * math.sqrt(0.01 / 3))
    assert [each.value for each in known.variances] == pytest.approx([0.005, 0.01 / 3])
    assert (known.spread.basis, known.spread.processes) == (Basis.ASSUMED, pytest.approx(0.1))
    alike = logs([0.0] * 4, [0.0] * 4, [0.3] * 4)
    assert [each.value for each in alike.variances] == pytest.approx([0.03 / 3])
    assert (alike.spread.basis, alike.spread.deviation) == (Basis.SESSIONS, pytest.approx(math.sqrt(0.03)))


def test_the_variance_within_days_by_hand() -> None:
    """Days with sessions at 0, 0.1, 0.2 and at 0.5, 0.7: (0.02 + 0.02) / 3, times (1/3 + 1/2) / 4."""
    known = logs([0.0], [0.1], [0.2], [0.5], [0.7], days=[1, 1, 1, 2, 2])
    assert half_width(known) == pytest.approx(T3 * math.sqrt(0.04 / 3 * (1 / 3 + 1 / 2) / 4))


def test_single_processes_say_nothing_about_how_processes_differ() -> None:
    """There are no degrees of freedom, and the interval is unbounded."""
    assert logs([0.0], [0.1]).interval.high == math.inf


def test_the_interval_is_of_processes_and_from_three_days_or_sessions_on_of_these() -> None:
    """Student's t with 3 - 1 degrees of freedom; with two days, that of their pooled processes."""
    for of_sessions in ([1, 2, 3], [1, 1, 1]):
        known = logs([0.0, 0.0], [0.1, 0.1], [0.2, 0.2], days=of_sessions)
        assert half_width(known) == pytest.approx(T2 * 0.1 / math.sqrt(3))
    two = logs([0.0, 0.0], [0.2, 0.2]).interval
    assert two.low == two.value == two.high == pytest.approx(math.exp(0.1))


def test_better_is_a_ratio_above_one_in_every_metric() -> None:
    """Twice the throughput is better, half of everything else is."""
    side = side_setting(plain_session([0.1]))
    for metric in Metric:
        difference = math.log(2) if metric is Metric.THROUGHPUT else -math.log(2)
        assert math.exp(log_ratio(side, side, metric, difference)) == pytest.approx(2)


def test_latencies_are_compared_per_item() -> None:
    """Twice the batch in twice the time is equally fast; the first call and the memory are compared as they are."""
    four, eight = side_setting(plain_session([0.1])), side_setting(plain_session([0.2], setting=Setting(batch=8)))
    expected = {Metric.LATENCY: 0, Metric.COLD_START: -math.log(2), Metric.MEMORY: -math.log(2)}
    assert {each: log_ratio(four, eight, each, math.log(2)) for each in expected} == pytest.approx(expected)


T4 = 2.7764451
"""97.5 % quantile of Student's t with 4 degrees of freedom."""
MIRRORED = {Outcome.FASTER: Outcome.SLOWER, Outcome.SLOWER: Outcome.FASTER, Outcome.AMBIGUOUS: Outcome.AMBIGUOUS}
ESTIMATED = (Metric.LATENCY, Metric.THROUGHPUT)

SESSIONS = st.lists(st.lists(st.floats(0.05, 0.2), min_size=1, max_size=8), min_size=1, max_size=4)
"""Seconds of each process of each session."""


def side(*sessions: list[float], first_day: int = 1) -> SideSetting:
    """A side whose sessions have these processes (seconds), on successive days of July."""
    return side_setting(*(plain_session(each, day) for day, each in enumerate(sessions, first_day)))


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
    sessions = [plain_session([level] * 8, day) for _ in range(count)]
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
        replace(plain_session([0.1 * math.exp(each)] * 8), created=f"2026-07-01T0{hour}:00:00+00:00")
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
