"""Several sessions together: levels with intervals over sessions, and how much they differ, raw and adjusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

import pytest
from fake_runs import make, result_of, timing
from kept_sessions import beside

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.results.adjustment import Unadjusted
from modelzoo.results.sessions import over_sessions
from modelzoo.setting import Setting

BF16 = Setting("bf16")
ROUNDS = (1.0, 1.2, 1.05, 1.3)


def session(slow: float, rounds: Sequence[float] = ROUNDS, *, load: bool = True) -> Result:
    """Two settings of 0.1 and 0.2 s in a session in which the machine was slow by this factor."""
    runs = []
    for number, each in enumerate(rounds):
        for setting, level in ((Setting(), 0.1), (BF16, 0.2)):
            run = make([level * slow * each] * 3, setting=setting, round=number)
            runs.append(beside(run, 0.002 * slow * each) if load else run)
    return result_of(*runs)


def test_levels_have_intervals_over_sessions() -> None:
    """The geometric mean of the sessions' levels, with Student's t over sessions."""
    slow = (1.0, 1.1, 1.3)
    found = over_sessions([session(each) for each in slow])
    middle = math.prod(ROUNDS) ** 0.25
    assert [(row.workload, row.label, row.sessions) for row in found.rows] == [
        ("toy", "fp32", 3),
        ("toy", "bf16=autocast", 3),
    ]
    for row, level in zip(found.rows, (0.1, 0.2)):
        wanted = stats.level_interval([level * middle * each for each in slow])
        assert (row.level.value, row.level.low) == pytest.approx((wanted.value, wanted.low))
        assert row.spread == pytest.approx(stdev(map(math.log, slow)))


def test_the_adjusted_levels_do_not_differ_if_the_load_felt_everything() -> None:
    """They are adjusted to one and the same speed."""
    found = over_sessions([session(each) for each in (1.0, 1.1, 1.3)])
    assert found.adjustment.refused is None
    assert [row.adjusted_spread for row in found.rows] == pytest.approx([0, 0], abs=1e-9)


def test_without_a_load_only_the_raw_levels_are_compared() -> None:
    """In one of the sessions it did not run."""
    found = over_sessions([session(1.0), session(1.1, load=False), session(1.2)])
    assert found.adjustment.refused is Unadjusted.NO_LOAD
    assert [row.adjusted_spread for row in found.rows] == [None, None]
    assert all(row.spread for row in found.rows)


def test_a_workload_that_the_load_does_not_predict_is_named() -> None:
    """The others are adjusted."""
    results = []
    for slow in (1.0, 1.3):
        own = session(slow).runs
        other = [
            replace(run, workload="steady", report=replace(run.report, timing=timing([0.1] * 3)))
            for run in own
            if run.report
        ]
        results.append(result_of(*own, *other))
    found = over_sessions(results)
    assert found.adjustment.left_out == ("steady",)
    assert [row.adjusted_spread is None for row in found.rows] == [False, False, True, True]


def test_a_setting_that_failed_in_a_session_has_fewer() -> None:
    """With one session it has neither an interval nor a spread."""
    other = result_of(*session(1.1).runs[::2], make(None, setting=BF16, error="died"))
    fp32, bf16 = over_sessions([session(1.0), other]).rows
    assert (fp32.sessions, bf16.sessions) == (2, 1)
    assert (bf16.spread, bf16.level.high) == (None, math.inf)


def test_a_setting_that_never_ran_has_no_row() -> None:
    """Nothing can be said of it."""
    failed = result_of(make([0.1, 0.1]), make(None, setting=BF16, error="died"))
    found = over_sessions([failed, failed])
    assert [row.label for row in found.rows] == ["fp32"]
