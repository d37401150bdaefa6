"""What commands promise, replayed: every replay runs and its data have the truth that they claim; broken rules show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import simulations
import verdicts_serving as serving
import verdicts_speed
import verdicts_validity as validity
from load_generator import lindley, m_d_1_wait
from promises import Promise, Replayed
from simulations import Call, End, Sides, tables

from modelzoo.comparison import estimate
from modelzoo.records.validity import Check, ValidityVerdict
from modelzoo.results import speed
from modelzoo.stats import level_interval
from modelzoo.stats.design import Looks
from modelzoo.stats.latency_bound import BoundJudgement, Round, shows
from modelzoo.validity import bounds
from modelzoo.validity.rows import column, mean

FEW = {
    **dict.fromkeys(("run", "compare", "tune"), 12),
    "throughput": 60,
    "throughput --slo": 15,
    "compare: sessions alone": 30,
    "load --rate": 10,
    "load --find": 60,
    "fleet run": 30,
    "validate": 2,
}
"""Repetitions per promise: enough for a replay that is wrong altogether."""
PROMISES = (*verdicts_speed.PROMISES, *serving.PROMISES, *validity.PROMISES)
QUICK = [each for each in PROMISES if "M/D/1" not in each.case and "20,000" not in each.case]


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
    """Percentiles in the long run from fewer samples, and AP by the rates: exact enough for a few repetitions."""

    def level_of(case: serving.Rounds, percent: float) -> float:
        rng = np.random.default_rng(1)
        found = rng.normal(0, case.wander[0], 50_000) + serving._within(case, rng, (50_000,))
        return float(np.quantile(found, percent / 100))

    def quantile_of(queue: serving.Queue, percent: float) -> float:
        return float(np.quantile(serving.latencies(queue, 100_000, np.random.default_rng(1)), percent / 100))

    monkeypatch.setattr(serving, "level_of", level_of)
    monkeypatch.setattr(serving, "quantile_of", quantile_of)
    monkeypatch.setattr(validity, "rate_of", lambda loss, by_picture: loss)
    monkeypatch.setattr(validity, "reference_ap", lambda: 0.6)


@pytest.mark.parametrize("promise", QUICK, ids=lambda promise: promise.text)
def test_every_promise_is_replayed_and_not_contradicted(promise: Promise) -> None:
    """A few repetitions of each contradict only what is far off; intervals have a width."""
    counted = promise.replay(np.random.default_rng(1), FEW[promise.command])
    assert counted.trials == FEW[promise.command]
    is_interval_of_few = promise.command == "validate" and promise.is_least
    assert is_interval_of_few or not Replayed(promise, counted).problem
    if promise.command in ("run", "compare", "tune"):
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


def test_a_verdict_by_the_observed_value_is_detected() -> None:
    """VALID if the observed ratio is within its limit: in half of the sets, although the loss is beyond it."""

    def observed(random: np.random.Generator) -> ValidityVerdict:
        pictures = validity.classified(random, 500, 0.0101)
        ratio = mean(pictures, "top1_tested") / mean(pictures, "top1_reference")
        passed = ratio >= 0.99
        check = Check("accuracy", ratio, ">=", 0.99, passed, None, undecided=not passed)
        return validity.verdict_of([check], 500)

    replay = partial(validity.count_verdicts, observed, ValidityVerdict.VALID)
    broken = Promise("validate", "", "VALID", validity.WRONG, replay)
    assert Replayed(broken, replay(np.random.default_rng(0), 60)).problem


def test_an_interval_without_the_added_cluster_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is said to be possible but what was observed."""
    monkeypatch.setattr(bounds, "typical_size", lambda sizes: 1e-9)
    counted = validity.count_unseen(
        partial(validity.changed_accuracy, pictures=32, loss=0.05), np.random.default_rng(0), 60
    )
    promise = next(each for each in validity.PROMISES if each.event.startswith("larger loss"))
    assert Replayed(promise, counted).problem


# The simulated data


def test_sides_have_the_error_that_they_claim() -> None:
    """Of the log ratio, for who knows all variances."""
    for sides in (Sides(), Sides((5, 2), 0.02, apart=True)):
        ratios = [math.log(row.interval.value) for (row,) in tables(np.random.default_rng(0), sides, 400)]
        assert np.std(ratios) == pytest.approx(sides.ideal_error, rel=0.12)


def test_the_worlds_lose_what_they_say() -> None:
    """On large sets, where it is seen."""
    random = np.random.default_rng(0)
    pictures = validity.classified(random, 40_000, 0.05, 0.05, kl=0.01)
    assert mean(pictures, "top1_tested") / mean(pictures, "top1_reference") == pytest.approx(0.95, abs=0.01)
    assert mean(pictures, "kl") == pytest.approx(0.01, rel=0.2)
    questions = validity.answered(random, 8000, 0.04, 0.02, 0.05)
    means = [mean(questions, f"f1_{side}") for side in ("reference", "tested")]
    assert means[0] == pytest.approx(validity.MEAN_F1, abs=0.02)
    assert means[1] / means[0] == pytest.approx(0.96 * 0.93 + 0.05, abs=0.02)
    assert len(questions) > 3 * 8000
    for crowded in (False, True):
        found = validity.detected(random, 8000, lost=0.1, crowded=crowded, iou=0.95, bias=0.01, drift=0.02)
        assert mean(found, "common") / mean(found, "objects") == pytest.approx(0.9, abs=0.02)
        assert mean(found, "box_iou") == pytest.approx(0.95, abs=0.003)
        assert np.mean(column(found, "edge_shifts")[::4]) == pytest.approx(0.01, abs=0.001)
        assert np.median(column(found, "score_drift")) == pytest.approx(0.02, rel=0.1)


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
