"""Levels of sessions: the unit of each metric, batch sizes, and what processes and sessions say of their variance."""

from __future__ import annotations

import math

import pytest
from fake_runs import make, result_of
from stored_sides import session, side_setting

from modelzoo.comparison.levels import SessionLevels, interval, log_ratio, session_levels, skewness
from modelzoo.comparison.model import Metric
from modelzoo.frozen import replace
from modelzoo.setting import Setting


def values(metric: Metric, **changes: object) -> list[float]:
    """The values of two processes of 0.1 and 0.2 s, in the metric's unit."""
    found = session_levels(side_setting(session([0.1, 0.2], **changes)), metric)
    assert found is not None
    return [math.exp(each) for each in found.processes[0]]


def test_each_metric_has_its_own_values() -> None:
    """Seconds per batch, items per second of a batch of 4, seconds of the first call (9 s), and bytes (1 GiB)."""
    assert values(Metric.LATENCY) == pytest.approx([0.1, 0.2])
    assert values(Metric.THROUGHPUT) == pytest.approx([40, 20])
    assert values(Metric.COLD_START) == pytest.approx([9, 9])
    assert values(Metric.MEMORY) == pytest.approx([2**30, 2**30])


def test_a_cold_start_is_one_that_compiled() -> None:
    """A process that compiled for 40 s, and one that took 3 s with what the first had left in the cache."""
    runs = [
        make([0.1], compile_seconds=40.0, first_answer_seconds=40.0, compiled_libraries=7),
        make([0.1], round=1, compile_seconds=3.0, first_answer_seconds=3.0, compiled_libraries=0),
    ]
    side = side_setting(result_of(*runs))
    found = {metric: session_levels(side, metric) for metric in (Metric.COLD_START, Metric.WARM_START)}
    assert [level and level.processes for level in found.values()] == [((math.log(40),),), ((math.log(3),),)]
    assert session_levels(side_setting(result_of(runs[1])), Metric.COLD_START) is None


def test_what_compiles_nothing_starts_the_same_with_any_cache() -> None:
    """An eager process counts for both, even in results without the time to the first answer."""
    for changes in ({"first_answer_seconds": 9.0}, {}):
        assert values(Metric.COLD_START, **changes) == values(Metric.WARM_START, **changes) == pytest.approx([9, 9])
    unknown = side_setting(session([0.1, 0.2], compile_seconds=3.0))
    assert session_levels(unknown, Metric.COLD_START) is session_levels(unknown, Metric.WARM_START) is None


def test_items_per_second_follow_from_the_mean_of_the_latencies() -> None:
    """Five batches of 4 in 9 s, whose median is 1 s; so do those that a whole machine would process."""
    side = side_setting(result_of(*(make([1.0, 1.0, 1.0, 1.0, 5.0], round=number) for number in range(2))))
    found = session_levels(side, Metric.THROUGHPUT)
    assert found is not None
    assert [math.exp(each) for each in found.processes[0]] == pytest.approx([20 / 9, 20 / 9])
    assert skewness(side) == pytest.approx(9 / 5)


def test_processes_and_sessions_without_times_do_not_count() -> None:
    """A failed process is left out, and so is a session in which all of them failed."""
    whole, failed = session([0.1, 0.2], 1), session([0.1, 0.2], 2)
    broken = tuple(replace(run, report=None, error="broken") for run in failed.runs)
    part = replace(whole, runs=(whole.runs[0], broken[1]))
    found = session_levels(side_setting(part, replace(failed, runs=broken)), Metric.LATENCY)
    assert found == SessionLevels(((pytest.approx(math.log(0.1)),),), (0,))
    assert session_levels(side_setting(replace(failed, runs=broken)), Metric.LATENCY) is None


def test_the_day_is_the_unit() -> None:
    """A session of three processes counts as much as one of a single process, and two of a day as much as one."""
    found = SessionLevels(((0.0, 0.1, 0.2), (0.5,)), (0, 1))
    assert found.levels == pytest.approx([0.1, 0.5])
    assert (found.mean, found.process_count, found.session_count) == (pytest.approx(0.3), 4, 2)
    more = SessionLevels(((0.0, 0.1, 0.2), (0.5,), (0.7,)), (0, 1, 1))
    assert more.levels == pytest.approx([0.1, 0.6])
    assert (more.mean, more.session_count, more.day_count) == (pytest.approx(0.35), 3, 2)


def test_the_days_of_a_side_are_those_of_its_sessions() -> None:
    """Two sessions of one hour and one of the next day; a session without times has no day."""
    first, later, next_day = session([0.1], 1), session([0.2], 1), session([0.3], 2)
    later = replace(later, created="2026-07-01T00:30:00+00:00")
    failed = replace(session([0.1], 5), runs=())
    found = session_levels(side_setting(first, later, next_day, failed), Metric.LATENCY)
    assert found is not None
    assert found.days == (0, 0, 1)


def test_variances_by_hand() -> None:
    """Sessions at 0.1 and 0.5: 0.08 / 2. Processes: 0.01 with 2 degrees of freedom, times (1/3 + 1) / 4."""
    found = SessionLevels(((0.0, 0.1, 0.2), (0.5,)), (0, 1))
    of_days, of_processes = found.of_days(), found.between_processes()
    assert (of_days.value, of_days.freedom) == (pytest.approx(0.04), 1)
    assert (of_processes.value, of_processes.freedom) == (pytest.approx(0.01), 2)
    assert found.share_of_a_process() == pytest.approx(1 / 3)
    assert found.within_days().value == pytest.approx(0.01 / 3)


def test_the_variance_within_days_by_hand() -> None:
    """Days with sessions at 0, 0.1, 0.2 and at 0.5, 0.7: (0.02 + 0.02) / 3, times (1/3 + 1/2) / 4."""
    found = SessionLevels(((0.0,), (0.1,), (0.2,), (0.5,), (0.7,)), (0, 0, 0, 1, 1))
    within = found.within_days()
    assert (within.value, within.freedom) == (pytest.approx(0.04 / 3 * (1 / 3 + 1 / 2) / 4), 3)
    assert found.share_of_a_process() == pytest.approx((3 / 9 + 2 / 4) / 4)


def test_single_processes_say_nothing_about_how_processes_differ() -> None:
    """There are no degrees of freedom, and the interval is unbounded."""
    found = SessionLevels(((0.0,), (0.1,)), (0, 1))
    assert found.between_processes().freedom == 0
    assert interval(found).high == math.inf


@pytest.mark.parametrize("days", [(0, 1, 2), (0, 0, 0)])
def test_the_interval_is_of_processes_and_from_three_days_or_sessions_on_of_these(days: tuple[int, ...]) -> None:
    """Student's t with 3 - 1 degrees of freedom is 4.303; with two days, that of their pooled processes."""
    three = interval(SessionLevels(((0.0, 0.0), (0.1, 0.1), (0.2, 0.2)), days))
    assert math.log(three.high / three.value) == pytest.approx(4.303 * 0.1 / math.sqrt(3), rel=1e-3)
    two = interval(SessionLevels(((0.0, 0.0), (0.2, 0.2)), (0, 1)))
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
    assert log_ratio(four, eight, Metric.LATENCY, math.log(2)) == pytest.approx(0)
    assert log_ratio(four, eight, Metric.COLD_START, math.log(2)) == pytest.approx(-math.log(2))
    assert log_ratio(four, eight, Metric.MEMORY, math.log(2)) == pytest.approx(-math.log(2))
