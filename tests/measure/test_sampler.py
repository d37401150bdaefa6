"""Timing a call: cold start, warm-up, samples, and the garbage collector meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from modelzoo.measure import sampler
from modelzoo.measure.clock import Times
from modelzoo.measure.sampler import Sampling
from modelzoo.plan import Plan
from modelzoo.records.timing import LATENCY


class FakeClock:
    """Takes its samples from ``seconds(i)`` and advances simulated time by each of them."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.now = 100.0
        self.calls = 0
        self._seconds = seconds

    def time(self, call: Callable[[], Any]) -> Times:
        call()
        value = self._seconds(self.calls)
        self.calls += 1
        self.now += value
        return {LATENCY: value}


Make = Callable[[Callable[[int], float]], FakeClock]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Create the fake clock whose time the sampler reads."""

    def make(seconds: Callable[[int], float]) -> FakeClock:
        fake = FakeClock(seconds)
        monkeypatch.setattr(sampler, "perf_counter", lambda: fake.now)
        return fake

    return make


def nothing() -> None:
    """The call under test does nothing."""


def test_cold_start_warm_up_and_steady_state_are_separate(clock: Make) -> None:
    """The first call is the cold start, decreasing times are warm-up, and neither is in the steady-state samples."""
    fake, reported = clock(lambda i: 1.0 if i == 0 else 0.01 * (1 + 4 * 0.8**i)), list[tuple[str, int]]()
    timing = sampler.measure(nothing, fake, Plan(max_seconds=3), lambda *words: reported.append(words))
    assert timing.cold_start == 1.0
    assert timing.warmup_end == "settled"
    assert len(timing.warmup) > 5
    assert max(timing.steady) < 0.011
    assert 1 + len(timing.warmup) + len(timing.steady) == fake.calls
    assert list(dict.fromkeys(phase for phase, _ in reported)) == ["cold", "warm-up", "steady"]
    assert reported[-1] == ("steady", len(timing.steady))


@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_sampling_takes_the_time_that_was_given(jitter: float, clock: Make) -> None:
    """However narrow or wide the process's own interval is: another process would differ by more."""
    fake = clock(lambda i: 0.01 * (1 + jitter * (i * 2654435761 % 2**32) / 2**32))
    timing = sampler.measure(nothing, fake, Plan(max_seconds=2))
    assert (timing.warmup_end, timing.stop) == ("settled", "time limit")
    assert sum(timing.steady) == pytest.approx(2, abs=0.1)


def test_a_warm_up_has_limits(clock: Make) -> None:
    """It ends at its time limit if times never stabilize, and calls of microseconds are warmed up for a minimum time:
    threads and clock frequencies need longer than ten of them.
    """
    timing = sampler.measure(nothing, clock(lambda i: 0.001 * 1.02 ** min(i, 400)), Plan(max_seconds=1, iterations=5))
    assert timing.warmup_end == "cap"
    assert sampler.WARMUP_MAX_SECONDS <= sum(timing.warmup) <= 1.5 * sampler.WARMUP_MAX_SECONDS
    timing = sampler.measure(nothing, clock(lambda i: 5e-6), Plan(iterations=3))
    assert sum(timing.warmup) >= sampler.WARMUP_MIN_SECONDS


def test_slow_calls_are_warmed_up_once(clock: Make) -> None:
    """There are too few calls of several seconds to compare windows: one is made, and the reason is recorded."""
    timing = sampler.measure(nothing, clock(lambda i: 4.0), Plan(max_seconds=1))
    assert (len(timing.warmup), timing.warmup_end) == (1, "few")
    assert (len(timing.steady), timing.stop) == (sampler.MIN_SAMPLES, "time limit")


@pytest.mark.parametrize("warmup", [0, 3])
def test_fixed_counts_are_kept(warmup: int, clock: Make) -> None:
    """``--warmup`` and ``--iterations`` mean exactly that many calls, plus the cold start."""
    fake = clock(lambda i: 0.01 if i != warmup + 4 else 5.0)
    timing = sampler.measure(nothing, fake, Plan(warmup, 7))
    assert (len(timing.warmup), fake.calls) == (warmup, 1 + warmup + 7)
    assert timing.steady == (0.01, 0.01, 0.01, 5.0, 0.01, 0.01, 0.01)
    assert (timing.warmup_end, timing.stop) == ("fixed", "iterations")


def turns_of(call: Callable[[], Any], clock: FakeClock, plan: Plan) -> tuple[Sampling, list[int]]:
    """Sampling in turns, between which others have theirs, and the number of samples after each."""
    sampling, counts = Sampling(call, clock, plan), []
    sampling.warm_up()
    has_more = True
    while has_more:
        clock.now += 100
        has_more = sampling.turn()
        counts.append(len(sampling.samples))
    return sampling, counts


@pytest.mark.parametrize(("seconds", "expected"), [(0.01, 3), (0.1, 0)])
def test_a_turn_of_short_calls_starts_with_an_untimed_call(seconds: float, expected: int, clock: Make) -> None:
    """Other workers have used the caches, and refilling them is not timed; for long calls it does not matter."""
    calls: list[int] = []
    sampling, _ = turns_of(lambda: calls.append(1), clock(lambda i: seconds), Plan(1, max_seconds=1.5))
    assert len(calls) - 2 - len(sampling.samples) == expected


def test_waiting_for_a_turn_is_not_counted(clock: Make) -> None:
    """Turns take half a second; only the worker's own count towards the time limit, and fixed counts stay exact."""
    assert turns_of(nothing, clock(lambda i: 0.06), Plan(1, max_seconds=1.5))[1] == [9, 18, 27]
    fake = clock(lambda i: 0.01 * (1 + (i // 40) % 2))
    timing = turns_of(nothing, fake, Plan(1, max_seconds=3))[0].timing()
    assert timing.stop == "time limit"
    assert sum(timing.steady) == pytest.approx(3, abs=0.6)
    timing = turns_of(nothing, fake, Plan(1, 77))[0].timing()
    assert (len(timing.steady), timing.stop) == (77, "iterations")


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_off_during_sampling_and_restored(enabled: bool, clock: Make) -> None:
    """The collector never runs while samples are taken, and is as before afterwards."""
    states: list[bool] = []
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        sampler.measure(lambda: states.append(gc.isenabled()), clock(lambda i: 0.01), Plan(2, 4))
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert states == [enabled] * 3 + [False] * 5
