"""One run: how long it is, and what is recorded of it."""

from __future__ import annotations

import pytest
from load_results import plan
from virtual_server import VirtualServer

from modelzoo.errors import WorkerError
from modelzoo.records.serving import BatchCount, Calibration, Flaw, Scenario
from modelzoo.serve.runs import CALIBRATION_BATCHES, OVER, SERVER_SECONDS, SHOWING_SECONDS, arrivals, calibrate, measure
from modelzoo.serve.servers import Reply
from modelzoo.stats.latency_bound import queries_for

KNOWN = Calibration(1, (0.01,), 100.0)


def test_the_calibration_keeps_all_instances_busy() -> None:
    """Its rate is that of all together, its times are those of single batches."""
    found = calibrate(VirtualServer(3, lambda size: 0.1 * size), 4, seconds=1.0)
    assert found.size == 4
    assert found.seconds == pytest.approx([0.4] * len(found.seconds))
    assert len(found.seconds) >= 3 * CALIBRATION_BATCHES
    assert found.rate == pytest.approx(3 * 4 / 0.4)


class Dying(VirtualServer):
    """Its second instance dies."""

    def wait(self, until: float) -> list[Reply]:
        return [each._replace(error="ended by SIGKILL") if each.instance else each for each in super().wait(until)]


def test_an_instance_that_dies_in_the_calibration_is_named() -> None:
    """Nobody would ever hear of the requests that it was given later."""
    with pytest.raises(WorkerError, match="instance 1 died before the first run: ended by SIGKILL"):
        calibrate(Dying(2, lambda size: 0.1), 1)


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
