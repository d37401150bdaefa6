"""A bounded queue in front of idle instances, with dynamic batching.

A batch is dispatched to an idle instance as soon as enough requests wait for a full one, or the oldest has waited for
the longest permitted time. Requests are taken in the order of their arrival, and the instance that has been idle for
the longest time gets them. This is the dynamic batcher of inference servers, with a maximum size and a maximum delay of
the queue (Triton Inference Server, "Dynamic Batcher", https://docs.nvidia.com/deeplearning/triton-inference-server,
user_guide/model_configuration).
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from modelzoo.load.server import Reply, Server


@dataclass(frozen=True)
class Batching:
    """How requests wait.

    Attributes:
        size: most requests of a batch.
        wait: seconds that a request may wait for others while an instance is idle, counted from its scheduled arrival.
        capacity: most requests in the queue; a further one is rejected.
    """

    size: int
    wait: float
    capacity: int


@dataclass(frozen=True)
class Batch:
    """A batch that has been given to an instance.

    Attributes:
        requests: their numbers.
        dispatched: when, in seconds of the server's clock.
    """

    requests: tuple[int, ...]
    dispatched: float


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
            self._running[instance] = Batch(requests, now)
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
