"""Instances in processes, replaced by pipes that a test writes to."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence

import pytest

from modelzoo.errors import WorkerError
from modelzoo.measure.instances import Instance
from modelzoo.records.serving import BatchDone, Command, RunBatch
from modelzoo.serve.servers import ProcessServer


class Pipe:
    """What ``ProcessServer`` needs of an instance."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self.sent: list[Command] = []
        self.is_dead = False

    def fileno(self) -> int:
        return self._reader

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def answer(self) -> None:
        os.write(self._writer, b".")

    def replies(self) -> Sequence[BatchDone]:
        os.read(self._reader, 100)
        if self.is_dead:
            raise WorkerError("the worker process was ended by SIGKILL")
        return (BatchDone(1.0, 3.0),)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@pytest.fixture
def pipes() -> Iterator[list[Pipe]]:
    """Two of them."""
    found = [Pipe(), Pipe()]
    yield found
    for each in found:
        each.close()


def server(pipes: Sequence[Pipe], *, polls: bool = False, wake: int | None = None) -> ProcessServer:
    """They serve."""
    instances: Sequence[Instance] = pipes  # type: ignore[assignment]
    return ProcessServer(instances, 4, polls=polls, wake=wake)


def test_batches_are_sent_and_replies_are_read(pipes: list[Pipe]) -> None:
    """From whichever instance has answered."""
    found = server(pipes)
    assert (found.instances, found.fixed_size) == (2, 4)
    found.start(1, 3)
    assert pipes[1].sent == [RunBatch(3)]
    pipes[1].answer()
    assert [tuple(reply) for reply in found.wait(math.inf)] == [(1, 1.0, 3.0, None)]


@pytest.mark.parametrize("polls", [False, True])
def test_a_wait_ends_at_its_deadline_and_not_before(pipes: list[Pipe], polls: bool) -> None:
    """Without replies."""
    found = server(pipes, polls=polls)
    until = found.now() + 0.01
    assert found.wait(until) == ()
    assert time.monotonic() >= until


def test_a_dead_instance_is_reported_once(pipes: list[Pipe]) -> None:
    """Its end of the pipe stays readable, but nobody looks any more."""
    found = server(pipes)
    pipes[0].is_dead = True
    pipes[0].answer()
    (reply,) = found.wait(math.inf)
    assert (reply.instance, reply.error) == (0, "the worker process was ended by SIGKILL")
    pipes[0].answer()
    assert found.wait(found.now() + 0.01) == ()


def test_another_descriptor_wakes_it(pipes: list[Pipe]) -> None:
    """There are no replies then; the caller reads it."""
    reader, writer = os.pipe()
    os.write(writer, b".")
    assert server(pipes, wake=reader).wait(math.inf) == []
    os.close(reader)
    os.close(writer)
