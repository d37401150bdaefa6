"""The generator: one single-threaded loop in which requests arrive, wait, are dispatched and answered.

Arrivals come from a schedule that is complete before the first of them, and never depend on replies. The latency of a
request counts from its *scheduled* arrival to the moment at which the loop has its reply, so a loop that is late makes
latencies longer, never shorter. This is the definition of MLPerf: "Latency is defined as the time from when the LoadGen
was scheduled to pass a query to the SUT, to the time it receives a reply" (``inference_rules.adoc``, "LoadGen
Operation", https://github.com/mlcommons/inference_policies).

In front of idle instances is a bounded queue, with dynamic batching. A batch is dispatched to an idle instance as soon
as enough requests wait for a full one, or the oldest has waited for the longest permitted time. Requests are taken in
the order of their arrival, and the instance that has been idle for the longest time gets them. This is the dynamic
batcher of inference servers, with a maximum size and a maximum delay of the queue (Triton Inference Server, "Dynamic
Batcher", https://docs.nvidia.com/deeplearning/triton-inference-server, user_guide/model_configuration).
"""

from __future__ import annotations

import math
import select
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from modelzoo.errors import ModelzooError
from modelzoo.measure.process import Remote, seconds_until
from modelzoo.measure.sampler import without_collection
from modelzoo.records.serving import BatchDone, LatencyBound
from modelzoo.stats.latency_bound import most_over

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Reply(NamedTuple):
    """One instance has finished its batch.

    Attributes:
        instance: its number, from 0.
        started: when it began, in seconds of the server's clock.
        ended: when it had finished.
        error: why it has died instead; it takes no more batches.
    """

    instance: int
    started: float
    ended: float
    error: str | None = None


class Server(Protocol):
    """Instances of one model. What drives them is the same for processes, for tests and for benchmarks.

    Attributes:
        instances: their number.
        fixed_size: the only batch size that they can run, to which smaller batches are padded; ``None``: they run any.
    """

    instances: int
    fixed_size: int | None

    def now(self) -> float:
        """Seconds of the clock that all times are given in."""

    def start(self, instance: int, size: int) -> None:
        """Give an idle instance a batch of ``size`` requests, without waiting for it."""

    def wait(self, until: float) -> Sequence[Reply]:
        """Wait until ``until``, or until there are replies; return the replies, which may be none."""


class ProcessServer:
    """Running instances that are ready. It neither starts nor ends them.

    Args:
        instances: by their numbers.
        fixed_size: as in ``Server``.
        watch: what it waits with, opened before the instances were started: the time-out of ``epoll`` is in whole
            milliseconds, so it sleeps in ``select``, whose descriptors have to be below 1,024.
        polls: never sleep. That is for a loop that has a core of its own: a virtual CPU that has gone to sleep wakes up
            milliseconds late, and so would the loop and any other thread on it.
    """

    def __init__(
        self, instances: Sequence[Remote], fixed_size: int | None, watch: select.epoll, *, polls: bool
    ) -> None:
        self.instances, self.fixed_size = len(instances), fixed_size
        self._remotes, self._polls = tuple(instances), polls
        self._by_descriptor = {each.fileno(): number for number, each in enumerate(instances)}
        self._watch = watch
        for descriptor in self._by_descriptor:
            watch.register(descriptor, select.EPOLLIN)

    def now(self) -> float:
        return time.monotonic()

    def start(self, instance: int, size: int) -> None:
        self._remotes[instance].send("batch", size, phase="serve")

    def wait(self, until: float) -> Sequence[Reply]:
        due = self._due(until)
        while True:
            if not self._polls:
                select.select((self._watch,), (), (), seconds_until(due))
            ready = self._watch.poll(0)
            if ready:
                return [reply for each, _ in ready for reply in self._read(each)]
            now = time.monotonic()
            if now >= until:
                return ()
            if now >= due:
                for remote in self._remotes:
                    remote.attend()
                due = self._due(until)

    def _due(self, until: float) -> float:
        """When the wait ends at the latest; one without an end does so when an instance has not answered for long."""
        return min((each.due for each in self._remotes), default=until) if math.isinf(until) else until

    def _read(self, descriptor: int) -> list[Reply]:
        number = self._by_descriptor[descriptor]
        try:
            replies = self._remotes[number].answers(BatchDone)
        except ModelzooError as error:
            self._watch.unregister(descriptor)
            return [Reply(number, 0.0, 0.0, str(error))]
        return [Reply(number, each.started, each.ended) for each in replies]


def poisson(rate: float, queries: int, seconds: float, seed: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the arrivals of a Poisson process as seconds from the start of the run, ascending.

    The gaps are exponential with mean 1 / ``rate``. There are at least ``queries`` arrivals, and the last one is not
    before ``seconds``: a run ends when both minima are met, as in LoadGen (``TestSettings`` in ``test_settings.h``,
    "Test duration", https://github.com/mlcommons/inference/tree/master/loadgen). Nothing that happens during the run
    changes the schedule, so a slow server cannot slow down its own load.

    Args:
        rate: mean number of arrivals per second.
        queries: minimum number of arrivals, at least 1.
        seconds: minimum time of the last arrival.
        seed: one or more integers; equal ones give equal schedules.
    """
    import numpy as np

    draw = np.random.default_rng(seed)
    chunk = max(queries, round(rate * seconds))
    arrivals = np.cumsum(draw.exponential(1 / rate, chunk))
    while arrivals[-1] < seconds:
        more = arrivals[-1] + np.cumsum(draw.exponential(1 / rate, max(16, chunk // 16)))
        arrivals = np.concatenate([arrivals, more])
    # Both minima are met by the first arrival at or after ``seconds``.
    enough = max(queries, int(np.searchsorted(arrivals, seconds)) + 1)
    return arrivals[:enough]


class Batching(msgspec.Struct, frozen=True):
    """How requests wait.

    Attributes:
        size: most requests of a batch.
        wait: seconds that a request may wait for others while an instance is idle, counted from its scheduled arrival.
        capacity: most requests in the queue; a further one is rejected.
    """

    size: int
    wait: float
    capacity: int


Batch = tuple[tuple[int, ...], float]
"""The numbers of the requests that were given to an instance, and when, in seconds of the server's clock."""


@dataclass
class Dispatcher:
    """The queue, and the instances that are idle or busy.

    Attributes:
        server: what answers.
        batching: how requests wait.
        sizes: number of batches by their number of requests.
        padded: items that were computed only to fill batches up to the server's fixed size.
        busy_seconds: per instance, from the beginning to the end of its batches by its own account.
        batches: per instance, how many it has answered.
        errors: why instances have died, by their numbers.
    """

    server: Server
    batching: Batching
    sizes: Counter[int] = field(default_factory=Counter)
    padded: int = 0
    busy_seconds: list[float] = field(init=False)
    batches: list[int] = field(init=False)
    errors: dict[int, str] = field(default_factory=dict)
    _queue: deque[tuple[int, float]] = field(default_factory=deque)
    _idle: deque[int] = field(init=False)
    _running: dict[int, Batch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = self.server.instances
        self.busy_seconds, self.batches = [0.0] * count, [0] * count
        self._idle = deque(range(count))

    @property
    def is_busy(self) -> bool:
        """Whether requests wait or run, and there is an instance that will answer them."""
        return bool(self._running) or bool(self._queue and self._idle)

    def offer(self, request: int, arrival: float) -> bool:
        """Put a request into the queue; ``False``: the queue is full, so it is rejected."""
        if len(self._queue) >= self.batching.capacity:
            return False
        self._queue.append((request, arrival))
        return True

    def drop(self) -> None:
        """Forget the requests that wait."""
        self._queue.clear()

    def deadline(self) -> float:
        """When a batch is to be dispatched although it is not full; infinite if none waits for that alone."""
        return self._queue[0][1] + self.batching.wait if self._queue and self._idle else math.inf

    def dispatch(self, now: float) -> None:
        """Give idle instances what is ready."""
        queue, size, fixed = self._queue, self.batching.size, self.server.fixed_size
        while self._idle and queue and (len(queue) >= size or now >= queue[0][1] + self.batching.wait):
            requests = tuple(queue.popleft()[0] for _ in range(min(size, len(queue))))
            instance = self._idle.popleft()
            self._running[instance] = (requests, now)
            self.sizes[len(requests)] += 1
            self.padded += 0 if fixed is None else fixed - len(requests)
            self.server.start(instance, len(requests) if fixed is None else fixed)

    def finished(self, replies: Sequence[Reply]) -> list[Batch]:
        """Make the instances idle again, and return the batches that were answered."""
        found = []
        for reply in replies:
            batch = self._running.pop(reply.instance, None)
            if reply.error is not None:
                self.errors[reply.instance] = reply.error
                if reply.instance in self._idle:
                    self._idle.remove(reply.instance)
                continue
            self._idle.append(reply.instance)
            self.busy_seconds[reply.instance] += reply.ended - reply.started
            self.batches[reply.instance] += 1
            if batch is not None:
                found.append(batch)
        return found


LEAD = 0.02
"""Seconds from the call to the start of the schedule, so that the first arrival is not late."""


@dataclass
class Served:
    """What happened to each request. Times are in seconds of the server's clock, and NaN for what did not happen.

    Attributes:
        due: scheduled arrivals.
        admitted: when the loop took them.
        dispatched: when they were given to an instance.
        replied: when the loop had the reply.
        rejected: how many found the queue full.
        dispatcher: the queue after the run, with its counters.
        begun: when the schedule began.
        ended: the last reply.
        given_up: whether the run ended early, because it could not meet its bound any more.
    """

    due: list[float]
    admitted: list[float]
    dispatched: list[float]
    replied: list[float]
    rejected: int
    dispatcher: Dispatcher
    begun: float
    ended: float
    given_up: bool

    def latencies(self) -> list[float]:
        """Seconds from scheduled arrival to reply of the requests that were answered, in the order of arrival."""
        return [reply - due for due, reply in zip(self.due, self.replied) if reply == reply]

    def lateness(self) -> list[float]:
        """Seconds from scheduled arrival until the loop took the request, of all that it took."""
        return [taken - due for due, taken in zip(self.due, self.admitted) if taken == taken]


def serve(server: Server, arrivals: Sequence[float], batching: Batching, bound: LatencyBound | None = None) -> Served:
    """Let requests arrive at ``arrivals`` (seconds from the start, ascending), and wait for all replies.

    Args:
        server: its instances are idle.
        arrivals: one per request.
        batching: how they wait.
        bound: end early once it cannot be met any more, whatever else happens.
    """
    allowed = None if bound is None else most_over(len(arrivals), bound.percentile / 100)
    begun = server.now() + LEAD
    due = [begun + float(each) for each in arrivals]
    count, following, over = len(due), 0, 0
    admitted, dispatched, replied = ([math.nan] * count for _ in range(3))
    dispatcher = Dispatcher(server, batching)
    found = Served(due, admitted, dispatched, replied, 0, dispatcher, begun, begun, False)
    with without_collection():  # its pauses would make the loop late
        while following < count or dispatcher.is_busy:
            now = server.now()
            while following < count and due[following] <= now:
                admitted[following] = now
                if not dispatcher.offer(following, due[following]):
                    dispatcher.dispatch(now)  # of several that are due at once, idle instances make room for the next
                    if not dispatcher.offer(following, due[following]):
                        found.rejected += 1
                        over += 1
                following += 1
            dispatcher.dispatch(now)
            replies = server.wait(min(due[following] if following < count else math.inf, dispatcher.deadline()))
            if not replies:
                continue
            now = server.now()
            for requests, given in dispatcher.finished(replies):
                found.ended = now
                for request in requests:
                    dispatched[request], replied[request] = given, now
                    over += bound is not None and now - due[request] > bound.seconds
            # The bound cannot be met any more, or an instance has died.
            found.given_up = found.given_up or (allowed is not None and over > allowed)
            if found.given_up or dispatcher.errors:
                dispatcher.drop()
                following = count
    return found


def stream(server: Server, queries: int, seconds: float) -> Served:
    """Send the next request as soon as the reply to the last one is there.

    A run ends when there were ``queries`` requests and ``seconds`` have passed. This is MLPerf's SingleStream
    (``TestScenario`` in ``test_settings.h``: "The next query is only issued once the previous one has completed"; "a
    percentile of the latency" is its result).
    """
    with without_collection():  # its pauses would make the loop late
        dispatcher = Dispatcher(server, Batching(1, 0.0, 1))
        found = Served([], [], [], [], 0, dispatcher, server.now(), server.now(), False)
        while (len(found.due) < queries or found.ended - found.begun < seconds) and not dispatcher.errors:
            now = server.now()
            found.due.append(now)
            found.admitted.append(now)
            found.dispatched.append(now)
            found.replied.append(math.nan)
            dispatcher.offer(len(found.due) - 1, now)
            dispatcher.dispatch(now)
            while dispatcher.is_busy and not dispatcher.errors:
                if dispatcher.finished(server.wait(math.inf)):
                    found.ended = found.replied[-1] = server.now()
        return found
