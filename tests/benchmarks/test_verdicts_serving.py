"""The replays of what serving commands promise: they agree with the commands, and a rule that is broken is found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import verdicts_serving as serving
from load_generator import lindley, m_d_1_wait
from promises import Promise, Replayed

from modelzoo.stats import level_interval
from modelzoo.stats.latency_bound import BoundJudgement, Round, shows

FEW = {
    "throughput": 60,
    "throughput --slo": 15,
    "compare: sessions alone": 30,
    "load --rate": 10,
    "load --find": 60,
    "fleet run": 30,
}
"""Repetitions per promise: enough for a replay that is wrong altogether."""
QUICK = [each for each in serving.PROMISES if "M/D/1" not in each.case and "20,000" not in each.case]


def problem(replay: Any, repetitions: int, promised: float = 0.02) -> str:
    """What a few repetitions contradict: a replay of what may happen this often, or a promise."""
    promise = replay if isinstance(replay, Promise) else Promise("", "", "", promised, replay)
    return Replayed(promise, promise.replay(np.random.default_rng(1), repetitions)).problem


def promise_of(case: str, event: str) -> Promise:
    """The only promise whose case and event have these words."""
    (found,) = [each for each in serving.PROMISES if case in each.case and event in each.event]
    return found


@pytest.fixture(autouse=True)
def rough_truths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Percentiles in the long run from fewer samples: exact enough for a few repetitions."""

    def level_of(case: serving.Rounds, percent: float) -> float:
        rng = np.random.default_rng(1)
        found = rng.normal(0, case.wander[0], 50_000) + serving._within(case, rng, (50_000,))
        return float(np.quantile(found, percent / 100))

    def quantile_of(queue: serving.Queue, percent: float) -> float:
        return float(np.quantile(serving.latencies(queue, 100_000, np.random.default_rng(1)), percent / 100))

    monkeypatch.setattr(serving, "level_of", level_of)
    monkeypatch.setattr(serving, "quantile_of", quantile_of)


@pytest.mark.parametrize("promise", QUICK, ids=lambda promise: promise.text)
def test_every_promise_is_replayed_and_not_contradicted(promise: Promise) -> None:
    """A few repetitions of each contradict only what is far off."""
    counted = promise.replay(np.random.default_rng(1), FEW[promise.command])
    assert counted.trials == FEW[promise.command]
    assert not Replayed(promise, counted).problem


def test_a_bound_that_is_met_by_the_pooled_percentile_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of before: correlated latencies and processes that differ fool it in far more than 2 %."""

    def pooled(rounds: Sequence[Round], percent: float, limit: float) -> BoundJudgement:
        every = [value for found in rounds for each in found for value in each]
        met = shows(len(every), sum(value > limit for value in every), percent / 100)
        return BoundJudgement("met" if met else "undecided")

    monkeypatch.setattr(serving.latency_bound, "judge", pooled)
    assert problem(partial(serving.replay_bound, serving.DIFFERING, 90, "met"), 60)


def test_requests_that_count_as_independent_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of before, which runs of a search still have."""
    reasons = serving.load_results.reasons
    monkeypatch.setattr(
        serving.load_results, "reasons", lambda run, bound, is_search: reasons(run, bound, is_search=True)
    )
    assert problem(partial(serving.replay_valid, serving.Queue(0.7), 99, 1001), 60)


def test_a_recommendation_from_the_rounds_that_chose_it_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure of the best of eight is over the truth nearly always."""
    results = serving.throughput_results

    def flattered(result: Any) -> Any:
        return results.Recommendation(results.best(results.rows(result), None), "unconfirmed", ())

    monkeypatch.setattr(results, "recommendation", flattered)
    assert problem(promise_of("8 equal", "is over"), 100)


def test_a_search_that_reports_the_lower_end_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it did: it does not cover what lies in the middle."""
    monkeypatch.setattr(
        serving.load_results, "bracketed", lambda brackets: level_interval([low for low, _ in brackets])
    )
    assert problem(promise_of("3 repeats that differ by 0.5 %", "covers"), 100)


def test_the_queue_with_several_instances_is_one_queue() -> None:
    """With as many instances as requests nobody waits; one instance is Lindley's recursion."""
    rng = np.random.default_rng(1)
    assert serving.latencies(serving.Queue(0.5, 50, spread=0.0), 40, rng).tolist() == pytest.approx([1.0] * 40)
    one = serving.latencies(serving.Queue(0.9, 1), 500, np.random.default_rng(2))
    several = serving.latencies(serving.Queue(0.9, 2), 500, np.random.default_rng(2))
    assert one.mean() > several.mean() > 1.0


def test_theory_by_hand() -> None:
    """A busy spell, then an idle one; the mean wait of M/D/1 is half that of M/M/1."""
    assert lindley([0.0, 1.0, 2.0, 9.0], [3.0, 1.0, 1.0, 1.0]).tolist() == [0.0, 2.0, 2.0, 0.0]
    assert m_d_1_wait(0.9, 2.0) == pytest.approx(0.9 / (1 - 0.9))
