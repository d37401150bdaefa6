"""An instance as its parent sees it: a worker on CPUs of its own that serves batches on command.

Its replies can be waited for with ``select``: an ``Instance`` has a file descriptor (``fileno``), and ``replies`` reads
what has arrived without waiting.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Optional, TypeVar, Union

from modelzoo.errors import KINDS, ModelzooError, NoAnswerError, UsageError, WorkerError
from modelzoo.measure.jobs import OnEvent, Request, assignment, job_environment, listener, required
from modelzoo.measure.launcher import Launcher
from modelzoo.measure.process import OnMessage, WorkerProcess
from modelzoo.records.protocol import Failed, InstanceJob, Looks, Preparation
from modelzoo.records.serving import BatchDone, Command, Ready, RunUntil, Served, Window, encode_command
from modelzoo.setting import labels

Reply = Union[Ready, Window, BatchDone, Served]
T = TypeVar("T", Ready, Window, BatchDone, Served)


class Instance:
    """A running instance. Leaving the ``with`` block kills it, whatever it is doing.

    Args:
        launcher: starts it, on the CPUs that it is to have.
        job: what it loads.
        environment: all of its environment variables.
        on_message: called with each ``Progress`` of it.
        timeout: as for ``WorkerProcess``.

    Attributes:
        problem: how it ended, if it did so without having been told to; ``None`` while it is alive.

    Raises:
        UsageError: a path in the job is not UTF-8 text.
        EnvironmentProblem: it cannot be started.
    """

    def __init__(
        self,
        launcher: Launcher,
        job: InstanceJob,
        environment: Mapping[str, str],
        on_message: OnMessage,
        timeout: Optional[float] = None,
    ) -> None:
        self._worker = WorkerProcess(launcher, job, environment, on_message, timeout)
        self._waiting: deque[Reply] = deque()
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
        return self._worker.fileno()

    @property
    def due(self) -> float:
        """When ``attend`` has something to do, by the monotonic clock."""
        return self._worker.due

    def attend(self) -> None:
        """As ``WorkerProcess.attend``; if that ends it, the next reply says so."""
        try:
            self._worker.attend()
        except NoAnswerError as problem:
            self.problem = problem

    def send(self, command: Command) -> None:
        """Send a command; if the instance has died, the next reply says so."""
        self._worker.send(encode_command(command))
        self._worker.expect(command.end if isinstance(command, RunUntil) else None, "serve")

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
            NoAnswerError: it did not answer within its time-out, and has been ended.
            ModelzooError: the error that it reported, as the class that it was there.
        """
        until = math.inf if seconds is None else monotonic() + seconds
        while not self._waiting:
            if self.problem is not None:
                raise self.problem
            if not self._worker.wait(until):
                raise WorkerError(f"the instance has not answered for {seconds:.0f} s")
            self._fill()
        reply = self._waiting.popleft()
        if not isinstance(reply, kind):
            raise WorkerError(f"the instance sent a {type(reply).__name__}, where a {kind.__name__} was due")
        return reply

    def _fill(self) -> None:
        """Read what has arrived: replies, or how it ended."""
        try:
            for message in self._worker.receive():
                if isinstance(message, (Ready, Window, BatchDone, Served)):
                    self._waiting.append(message)
                elif isinstance(message, Failed):
                    self.problem = KINDS.get(message.error_kind, ModelzooError)(message.error)
        except ModelzooError as problem:
            self.problem = problem
        is_served = any(isinstance(each, Served) for each in self._waiting)
        if self._worker.is_over and self.problem is None and not is_served:
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
    return Instance(launcher, job, environment.variables, listen, request.timeout)
