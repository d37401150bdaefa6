"""The noise of a machine from its kept sessions."""

from __future__ import annotations

import math
from statistics import stdev

import pytest
from kept_sessions import kept

from modelzoo import stats
from modelzoo.results.sessions import machine_noise, session_spread


def test_no_sessions_say_nothing() -> None:
    """The machine is new."""
    assert machine_noise([]) is None
    assert session_spread([]) is None


def test_the_variances_are_those_of_the_workload() -> None:
    """All of its settings and sessions together: variances are averaged, not standard deviations."""
    found = machine_noise([kept(1, between=0.01, tau2=0.0), kept(2, between=0.03, tau2=0.08, label="bf16")])
    assert found is not None
    (toy,) = found.workloads
    assert (toy.workload, toy.sessions) == ("toy", 2)
    assert (toy.between_processes, toy.within_process) == pytest.approx((math.sqrt(0.02), math.sqrt(0.04)))


def test_the_sessions_are_counted_once() -> None:
    """Each has several workloads and settings."""
    found = machine_noise([kept(5), kept(2, label="bf16"), kept(2), kept(2, workload="bert")])
    assert found is not None
    assert (found.sessions, found.first[:10], found.last[:10]) == (2, "2026-01-02", "2026-01-05")
    assert [each.workload for each in found.workloads] == ["bert", "toy"]


def test_sessions_of_the_same_work_show_how_much_they_differ() -> None:
    """From three on, pooled over what was repeated; other work does not count."""
    seconds = (0.1, 0.12, 0.11)
    same = [kept(day, level=each) for day, each in enumerate(seconds, 1)]
    other = [kept(day, level=each, key="other") for day, each in ((1, 5.0), (2, 9.0))]
    found = session_spread([*same, *other])
    assert found is not None
    assert found.value == pytest.approx(stdev(map(math.log, seconds)))
    assert (found.sessions, found.freedom) == (3, 2)
    assert session_spread(same[:2]) is None
    twice = session_spread([*same, *(kept(day, level=0.2, key="steady") for day in (1, 2, 3, 4))])
    assert twice is not None
    assert twice.value == pytest.approx(found.value * math.sqrt(2 / 5))
    assert (twice.sessions, twice.freedom) == (4, 5)


def test_a_setting_that_was_asked_for_twice_is_one_value_per_session() -> None:
    """A against A: the two of a session say nothing about other sessions."""
    assert session_spread([kept(1, level=each) for each in (0.1, 0.2, 0.3)]) is None


def test_the_reference_load_has_a_spread_of_its_own() -> None:
    """Between sessions, and only if it is the same load."""
    levels = [kept(day, reference=each, reference_load="a") for day, each in enumerate((1.0, 1.1, 1.2), 1)]
    found = machine_noise([*levels, kept(4, reference=9.0, reference_load="b")])
    assert found is not None
    assert found.reference_spread == pytest.approx(stdev(map(math.log, (1.0, 1.1, 1.2))))
    few = machine_noise(levels[:2])
    assert few is not None
    assert few.reference_spread is None


def test_the_smallest_difference_follows_from_the_rounds_that_fit() -> None:
    """10 s a process, two processes a round: 15 rounds in 5 minutes."""
    found = machine_noise([kept(cost=7.0, sampled=3.0), kept(cost=7.0, sampled=3.0, ratio_spread=0.03)])
    assert found is not None
    assert found.workloads[0].detectable == pytest.approx(stats.detectable(0.03, 15, 0.02))


@pytest.mark.parametrize("changes", [{"ratio_spread": None}, {"ratio_spread": 0.03, "cost": 90.0}])
def test_some_workloads_show_no_difference_in_five_minutes(changes: dict[str, float | None]) -> None:
    """One setting alone, or a round that takes longer than half of the time."""
    found = machine_noise([kept(**changes)])
    assert found is not None
    assert found.workloads[0].detectable is None
