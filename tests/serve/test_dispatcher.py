"""The queue is bounded, and batches are made by size and by wait."""

from __future__ import annotations

import math

from virtual_server import VirtualServer

from modelzoo.serve.generator import Batching, Dispatcher
from modelzoo.serve.servers import Reply


def queue(
    instances: int = 1, size: int = 4, wait: float = 0.5, capacity: int = 100, fixed: int | None = None
) -> Dispatcher:
    """A queue in front of instances that take a second for any batch."""
    return Dispatcher(VirtualServer(instances, lambda _: 1.0, fixed), Batching(size, wait, capacity))


def test_a_full_batch_goes_at_once_and_a_partial_one_after_its_wait() -> None:
    """The wait counts from the oldest request."""
    full, partial = queue(), queue()
    for number in range(4):
        full.offer(number, 0.0)
    full.dispatch(0.0)
    assert full.sizes == {4: 1}
    partial.offer(0, 0.0)
    partial.offer(1, 0.3)
    partial.dispatch(0.4)
    assert not partial.sizes
    assert partial.deadline() == 0.5
    partial.dispatch(0.5)
    assert partial.sizes == {2: 1}


def test_nothing_is_due_while_all_instances_are_busy() -> None:
    """What has waited too long goes when one is idle again, in the largest batch possible."""
    found = queue(wait=0.0)
    found.offer(0, 0.0)
    found.dispatch(0.0)
    for number in range(1, 7):
        found.offer(number, 0.1)
    assert found.deadline() == math.inf
    (batch,) = found.finished(found.server.wait(math.inf))
    assert batch.requests == (0,)
    found.dispatch(1.0)
    assert found.sizes == {1: 1, 4: 1}


def test_a_full_queue_rejects() -> None:
    """Until something has been dispatched."""
    found = queue(capacity=2)
    assert [found.offer(number, 0.0) for number in range(3)] == [True, True, False]


def test_the_longest_idle_instance_is_next() -> None:
    """So that all get the same share of a low load."""
    found = queue(instances=3, size=1)
    for number in range(6):
        found.offer(number, 10.0 * number)
        found.dispatch(10.0 * number)
        found.finished(found.server.wait(math.inf))
    assert found.batches == [2, 2, 2]
    assert found.busy_seconds == [2.0, 2.0, 2.0]


def test_a_fixed_size_is_filled_up() -> None:
    """The server runs 4 items for a single request."""
    found = queue(wait=0.0, fixed=4)
    found.offer(0, 0.0)
    found.dispatch(0.0)
    assert found.sizes == {1: 1}
    assert found.padded == 3


def test_a_dead_instance_gets_nothing_more() -> None:
    """Whether it died idle or with a batch; without any the queue waits for nothing."""
    found = queue(instances=2, size=1, wait=0.0)
    found.offer(0, 0.0)
    found.dispatch(0.0)
    assert found.finished([Reply(0, 0.0, 0.0, "killed"), Reply(1, 0.0, 0.0, "killed as well")]) == []
    assert found.errors == {0: "killed", 1: "killed as well"}
    found.offer(1, 0.0)
    found.dispatch(0.0)
    assert found.sizes == {1: 1}
    assert not found.is_busy
