"""Instances in processes, replaced by pipes that a test writes to."""

from __future__ import annotations

import fcntl
import math
import os
import re
import resource
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from modelzoo.cli import serving
from modelzoo.errors import UsageError, WorkerError
from modelzoo.records.serving import BatchDone
from modelzoo.serve.servers import ProcessServer

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
def serve(request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Instances serve: they are waited for, or polled."""
    with select.epoll() as watch, ExitStack() as stack:

        def start(*pipes: Pipe) -> ProcessServer:
            for each in pipes:
                stack.callback(each.close)
            return ProcessServer(pipes, 4, watch, polls=request.param)  # type: ignore[arg-type]

        yield start


def test_batches_are_sent_and_replies_are_read(serve: Serve) -> None:
    """From whichever instance has answered."""
    pipes = Pipe(), Pipe()
    found = serve(*pipes)
    assert (found.instances, found.fixed_size) == (2, 4)
    found.start(1, 3)
    assert pipes[1].sent == [("batch", 3)]
    pipes[1].answer()
    assert [tuple(reply) for reply in found.wait(math.inf)] == [(1, 1.0, 3.0, None)]


def test_a_wait_ends_at_its_deadline_and_not_before(serve: Serve) -> None:
    """Without replies."""
    found = serve(Pipe())
    until = found.now() + 0.01
    assert found.wait(until) == ()
    assert time.monotonic() >= until


def test_a_dead_instance_is_reported_once(serve: Serve) -> None:
    """Its end of the pipe stays readable, but nobody looks any more."""
    dead = Pipe()
    found = serve(dead, Pipe())
    dead.is_dead = True
    dead.answer()
    (reply,) = found.wait(math.inf)
    assert (reply.instance, reply.error) == (0, "the worker process was ended by SIGKILL")
    dead.answer()
    assert found.wait(found.now() + 0.01) == ()


def test_an_instance_that_does_not_answer_ends_a_wait_for_ever(serve: Serve) -> None:
    """It is looked after when that is due, which ends it, and reported as one that died."""
    silent = Pipe()
    silent.due = time.monotonic() + 0.02
    (reply,) = serve(Pipe(), silent).wait(math.inf)
    assert (reply.instance, reply.error is not None) == (1, True)


def test_there_may_be_more_instances_than_select_can_watch(serve: Serve) -> None:
    """With three open files each, the descriptors of 342 instances are beyond 1,023."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    serving.allow_open_files(700)
    try:
        far = Pipe(lowest=2000)
        found = serve(far)
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
