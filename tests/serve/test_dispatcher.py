"""Batches are made by size and by wait."""

from __future__ import annotations

import math

from virtual_server import VirtualServer

from modelzoo.serve.generator import Batching, Dispatcher
from modelzoo.serve.servers import Reply


def queue(instances: int = 1, size: int = 4, wait: float = 0.5) -> Dispatcher:
    """A queue in front of instances that take a second for any batch."""
    return Dispatcher(VirtualServer(instances, lambda _: 1.0), Batching(size, wait, 100))


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
    ((requests, _),) = found.finished(found.server.wait(math.inf))
    assert requests == (0,)
    found.dispatch(1.0)
    assert found.sizes == {1: 1, 4: 1}


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
