"""The replays of what serving commands promise: they agree with the commands, and a rule that is broken is found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import verdicts_serving as serving
from promises import Bound, Promise, Replayed

from modelzoo.stats.early_stopping import shows
from modelzoo.stats.latency_bound import BoundJudgement, BoundOutcome, Round

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


def replayed(promise: Promise, repetitions: int, seed: int = 1) -> Replayed:
    """The promise after a few repetitions."""
    return Replayed(promise, promise.replay(np.random.default_rng(seed), repetitions))


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


def test_every_promise_is_replayed_and_not_contradicted() -> None:
    """A few repetitions of each contradict only what is far off."""
    for promise in QUICK:
        found = replayed(promise, FEW[promise.command])
        assert found.counted.trials == FEW[promise.command]
        assert found.holds, promise


def test_promises_are_told_apart_by_their_text() -> None:
    """Each row of the table is another one; every command is there."""
    rows = [(each.command, each.case, each.event) for each in serving.PROMISES]
    assert len(set(rows)) == len(rows)
    assert {each.command for each in serving.PROMISES} == set(FEW)


def test_wide_intervals_say_why() -> None:
    """Those of a search are wider than the spread of its repeats, and say what was added."""
    wide = [each for each in serving.PROMISES if each.command == "load --find" and each.bound is Bound.AT_LEAST]
    assert wide
    assert all(each.why for each in wide)


def test_a_bound_that_is_met_by_the_pooled_percentile_is_found_out() -> None:
    """The rule of before: correlated latencies and processes that differ fool it in far more than 2 %."""

    def pooled(rounds: Sequence[Round], percent: float, limit: float) -> BoundJudgement:
        every = [value for found in rounds for each in found for value in each]
        met = shows(len(every), sum(value > limit for value in every), percent / 100)
        return BoundJudgement(BoundOutcome.MET if met else BoundOutcome.UNDECIDED)

    judge: Any = partial(
        serving.replay_bound, case=serving.DIFFERING, percent=90, outcome=BoundOutcome.MET, judge=pooled
    )
    assert not replayed(Promise("", "", "", Bound.AT_MOST, 0.02, judge), 60).holds


def test_requests_that_count_as_independent_are_found_out() -> None:
    """The rule of before, which runs of a search still have."""
    replay = partial(serving.replay_valid, queue=serving.Queue(0.7), percent=99, count=1001, is_search=True)
    assert not replayed(Promise("", "", "", Bound.AT_MOST, 0.02, replay), 60).holds


def test_a_recommendation_from_the_rounds_that_chose_it_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure of the best of eight is over the truth nearly always."""
    results = serving.throughput_results

    def flattered(result: Any) -> Any:
        best = results.best(results.rows(result), None)
        assert best is not None
        return results.Recommendation(best, results.Backing.UNCONFIRMED, ())

    monkeypatch.setattr(results, "recommendation", flattered)
    (bias,) = [each for each in serving.PROMISES if "8 equal" in each.case and "is over" in each.event]
    assert not replayed(bias, 100).holds


def test_a_search_that_reports_the_lower_end_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it did: it does not cover what lies in the middle."""
    from modelzoo import stats

    monkeypatch.setattr(
        serving.load_results, "bracketed", lambda brackets: stats.level_interval([low for low, _ in brackets])
    )
    (promise,) = [
        each for each in serving.PROMISES if "3 repeats that differ by 0.5 %" in each.case and "covers" in each.event
    ]
    assert not replayed(promise, 100).holds


def test_the_queue_with_several_instances_is_one_queue() -> None:
    """With as many instances as requests nobody waits; one instance is Lindley's recursion."""
    rng = np.random.default_rng(1)
    assert serving.latencies(serving.Queue(0.5, 50, spread=0.0), 40, rng).tolist() == pytest.approx([1.0] * 40)
    one = serving.latencies(serving.Queue(0.9, 1), 500, np.random.default_rng(2))
    several = serving.latencies(serving.Queue(0.9, 2), 500, np.random.default_rng(2))
    assert one.mean() > several.mean() > 1.0


def test_series_have_the_correlation_that_was_asked_for() -> None:
    """And unit variance."""
    found = serving.autoregressive(np.random.default_rng(1), 200, 200, 0.6)
    assert found.var() == pytest.approx(1.0, abs=0.1)
    assert (found[:, 1:] * found[:, :-1]).mean() == pytest.approx(0.6, abs=0.06)
