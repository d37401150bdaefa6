"""benchmarks/verdicts_speed.py: every replay runs, its data have the truth that they claim, and broken rules show."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import simulations
import verdicts_speed
from promises import Promise, Replayed
from simulations import Call, End, Sides, tables

from modelzoo.comparison import estimate
from modelzoo.results import speed
from modelzoo.stats.design import Looks


def problem(replay: Any, repetitions: int) -> str:
    """What is said of a replay of what may happen in 2 %."""
    promise = Promise("", "", "", 0.02, replay)
    return Replayed(promise, replay(np.random.default_rng(1), repetitions)).problem


@pytest.mark.parametrize("promise", verdicts_speed.PROMISES, ids=lambda promise: promise.text)
def test_every_replay_runs(promise: Promise) -> None:
    """Twelve repetitions contradict no promise; intervals have a width."""
    counted = promise.replay(np.random.default_rng(3), 12)
    assert counted.trials == 12
    assert not Replayed(promise, counted).problem
    assert (counted.width is not None) == promise.is_least
    assert counted.width is None or counted.width > 0.5


# Planted: rules that break a promise


def test_looks_that_cost_nothing_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the full error."""
    monkeypatch.setattr(Looks, "taken", lambda self, rounds: tuple((n, 1.0) for n in self.planned if n <= rounds))
    assert problem(partial(verdicts_speed.wrong, Call()), 1000)


def test_an_interruption_with_a_look_of_its_own_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C spends the rest of the error, as the end of the time does."""
    simulations._looks.cache_clear()
    monkeypatch.setattr(speed, "BY_THEMSELVES", (*speed.BY_THEMSELVES, simulations.StopReason.INTERRUPTED))
    call = Call(end=End.FIRST_DIFFERENCE)
    assert problem(partial(verdicts_speed.wrong, call), 1000)
    simulations._looks.cache_clear()


def test_a_table_without_a_correction_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row at the full error."""
    alone = lambda found: [(each.p_value, each.p_outside) for each in found]  # noqa: E731
    monkeypatch.setattr("modelzoo.stats.comparison.corrected", alone)
    assert problem(partial(verdicts_speed.wrong, Call((1.0,) * 8, rounds=8)), 500)


def test_sessions_of_one_day_that_count_as_days_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three sessions of one call would then know how much days differ."""
    monkeypatch.setattr(estimate, "days", lambda created: tuple(range(len(created))))
    assert problem(partial(verdicts_speed.called, Sides()), 150)


def test_a_search_that_confirms_nothing_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of the search is said to be faster, whatever the confirmation shows."""
    monkeypatch.setattr(simulations.decisions, "pick", lambda found, steps: SimpleNamespace(winner=min(found)))
    monkeypatch.setattr("modelzoo.stats.comparison.LARGEST_P", 1.0)
    assert problem(simulations.false_winner, 60)


# The simulated data


def test_sides_have_the_error_that_they_claim() -> None:
    """Of the log ratio, for who knows all variances."""
    for sides in (Sides(), Sides((5, 2), 0.02, apart=True)):
        ratios = [math.log(row.interval.value) for (row,) in tables(np.random.default_rng(0), sides, 400)]
        assert np.std(ratios) == pytest.approx(sides.ideal_error, rel=0.12)
