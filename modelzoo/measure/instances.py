"""An instance as its parent sees it: a worker on CPUs of its own that serves batches on command.

Its replies can be waited for with ``select``: an ``Instance`` has a file descriptor (``fileno``), and ``replies`` reads
what has arrived without waiting.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from time import monotonic
from types import TracebackType
from typing import Optional, TypeVar, Union

import msgspec

from modelzoo.errors import KINDS, ModelzooError, UsageError, WorkerError
from modelzoo.measure.jobs import OnEvent, Request, assignment, job_environment, listener, required
from modelzoo.measure.launcher import Launcher
from modelzoo.measure.process import LONGEST, OnMessage, WorkerProcess, too_long
from modelzoo.records.protocol import Failed, Hello, InstanceJob, Looks, Preparation, Progress
from modelzoo.records.serving import BatchDone, Command, Ready, Served, Window, encode_command
from modelzoo.setting import labels

Reply = Union[Ready, Window, BatchDone, Served]
T = TypeVar("T", Ready, Window, BatchDone, Served)
_READ = 1 << 20
"""Bytes that are read at once."""


class Instance:
    """A running instance. Leaving the ``with`` block kills it, whatever it is doing.

    Args:
        launcher: starts it, on the CPUs that it is to have.
        job: what it loads.
        environment: all of its environment variables.
        on_message: called with each ``Progress`` of it.

    Attributes:
        problem: how it ended, if it did so without having been told to; ``None`` while it is alive.

    Raises:
        UsageError: a path in the job is not UTF-8 text.
        EnvironmentProblem: it cannot be started.
    """

    def __init__(
        self, launcher: Launcher, job: InstanceJob, environment: Mapping[str, str], on_message: OnMessage
    ) -> None:
        self._worker = WorkerProcess(launcher, job, environment, on_message)
        self._on_message = on_message
        self._descriptor = self._worker.output.fileno()
        self._parts: list[bytes] = []
        self._unread = 0
        self._greeted = False
        self._waiting: deque[Reply] = deque()
        self._is_over = False
        self.problem: Optional[ModelzooError] = None

    def __enter__(self) -> Instance:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.__exit__(kind, error, trace)

    @property
    def pid(self) -> int:
        """The id of its process; of a container, that of its ``docker run``."""
        return self._worker.pid

    def fileno(self) -> int:
        """The descriptor to ``select`` for reading; when it is readable, call ``replies``."""
        return self._descriptor

    def send(self, command: Command) -> None:
        """Send a command; if the instance has died, the next reply says so."""
        self._worker.send(encode_command(command))

    def replies(self) -> Sequence[Reply]:
        """Read once, and return what has arrived; blocks only if nothing has.

        Raises:
            WorkerError: it has died; the message gives the signal or the last line that it printed.
            ModelzooError: the error that it reported, as the class that it was there.
        """
        self._fill()
        replies, self._waiting = tuple(self._waiting), deque()
        if not replies and self.problem is not None:
            raise self.problem
        return replies

    def wait(self, kind: type[T], seconds: Optional[float] = None) -> T:
        """Wait for the next reply, which must be of ``kind``, for at most ``seconds``.

        Raises:
            WorkerError: it has died, or does not answer in time.
            ModelzooError: the error that it reported, as the class that it was there.
        """
        until = None if seconds is None else monotonic() + seconds
        while not self._waiting:
            if self.problem is not None:
                raise self.problem
            left = None if until is None else max(0.0, until - monotonic())
            if not connection.wait([self._descriptor], left):
                raise WorkerError(f"the instance has not answered for {seconds:.0f} s")
            self._fill()
        reply = self._waiting.popleft()
        if not isinstance(reply, kind):
            raise WorkerError(f"the instance sent a {type(reply).__name__}, where a {kind.__name__} was due")
        return reply

    def _fill(self) -> None:
        """Read what has arrived, and sort it: replies, progress, the end."""
        data = os.read(self._descriptor, _READ) if not self._is_over else b""
        if not data:
            self._end()
            return
        # A window of many batches takes many reads.
        self._parts.append(data)
        self._unread += len(data)
        if b"\n" in data:
            *lines, rest = b"".join(self._parts).split(b"\n")
            self._parts, self._unread = [rest], len(rest)
            for line in lines:
                self._take(line)
        elif self._unread > LONGEST:
            self.problem, self._is_over = too_long(), True

    def _take(self, line: bytes) -> None:
        try:
            message = self._worker.read(line)
        except msgspec.DecodeError as error:
            if self._greeted:  # before, ``sitecustomize`` and ``.pth`` files may print
                self.problem = WorkerError(f"the instance sent a message that cannot be read: {error}")
            return
        except WorkerError as error:
            self.problem = error
            return
        self._greeted = True
        if isinstance(message, (Ready, Window, BatchDone, Served)):
            self._waiting.append(message)
        elif isinstance(message, Hello):
            self._worker.check(message)
        elif isinstance(message, Progress):
            self._on_message(message)
        elif isinstance(message, Failed):
            self.problem = KINDS.get(message.error_kind, ModelzooError)(message.error)

    def _end(self) -> None:
        self._is_over = True
        if self.problem is None and not any(isinstance(each, Served) for each in self._waiting):
            self.problem = self._worker.explained_end()


def start_instance(
    request: Request,
    index: int,
    prepared: Preparation,
    cpus: Optional[frozenset[int]],
    on_event: OnEvent,
    *,
    round_number: int = 0,
    sizes: tuple[int, ...] = (),
    full_audit: bool = True,
    extras: bool = False,
) -> Instance:
    """Start an instance of one setting, without waiting for it to be ready.

    Args:
        request: the workload and its settings.
        index: of the setting.
        prepared: the setting as resolved.
        cpus: the logical CPUs that it may use; ``None``: those of this process.
        on_event: called with its progress.
        round_number: of the round that it belongs to.
        sizes: the batch sizes that it will serve; empty: the setting's.
        full_audit, extras: see ``Looks``.

    Raises:
        ModelzooError: the setting could not be resolved, or the process cannot be started.
    """
    requested = request.settings[index]
    device = required(prepared).setting.device
    if device != "cpu":
        raise UsageError(f"instances share the CPUs of a machine; --device {device} is not supported")
    launcher = request.launcher_of(requested, prepared.interpreter, cpus)
    environment = job_environment(prepared.variables, launcher.environment())
    job = InstanceJob(
        assignment(request.workload, requested, prepared, environment),
        plan=request.plan,
        sizes=sizes,
        looks=Looks(audit=request.audit, full_audit=full_audit, extras=extras),
    )
    listen = listener(request.workload.name, labels(request.settings)[index], round_number, on_event)
    return Instance(launcher, job, environment.variables, listen)
