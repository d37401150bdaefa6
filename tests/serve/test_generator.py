"""The generator in virtual time: arrivals, waits, batches, rejections and early ends are exactly those of theory.

Instances in processes are replaced by pipes that a test writes to.
"""

from __future__ import annotations

import fcntl
import math
import os
import random
import re
import resource
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pytest
from load_results import VirtualServer

from modelzoo.cli import serving
from modelzoo.errors import UsageError, WorkerError
from modelzoo.records.serving import BatchDone, LatencyBound
from modelzoo.serve import generator
from modelzoo.serve.generator import Batching, Dispatcher, ProcessServer, Reply, Served, poisson, serve, stream

ONE = Batching(1, 0.0, 10**9)


@pytest.fixture(autouse=True)
def _no_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let schedules start at 0."""
    monkeypatch.setattr(generator, "LEAD", 0.0)


def test_gaps_are_exponential() -> None:
    """Their mean and standard deviation are 1 / rate, and numbers of arrivals per second vary as their mean does.

    Equal seeds give equal schedules, and others do not.
    """
    first, same, other = (poisson(50.0, 100, 1.0, (0, seed)).tolist() for seed in (3, 3, 4))
    assert first == same != other
    arrivals = poisson(100.0, 20_000, 0.0, (1,))
    gaps = np.diff(arrivals, prepend=0.0)
    assert len(arrivals) == 20_000
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(0.01, rel=0.03)
    assert gaps.std() == pytest.approx(0.01, rel=0.03)
    counts = np.bincount(arrivals.astype(int))[:-1]
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize(("queries", "seconds"), [(200, 1.0), (20, 4.0), (1, 0.0)])
def test_both_minima_are_met_and_not_exceeded(queries: int, seconds: float) -> None:
    """Queries and seconds, whichever takes longer; without the last arrival one of them would not be met."""
    for seed in range(20):
        arrivals = poisson(30.0, queries, seconds, (seed,))
        assert len(arrivals) >= queries
        assert arrivals[-1] >= seconds
        assert len(arrivals) == queries or arrivals[-2] < seconds


def served(
    server: VirtualServer, arrivals: Sequence[float], batching: Batching = ONE, bound: LatencyBound | None = None
) -> Served:
    """What happens to requests that arrive at these seconds."""
    return serve(server, list(arrivals), batching, bound)


def lindley(arrivals: Sequence[float], services: Sequence[float]) -> list[float]:
    """Waits in a FIFO queue with one server: W(n + 1) = max(0, W(n) + S(n) - A(n + 1)) (Lindley 1952)."""
    waits = [0.0]
    for number in range(1, len(arrivals)):
        gap = arrivals[number] - arrivals[number - 1]
        waits.append(max(0.0, waits[-1] + services[number - 1] - gap))
    return waits


@pytest.mark.parametrize("load", [0.5, 0.9, 1.2])
def test_waits_follow_lindleys_recursion(load: float) -> None:
    """Request by request, with service times that vary, below and above the capacity."""
    draw = random.Random(3)
    services = [draw.expovariate(1.0) for _ in range(2000)]
    arrivals = poisson(load, len(services), 0.0, (7,)).tolist()
    order = iter(services)
    found = served(VirtualServer(1, lambda _: next(order)), arrivals)
    waits = [start - due for start, due in zip(found.dispatched, found.due)]
    assert found.due == arrivals
    assert waits == pytest.approx(lindley(arrivals, services), abs=1e-6)
    assert found.latencies() == pytest.approx([a + b for a, b in zip(waits, services)])


@pytest.mark.parametrize(
    ("arrivals", "wait", "dispatched", "sizes"),
    [
        pytest.param([0.0] * 4, 0.5, [0.0] * 4, {4: 1}, id="a full batch goes at once"),
        pytest.param([0.0, 0.3], 0.5, [0.5, 0.5], {2: 1}, id="a partial one when its oldest request has waited"),
        pytest.param([0.0] + [0.1] * 6, 0.0, [0.0] + [1.0] * 4 + [2.0] * 2, {1: 1, 4: 1, 2: 1}, id="all were busy"),
    ],
)
def test_batches_are_made_by_size_and_by_wait(
    arrivals: list[float], wait: float, dispatched: list[float], sizes: dict[int, int]
) -> None:
    """By an instance that takes a second for any batch; nothing is due while it is busy."""
    found = served(VirtualServer(1, lambda _: 1.0), arrivals, Batching(4, wait, 100))
    assert (found.dispatched, found.dispatcher.sizes) == (dispatched, sizes)


def test_an_overload_is_rejected_and_counted() -> None:
    """Twice the capacity: half of the requests are rejected, and the others wait in a full queue.

    A small queue does not reject what an idle instance could take: here two of two that are due at once.
    """
    found = served(VirtualServer(1, lambda _: 2.0), range(1000), Batching(1, 0.0, 10))
    assert found.rejected == pytest.approx(490, abs=10)
    assert len(found.latencies()) + found.rejected == 1000
    assert max(found.latencies()) <= 22.0
    found = served(VirtualServer(2, lambda _: 2.0), [0.0, 0.0, 0.0, 0.0], Batching(1, 0.0, 1))
    assert (found.rejected, len(found.latencies())) == (1, 3)


def test_a_run_that_cannot_meet_its_bound_ends_early() -> None:
    """After one request more than the 3 of 1,000 that may be over it; what waits is dropped."""
    found = served(VirtualServer(1, lambda _: 2.0), range(1000), ONE, LatencyBound(98.9, 5.0))
    assert found.given_up
    assert sum(latency > 5.0 for latency in found.latencies()) == 4
    assert found.ended < 20.0


def test_offline_runs_everything_in_full_batches() -> None:
    """All requests are there at the start; three instances share them."""
    found = served(VirtualServer(3, lambda size: float(size)), [0.0] * 26, Batching(4, 0.0, 26))
    assert found.dispatcher.sizes == {4: 6, 2: 1}
    assert found.ended == 10.0
    assert not found.rejected


def test_single_stream_has_one_request_at_a_time() -> None:
    """Each is due when the reply to the last one came; both minima are met."""
    found = stream(VirtualServer(2, lambda _: 0.5), 3, 4.0)
    assert found.latencies() == [0.5] * 8
    assert found.due == [0.5 * number for number in range(8)]
    assert found.dispatcher.batches == [4, 4]


def test_the_death_of_an_instance_ends_the_run() -> None:
    """What was answered before is kept; its own requests are not answered."""
    first, second = (VirtualServer(1, lambda _: 1.0, dies=lambda instance, batch: batch == 2) for _ in range(2))
    found = served(first, range(100))
    assert found.dispatcher.errors == {0: "ended by SIGKILL"}
    assert len(found.latencies()) == 2
    assert math.isnan(found.replied[2])
    assert len(stream(second, 10, 0.0).latencies()) == 2


def test_a_dead_instance_gets_nothing_more() -> None:
    """Whether it died idle or with a batch; without any the queue waits for nothing."""
    found = Dispatcher(VirtualServer(2, lambda _: 1.0), ONE)
    found.offer(0, 0.0)
    found.dispatch(0.0)
    assert found.finished([Reply(0, 0.0, 0.0, "killed"), Reply(1, 0.0, 0.0, "killed as well")]) == []
    assert found.errors == {0: "killed", 1: "killed as well"}
    found.offer(1, 0.0)
    found.dispatch(0.0)
    assert found.sizes == {1: 1}
    assert not found.is_busy


Serve = Callable[..., ProcessServer]


class Pipe:
    """What ``ProcessServer`` needs of an instance.

    Args:
        lowest: its descriptor is not below this.
    """

    def __init__(self, lowest: int = 0) -> None:
        reader, self._writer = os.pipe()
        self._reader = fcntl.fcntl(reader, fcntl.F_DUPFD_CLOEXEC, lowest)
        os.close(reader)
        self.sent: list[tuple[object, ...]] = []
        self.is_dead = False
        self.due = math.inf

    def fileno(self) -> int:
        return self._reader

    def send(self, *call: object, phase: str) -> None:
        self.sent.append(call)

    def answer(self) -> None:
        os.write(self._writer, b".")

    def attend(self) -> None:
        if time.monotonic() >= self.due:
            self.is_dead, self.due = True, math.inf
            self.answer()

    def answers(self, kind: type[BatchDone]) -> Sequence[BatchDone]:
        os.read(self._reader, 100)
        if self.is_dead:
            raise WorkerError("the worker process was ended by SIGKILL")
        return (BatchDone(1.0, 3.0),)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@pytest.fixture(params=[False, True], ids=["waits", "polls"])
def piped(request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Instances serve: they are waited for, or polled."""
    with select.epoll() as watch, ExitStack() as stack:

        def start(*pipes: Pipe) -> ProcessServer:
            for each in pipes:
                stack.callback(each.close)
            return ProcessServer(pipes, 4, watch, polls=request.param)  # type: ignore[arg-type]

        yield start


def test_batches_are_sent_and_replies_are_read(piped: Serve) -> None:
    """From whichever instance has answered."""
    pipes = Pipe(), Pipe()
    found = piped(*pipes)
    assert (found.instances, found.fixed_size) == (2, 4)
    found.start(1, 3)
    assert pipes[1].sent == [("batch", 3)]
    pipes[1].answer()
    assert [tuple(reply) for reply in found.wait(math.inf)] == [(1, 1.0, 3.0, None)]


def test_a_wait_ends_at_its_deadline_and_not_before(piped: Serve) -> None:
    """Without replies."""
    found = piped(Pipe())
    until = found.now() + 0.01
    assert found.wait(until) == ()
    assert time.monotonic() >= until


def test_a_dead_instance_is_reported_once(piped: Serve) -> None:
    """Its end of the pipe stays readable, but nobody looks any more."""
    dead = Pipe()
    found = piped(dead, Pipe())
    dead.is_dead = True
    dead.answer()
    (reply,) = found.wait(math.inf)
    assert (reply.instance, reply.error) == (0, "the worker process was ended by SIGKILL")
    dead.answer()
    assert found.wait(found.now() + 0.01) == ()


def test_an_instance_that_does_not_answer_ends_a_wait_for_ever(piped: Serve) -> None:
    """It is looked after when that is due, which ends it, and reported as one that died."""
    silent = Pipe()
    silent.due = time.monotonic() + 0.02
    (reply,) = piped(Pipe(), silent).wait(math.inf)
    assert (reply.instance, reply.error is not None) == (1, True)


def test_there_may_be_more_instances_than_select_can_watch(piped: Serve) -> None:
    """With three open files each, the descriptors of 342 instances are beyond 1,023."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    serving.allow_open_files(700)
    try:
        far = Pipe(lowest=2000)
        found = piped(far)
        far.answer()
        assert [reply.instance for reply in found.wait(math.inf)] == [0]
        assert found.wait(found.now() + 0.001) == ()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_open_files_than_are_allowed_are_refused_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The soft limit is raised if it is too low; the hard one is the user's to raise."""
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 1024))
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: raised.append(limits))
    serving.allow_open_files(52)
    serving.allow_open_files(100)
    assert raised == [(400, 1024)]
    message = "400 instances take 1300 open files, and this process may have 1024: raise the hard limit (ulimit -Hn), "
    with pytest.raises(UsageError, match=re.escape(message) + "or give fewer --instances"):
        serving.allow_open_files(400)
