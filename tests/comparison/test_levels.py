"""Levels of sessions: the unit of each metric, batch sizes, and what processes and sessions say of their variance."""

from __future__ import annotations

import math

import pytest
from compared_sides import session, side_setting
from fake_runs import make, result_of

from modelzoo.comparison.estimate import Level, level, log_ratio, skewness
from modelzoo.frozen import replace
from modelzoo.results.refusals import Metric
from modelzoo.setting import Setting
from modelzoo.stats import Basis

T2, T3 = 4.3026527, 3.1824463
"""97.5 % quantiles of Student's t."""


def half(known: Level) -> float:
    """Half the width of the interval of the log."""
    return math.log(known.interval.high / known.interval.value)


def logs(*sessions: list[float], days: list[int] | None = None) -> Level:
    """The level of sessions of such processes, each session of a day of its own unless ``days`` says otherwise."""
    days = days or list(range(1, 1 + len(sessions)))
    of = [session([math.exp(each) for each in processes], day) for processes, day in zip(sessions, days)]
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
        side = side_setting(session([0.1, 0.2], **changes))
        starts = [level(side, metric).interval.value for metric in (Metric.COLD_START, Metric.WARM_START)]
        assert starts == pytest.approx([9, 9])
    unknown = side_setting(session([0.1, 0.2], compile_seconds=3.0))
    assert level(unknown, Metric.COLD_START) is level(unknown, Metric.WARM_START) is None


def test_items_per_second_follow_from_the_mean_of_the_latencies() -> None:
    """Five batches of 4 in 9 s, whose median is 1 s; so do those that a whole machine would process."""
    side = side_setting(result_of(*(make([1.0, 1.0, 1.0, 1.0, 5.0], round=number) for number in range(2))))
    assert level(side, Metric.THROUGHPUT).interval.value == pytest.approx(20 / 9)
    assert skewness(side) == pytest.approx(9 / 5)


def test_processes_and_sessions_without_times_do_not_count() -> None:
    """A failed process is left out, and so is a session in which all of them failed."""
    whole, failed = session([0.1, 0.2], 1), session([0.1, 0.2], 2)
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
    assert half(known) == pytest.approx(T2 * math.sqrt(0.01 / 3))
    assert [each.value for each in known.variances] == pytest.approx([0.005, 0.01 / 3])
    assert (known.spread.basis, known.spread.processes) == (Basis.ASSUMED, pytest.approx(0.1))
    alike = logs([0.0] * 4, [0.0] * 4, [0.3] * 4)
    assert [each.value for each in alike.variances] == pytest.approx([0.03 / 3])
    assert (alike.spread.basis, alike.spread.deviation) == (Basis.SESSIONS, pytest.approx(math.sqrt(0.03)))


def test_the_variance_within_days_by_hand() -> None:
    """Days with sessions at 0, 0.1, 0.2 and at 0.5, 0.7: (0.02 + 0.02) / 3, times (1/3 + 1/2) / 4."""
    known = logs([0.0], [0.1], [0.2], [0.5], [0.7], days=[1, 1, 1, 2, 2])
    assert half(known) == pytest.approx(T3 * math.sqrt(0.04 / 3 * (1 / 3 + 1 / 2) / 4))


def test_single_processes_say_nothing_about_how_processes_differ() -> None:
    """There are no degrees of freedom, and the interval is unbounded."""
    assert logs([0.0], [0.1]).interval.high == math.inf


def test_the_interval_is_of_processes_and_from_three_days_or_sessions_on_of_these() -> None:
    """Student's t with 3 - 1 degrees of freedom; with two days, that of their pooled processes."""
    for days in ([1, 2, 3], [1, 1, 1]):
        assert half(logs([0.0, 0.0], [0.1, 0.1], [0.2, 0.2], days=days)) == pytest.approx(T2 * 0.1 / math.sqrt(3))
    two = logs([0.0, 0.0], [0.2, 0.2]).interval
    assert two.low == two.value == two.high == pytest.approx(math.exp(0.1))


def test_better_is_a_ratio_above_one_in_every_metric() -> None:
    """Twice the throughput is better, half of everything else is."""
    side = side_setting(session([0.1]))
    for metric in Metric:
        difference = math.log(2) if metric is Metric.THROUGHPUT else -math.log(2)
        assert math.exp(log_ratio(side, side, metric, difference)) == pytest.approx(2)


def test_latencies_are_compared_per_item() -> None:
    """Twice the batch in twice the time is equally fast; the first call and the memory are compared as they are."""
    four, eight = side_setting(session([0.1])), side_setting(session([0.2], setting=Setting(batch=8)))
    expected = {Metric.LATENCY: 0, Metric.COLD_START: -math.log(2), Metric.MEMORY: -math.log(2)}
    assert {each: log_ratio(four, eight, each, math.log(2)) for each in expected} == pytest.approx(expected)
