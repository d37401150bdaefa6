"""Verdicts of runs under load, percentiles, and the answer of a search."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest
from load_results import BOUND, load, measured

from modelzoo.frozen import replace
from modelzoo.records.serving import Flaw, InstanceUse, InvalidReason, LoadRun, Scenario
from modelzoo.results import load as results
from modelzoo.results.load import lateness, reasons
from modelzoo.serve.search import Bracket


def run(*latencies: float, **changes: object) -> LoadRun:
    """A run with these latencies."""
    found = LoadRun(
        repeat=0,
        rate=10.0,
        seed=0,
        started="2026-11-22T20:00:00+00:00",
        requests=len(latencies),
        seconds=10.0,
        latencies=latencies,
        rejected=0,
        lateness=lateness([1e-5] * 10, 0.01),
        batches=(),
        padded=0,
        uses=(InstanceUse(5, 4.0),),
    )
    return replace(found, **changes)


def flaws(found: LoadRun) -> list[Flaw]:
    """Why it fails as a run of a search, in which requests count as independent."""
    return [reason.flaw for reason in reasons(found, BOUND, is_search=True)]


@pytest.mark.parametrize(
    ("count", "over", "expected"),
    [
        (1001, 0, []),
        (1001, 3, []),
        (1001, 4, [Flaw.BOUND]),
        (1001, 11, [Flaw.BOUND]),
        (459, 0, []),
        (459, 1, [Flaw.BOUND]),
        (458, 0, [Flaw.TOO_FEW]),
        (100, 2, [Flaw.BOUND]),
    ],
)
def test_a_bound_must_be_met_and_shown(count: int, over: int, expected: list[Flaw]) -> None:
    """p99: at most 1 % over it, and so few that 99 % confidence is left."""
    assert flaws(run(*[0.01] * (count - over), *[0.06] * over)) == expected


def test_requests_that_wait_together_show_less() -> None:
    """60 of 10,000 over p99 are few, but not if the latency changes in spells of 500 requests."""
    draw = random.Random(2)
    alone = [0.06 if number % 167 == 0 else 0.03 + 0.01 * draw.random() for number in range(10_000)]
    assert reasons(run(*alone), BOUND) == ()
    levels = [draw.random() for _ in range(20)]
    together = [0.03 + 0.01 * levels[number // 500] + 0.001 * draw.random() for number in range(10_000)]
    together[:60] = [0.06] * 60
    assert reasons(run(*together), BOUND, is_search=True) == ()
    (reason,) = reasons(run(*together), BOUND)
    assert (reason.flaw, reason.over, reason.dependence is None) == (Flaw.TOO_FEW, 60, False)
    assert reason.needed > 100_000


def test_too_few_requests_say_how_many_more_it_takes() -> None:
    """Unless the percentile is too close to the bound. Rejections count as over it; they may end a run early."""
    assert reasons(run(*[0.01] * 60), BOUND) == (InvalidReason(Flaw.TOO_FEW, needed=459),)
    (reason,) = reasons(run(*([0.01] * 990 + [0.06] * 10)), BOUND)
    assert (reason.over, reason.needed) == (10, None)
    ended = run(*[0.01] * 90, *[0.06] * 2, rejected=8, requests=1001, given_up=True)
    assert reasons(ended, BOUND)[1] == InvalidReason(Flaw.BOUND, over=10)


def test_rejections_lateness_and_deaths_make_a_run_invalid() -> None:
    """Whatever its latencies are. Only the first says that the load was too high."""
    good = run(*[0.01] * 1001)
    rejected = replace(good, rejected=2, requests=1003)
    late = replace(good, lateness=lateness([0.0] * 90 + [2e-3] * 10, 0.01))
    died = replace(good, uses=(InstanceUse(3, 1.0, "ended by SIGKILL"),))
    assert [flaws(each) for each in (rejected, late, died)] == [[Flaw.REJECTED], [Flaw.LATE], [Flaw.DIED]]
    judged = [replace(each, reasons=reasons(each, BOUND)) for each in (good, rejected, late, died)]
    assert [each.is_valid for each in judged] == [True, False, False, False]
    assert [each.is_overload for each in judged] == [False, True, False, False]


def test_slow_batches_allow_more_lateness() -> None:
    """A millisecond, or 5 % of a batch. One request in a hundred may be late, and a single one of fewer."""
    assert [lateness([0.0], batch).limit for batch in (0.01, 1.0)] == [1e-3, 0.05]
    assert lateness([], 0.01).p99 == 0.0
    for late, of in ((1, 20), (1, 100), (1, 199), (2, 200)):
        assert lateness([*[0.0] * (of - late), *[1.0] * late], 0.01).p99 == 0.0
        assert lateness([*[0.0] * (of - late - 1), *[1.0] * (late + 1)], 0.01).p99 == 1.0


def test_requests_may_be_too_slow_without_waiting() -> None:
    """An instance that is busy for 40 % of the time makes at most 40 % of the requests wait, but for chance."""
    for count, over, expected in ((50, 50, True), (50, 31, True), (50, 22, False), (3, 3, False)):
        found = run(*[0.01] * (count - over), *[0.2] * over)
        assert results.is_slow_alone(found, BOUND) is expected, (count, over)


def test_an_offline_answer_is_a_rate_and_a_stream_has_a_latency() -> None:
    """With an interval from three repeats on."""
    offline = measured(load(scenario=Scenario.OFFLINE, rate=None, bound=None, queries=50, repeats=3))
    rate = results.capacity(offline)
    assert rate.low < rate.value == pytest.approx(97.5, rel=0.03)
    stream = measured(load(scenario=Scenario.SINGLE_STREAM, rate=None, bound=None, repeats=2))
    latency = results.stream_latency(stream)
    assert latency.value == pytest.approx(0.0105, rel=0.05)
    assert results.is_valid(stream)
    assert results.answer(stream) is None


def test_a_search_that_failed_in_one_repeat_has_no_answer() -> None:
    """Its level would be that of the others only."""
    found = measured(load(is_search=True, rate=None, queries=662))
    assert results.is_valid(found)
    failed = replace(found.runs[0], repeat=1, reasons=reasons(run(*[0.1] * 500), BOUND))
    assert results.answer(found.plus(failed)) is None
    assert not results.is_valid(found.plus(failed))


def test_what_was_found_lies_in_the_middle_of_its_bracket() -> None:
    """Its lower end would be too low by half the resolution; the interval is never narrower than the bracket."""
    level = results.bracketed([(100.0, 104.0)] * 3)
    assert level.value == pytest.approx(math.sqrt(100.0 * 104.0))
    assert (level.low, level.high) == (pytest.approx(100.0), pytest.approx(104.0))
    wider = results.bracketed([(100.0, 104.0), (103.0, 107.0), (98.0, 102.0)])
    assert wider.low < 98.0
    assert wider.high > 107.0
    assert results.bracketed([(100.0, 104.0)]).high == math.inf


@pytest.mark.parametrize("spread", [0.002, 0.02])
def test_the_interval_of_a_search_covers_the_rate_at_which_runs_cease_to_pass(spread: float) -> None:
    """In 95 % of the searches, whether instances differ by less than the resolution or by more; without bias."""
    draw, logs, covered = random.Random(3), [], 0
    for _ in range(500):
        brackets = []
        for _ in range(3):
            truth, bracket = 100.0 * math.exp(draw.gauss(0, spread)), Bracket(100.0 * math.exp(draw.gauss(0, 0.03)))
            while (rate := bracket.next()) is not None:
                bracket = bracket.tried(rate, passed=rate <= truth)
            brackets.append((bracket.low, bracket.high))
        level = results.bracketed(brackets)
        logs.append(math.log(level.value / 100.0))
        covered += level.low <= 100.0 <= level.high
    assert abs(fmean(logs)) < 0.004
    assert covered >= 0.94 * 500
