"""How long a run is, what is recorded of it, and that a search finds the rate, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from load_results import VirtualServer, load, measured, plan, sessions

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.machine import Throttling
from modelzoo.records.serving import BatchCount, Calibration, Flaw, InvalidReason, Load, LoadRun, LoadSession, Scenario
from modelzoo.results.load import RESOLUTION, answer, searches
from modelzoo.serve import search
from modelzoo.serve.generator import Reply, Server
from modelzoo.serve.search import (
    CALIBRATION_BATCHES,
    LOWEST,
    MOST_LATE,
    OVER,
    SERVER_SECONDS,
    SHOWING_SECONDS,
    Bracket,
    arrivals,
    calibrate,
    measure,
)
from modelzoo.stats.latency_bound import queries_for
from modelzoo.views.load import headline


def searched(truth: float) -> tuple[Bracket, list[float]]:
    """What is known at the end of a search that begins at 10, and the rates that were tried."""
    bracket, tried = Bracket(10.0), list[float]()
    while (rate := bracket.next()) is not None:
        tried.append(rate)
        bracket = bracket.tried(rate, passed=rate <= truth)
    return bracket, tried


@pytest.mark.parametrize("truth", [1.0, 7.0, 9.1, 9.7, 9.9, 10.0, 10.2, 10.4, 10.9, 25.0, 300.0])
def test_the_highest_rate_is_found(truth: float) -> None:
    """To within the resolution, from below; a first guess within 10 % of the truth takes at most five runs."""
    found, tried = searched(truth)
    assert found.low is not None
    assert found.low <= truth <= found.low * (1 + RESOLUTION)
    assert len(set(tried)) == len(tried) <= (5 if 9 < truth < 11 else 14)


def test_a_bound_that_no_rate_meets_ends_the_search() -> None:
    """Far below the first guess; the runs end after a few requests each, and there is no answer."""
    bracket, tried = searched(0.0)
    assert bracket.low is None
    assert min(tried) >= LOWEST * 10.0
    found = measured(load(is_search=True, rate=None), seconds=0.2)
    assert answer(found) is None
    assert all(len(run.latencies) < 20 for run in found.runs)
    assert len(found.runs) <= 5, "requests that do not wait are too slow already"
    assert [one.rate for one in searches(found)] == [None]


def test_a_search_finds_the_highest_rate_in_every_repeat() -> None:
    """Slower instances sustain less; the answer is the least, and the interval covers all of them."""
    found = measured(load(is_search=True, rate=None, repeats=2, queries=1001), slower=0.1)
    assert len(found.sessions) == 2
    each = searches(found)
    assert all(one.rate is not None and one.limit is not None for one in each)
    assert all(one.limit <= one.rate * (1 + RESOLUTION) for one in each if one.rate and one.limit)
    best = answer(found)
    assert best is not None
    assert best.sustained == min(one.rate for one in each if one.rate is not None)
    assert best.sustained < best.level.value
    assert best.level.low < best.level.value < best.level.high
    assert [one.rate for one in each] == sorted((one.rate for one in each if one.rate), reverse=True)
    assert 40.0 < best.sustained < 100.0


def test_without_a_search_every_repeat_is_one_run() -> None:
    """All with schedules of their own; and so is a search with too few requests, for which no other rate would help."""
    found = measured(load(repeats=3, queries=300))
    assert [run.repeat for run in found.runs] == [0, 1, 2]
    assert len({run.latencies for run in found.runs}) == 3
    found = measured(load(is_search=True, rate=None, queries=100))
    assert [[reason.flaw for reason in run.reasons] for run in found.runs] == [[Flaw.TOO_FEW]]


def test_a_search_that_did_not_come_to_its_end_has_no_answer() -> None:
    """It met the bound at some rate, but nothing shows that no higher one would do."""
    found = measured(load(is_search=True, rate=None, repeats=2, queries=662))
    first = [run for run in found.runs if run.repeat == 0]
    valid = next(run for run in found.runs if run.repeat == 1 and run.is_valid)
    late = replace(valid, reasons=(InvalidReason(Flaw.LATE),))
    ended = replace(found, runs=(*first, valid, *[late] * MOST_LATE))
    assert answer(ended) is None
    assert [(one.rate is None, one.valid is None) for one in searches(ended)] == [(False, False), (True, False)]
    said = headline(ended)
    assert said.startswith("the search did not come to its end in 1 of 2 repeats, so there is no answer; ")
    assert said.endswith("; the generator was late, so something else kept the machine busy")
    interrupted = answer(replace(ended, is_complete=False))
    assert interrupted is not None
    assert interrupted.found == tuple(searches(ended)[:1])


def runs_on(server: Server, requested: Load) -> Iterator[LoadRun]:
    """The runs on another server than the one that was calibrated."""

    @contextmanager
    def opened(repeat: int) -> Iterator[tuple[Server, LoadSession]]:
        with sessions(requested)(repeat) as (_, session):
            yield server, session

    return search.runs(requested, opened, lambda session: None)


def test_every_run_says_how_a_quota_stopped_it() -> None:
    """From the counters of the control group before and after it; nothing without a quota."""
    requested = load(repeats=2, queries=300)
    counters = iter([(1, 0.5), (4, 0.75), (4, 0.75), (4, 0.75)])
    found = search.runs(requested, sessions(requested), lambda session: None, lambda: Throttling(*next(counters)))
    assert [run.throttling for run in found] == [Throttling(3, 0.25), Throttling(0, 0.0)]
    assert {run.throttling for run in measured(requested).runs} == {None}


class Late(VirtualServer):
    """Its waits end late, as on a machine that is busy with something else."""

    def wait(self, until: float) -> list[Reply]:
        return list(super().wait(until + 0.02))


def test_a_late_generator_ends_a_search() -> None:
    """After a few runs; none of them counts."""
    found = list(runs_on(Late(1, lambda size: 0.001), load(is_search=True, rate=None)))
    late_only = [run for run in found if [reason.flaw for reason in run.reasons] == [Flaw.LATE]]
    assert late_only == found[-MOST_LATE:]
    assert not any(run.is_valid for run in found)


def test_the_death_of_an_instance_is_stored_and_reported() -> None:
    """The run comes first, then the error."""
    runs = runs_on(VirtualServer(1, lambda size: 0.001, dies=lambda *_: True), load(queries=300))
    assert [reason.flaw for reason in next(runs).reasons] == [Flaw.DIED]
    with pytest.raises(WorkerError, match="instance 0 died: ended by SIGKILL"):
        next(runs)


KNOWN = Calibration(1, (0.01,), 100.0)


def test_the_calibration_keeps_all_instances_busy() -> None:
    """Its rate is that of all together, its times are those of single batches."""
    found = calibrate(VirtualServer(3, lambda size: 0.1 * size), 4, seconds=1.0)
    assert found.size == 4
    assert found.seconds == pytest.approx([0.4] * len(found.seconds))
    assert len(found.seconds) >= 3 * CALIBRATION_BATCHES
    assert found.rate == pytest.approx(3 * 4 / 0.4)


def test_an_instance_that_dies_in_the_calibration_is_named() -> None:
    """Nobody would ever hear of the requests that it was given later."""
    with pytest.raises(WorkerError, match="instance 1 died before the first run: ended by SIGKILL"):
        calibrate(VirtualServer(2, lambda size: 0.1, dies=lambda instance, batch: instance == 1), 1)


def test_a_run_is_long_enough_for_its_bound() -> None:
    """A few requests may exceed it without deciding it; it lasts two minutes, in a search and without a bound less."""
    slow, fast = arrivals(plan(), 2.0, 0, 100.0), arrivals(plan(), 500.0, 0, 100.0)
    assert len(slow) == queries_for(OVER, 0.99)
    assert SHOWING_SECONDS <= fast[-1] < SHOWING_SECONDS + 1
    for other in (plan(is_search=True), plan(bound=None)):
        assert SERVER_SECONDS <= arrivals(other, 500.0, 0, 100.0)[-1] < SERVER_SECONDS + 1
    assert arrivals(plan(), 2.0, 1, 100.0) != slow
    # Given minima replace the usual ones: either, or both.
    assert len(arrivals(plan(queries=7), 50.0, 0, 100.0)) == 7
    assert 1.0 <= arrivals(plan(duration=1.0), 50.0, 0, 100.0)[-1] < 1.5
    assert len(arrivals(plan(queries=300, duration=1.0), 50.0, 0, 100.0)) == 300


def test_offline_has_work_for_the_duration() -> None:
    """By what the calibration showed, but enough batches for each instance."""
    offline = plan(scenario=Scenario.OFFLINE, rate=None, bound=None, batch=4, instances=2)
    assert arrivals(offline, None, 0, 100.0) == [0.0] * 1000
    assert len(arrivals(offline, None, 0, 0.1)) == CALIBRATION_BATCHES * 8
    assert len(arrivals(plan(scenario=Scenario.OFFLINE, queries=5), None, 0, 100.0)) == 5


def test_a_run_is_recorded() -> None:
    """Latencies, batches, what the instances did, and the verdict."""
    found = measure(VirtualServer(1, lambda size: 0.01), plan(queries=1001), 10.0, 2, 5, KNOWN)
    assert (found.repeat, found.seed, found.rate, found.requests) == (2, 5, 10.0, 1001)
    assert min(found.latencies) == pytest.approx(0.01)
    assert found.uses[0].batches == 1001
    assert found.uses[0].busy_seconds == pytest.approx(10.01)
    assert found.batches == (BatchCount(1, 1001),)
    assert found.is_valid
    assert found.lateness.largest == 0.0


def test_a_run_of_a_search_ends_when_it_cannot_pass() -> None:
    """Another one goes on, and shows by how much it fails."""
    for is_search in (True, False):
        found = measure(VirtualServer(1, lambda size: 0.1), plan(queries=500, is_search=is_search), 50.0, 0, 0, KNOWN)
        assert found.given_up is is_search
        assert (len(found.latencies) == 500) is not is_search
        assert [reason.flaw for reason in found.reasons] == [Flaw.BOUND]


def test_single_stream_has_a_minimum_of_both() -> None:
    """Requests and seconds; there are no schedule and no rate."""
    stream = plan(scenario=Scenario.SINGLE_STREAM, rate=None, bound=None)
    found = measure(VirtualServer(1, lambda size: 0.5), stream, None, 0, 0, KNOWN)
    assert found.requests == queries_for(OVER, 0.9)
    assert found.is_valid
    assert set(found.latencies) == {0.5}


def test_padding_is_counted() -> None:
    """With a fixed size of 4, a lone request is computed as 4."""
    server = VirtualServer(1, lambda size: 0.01 * size, fixed_size=4)
    found = measure(server, plan(queries=100, batch=4), 1.0, 0, 0, KNOWN)
    assert found.padded == sum((4 - each.size) * each.count for each in found.batches) > 200
