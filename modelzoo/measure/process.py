"""A worker process as seen by its parent: its methods are called, and it is suspended, asked where it is, and ended."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection
from time import monotonic, sleep
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from modelzoo import __version__
from modelzoo.errors import KINDS, EnvironmentProblem, ModelzooError, NoAnswerError, UsageError, WorkerError
from modelzoo.formatting import duration
from modelzoo.frozen import replace
from modelzoo.measure.container import Launcher
from modelzoo.measure.worker import ASK, DUMP, dumped
from modelzoo.records.codec import encode_json
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.protocol import PROTOCOL, Answer, Failed, Hello, Job, Located, Message, Progress, Silence

OnMessage = Callable[[Message], None]
"""Called with each ``Progress`` and ``Exhibit`` of a worker."""
LONGEST = 1 << 28
"""Bytes of a message at most; a million samples take a tenth of it."""
LONGEST_PLACE = 1000
"""Characters that are shown of where a worker is."""
QUIET_SECONDS = 60.0
"""A worker that has sent nothing for so long is asked where it is."""
LENGTHY = ("weights", "export", "load and compile")
"""Phases that may take minutes: nothing is said about a silence in them, though ``--timeout`` ends it."""
_ANSWER_SECONDS = 2.0
"""A worker whose interpreter is not locked says where it is within milliseconds; one that has not after this time is
made to dump its stack."""
_DUMP_SECONDS = 0.2
_END_SECONDS = 10.0
"""A worker that has nothing to do ends within this time after its pipe was closed, or it is killed."""
_READ = 1 << 20
"""Bytes that are read at once."""
_TAIL = 1 << 16
"""Bytes at the end of a worker's output that are looked at."""
T = TypeVar("T")
K = TypeVar("K")


class Remote:
    """A running worker, whose methods are called. Leaving the ``with`` block ends it, whatever it is doing.

    Once it has failed, whoever waits for an answer gets the reason, and what is sent to it is no error. It has a file
    descriptor, so that several can be waited for with ``select``.

    Args:
        launcher: starts it.
        job: what it is for.
        environment: all of its environment variables.
        on_message: receives its progress and what it exhibits, and, once a worker that has something to do has sent
            nothing for ``QUIET_SECONDS``, where it is.
        timeout: seconds after which such a worker is ended; ``None``: it never is.

    Attributes:
        problem: how it ended, if it did so without having been told to; ``None`` while it is alive.

    Raises:
        UsageError: a path in the job is not UTF-8 text.
        EnvironmentProblem: the worker cannot be started.
    """

    def __init__(
        self,
        launcher: Launcher,
        job: Job,
        environment: Mapping[str, str],
        on_message: OnMessage,
        timeout: float | None = None,
    ) -> None:
        try:
            line = launcher.write(job)
        except UnicodeEncodeError as error:
            raise UsageError(f"the path {error.object!r} is not UTF-8 text; rename it") from error
        try:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed by end
        except OSError as error:
            raise EnvironmentProblem(
                f"no temporary file can be written: {error.strerror}; name another directory with TMPDIR"
            ) from error
        try:
            self._worker = launcher.start(job, environment, self._stderr)
        except BaseException:
            self._stderr.close()
            raise
        self._launcher, self._job, self._on_message = launcher, job, on_message
        assert self._worker.process.stdin is not None and self._worker.process.stdout is not None
        self._stdin, self._stdout = self._worker.process.stdin, self._worker.process.stdout
        self._parts: list[bytes] = []
        self._unread = 0
        self._greeted = self._is_over = self._is_suspended = False
        self._timeout = math.inf if timeout is None else timeout
        self._progress = Progress("start")
        self._heard: float | None = None
        self._asked: float | None = None
        self._where: str | None = None
        self.problem: ModelzooError | None = None
        self._write(line)

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(kill=error is not None)

    def end(self, *, kill: bool = False) -> None:
        """End it: let it do what is registered for its end, unless it is doing something or ``kill`` is set."""
        if self._stderr.closed:
            return
        try:
            if not kill and self.problem is None and self._heard is None and self._greeted:
                with suppress(EnvironmentProblem):  # it cannot go on, so it is killed
                    self._resume()
                    self._close(self._stdin)
                    connection.wait([self.fileno()], _END_SECONDS)
        finally:
            self._worker.kill()
            self._close(self._stdin)
            self._stdout.close()
            self._stderr.close()

    def fileno(self) -> int:
        """The descriptor to ``select`` for reading; when it is readable, call ``answers``."""
        return self._stdout.fileno()

    def call(self, name: str, *arguments: object, result: type[T], last: bool = False) -> T:
        """Call a method, and wait for what it returns; arguments as for ``send``, raises as ``wait``."""
        self.send(name, *arguments, last=last)
        return self.wait(result)

    def send(
        self, name: str, *arguments: object, since: float | None = None, phase: str | None = None, last: bool = False
    ) -> None:
        """Call a method without waiting for it. A worker that was suspended goes on.

        Args:
            since: when it can have done that at the earliest, by the monotonic clock; by default now.
            phase: what it does, if it does not say so.
            last: it ends when it has answered.

        Raises:
            EnvironmentProblem: it cannot go on.
        """
        self._resume()
        self._heard, self._asked, self._where = monotonic() if since is None else since, None, None
        if phase is not None:
            self._progress = Progress(phase)
        self._write(encode_json((name, *arguments)))
        if last:
            self._close(self._stdin)

    def suspend(self) -> None:
        """Stop a worker that waits to be called, so that no thread of a library spins while others sample.

        Raises:
            EnvironmentProblem: it cannot be stopped.
        """
        self._worker.suspend()
        self._is_suspended = True

    def _resume(self) -> None:
        if self._is_suspended:
            self._worker.resume()
            self._is_suspended = False

    def wait(self, kind: type[T]) -> T:
        """Wait for the next answer, which must be of ``kind``.

        Raises:
            WorkerError: it has died (the message gives the signal or the last line that it printed), or says what no
                worker of the suite would say.
            NoAnswerError: it did not answer within its time-out, and has been ended.
            ModelzooError: it speaks another protocol; or the error that it reported, as the class that it was there.
        """
        while True:
            if self.problem is not None or connection.wait([self.fileno()], seconds_until(self.due)):
                found = self.answers(kind)
                if found:
                    return found[0]
            else:
                self.attend()

    def answers(self, kind: type[T]) -> Sequence[T]:
        """Read once, and return the answers that have arrived; blocks only if nothing has. Raises as ``wait``."""
        if self.problem is None:
            try:
                found = [self._decoded(each, kind) for each in self._receive()]
                if found or not self._is_over:
                    return found
                self.problem = self._launcher.explain(self._job, self._worker.wait(), self._printed())
            except ModelzooError as problem:
                self.problem = problem
        raise self.problem

    def _receive(self) -> list[Answer]:
        """Read once, and return the answers that are complete by then; progress is passed on.

        What is read before the first message is skipped: ``sitecustomize`` and ``.pth`` files may print before a worker
        takes standard output for itself. A line that a worker which was killed has left incomplete is dropped.
        """
        data = os.read(self.fileno(), _READ)
        if not data:
            self._is_over = True
            return []
        # A long message takes many reads.
        self._parts.append(data)
        self._unread += len(data)
        if b"\n" not in data:
            if self._unread > LONGEST:
                raise WorkerError(f"the worker sent a message of more than {LONGEST >> 20} MiB")
            return []
        *lines, rest = b"".join(self._parts).split(b"\n")
        self._parts, self._unread = [rest], len(rest)
        return [answer for answer in map(self._read, lines) if answer is not None]

    def _read(self, line: bytes) -> Answer | None:
        """The answer in ``line``; ``None`` if there is none."""
        try:
            message = self._launcher.read(self._job, line)
        except msgspec.DecodeError as error:
            if self._greeted:
                raise WorkerError(f"the worker sent a message that cannot be read: {error}") from error
            return None
        self._greeted = True
        if isinstance(message, Located):
            self._locate(message.where)
            return None
        if isinstance(message, Failed):
            raise KINDS.get(message.error_kind, ModelzooError)(message.error)
        if isinstance(message, Hello) and message.protocol != PROTOCOL:
            raise EnvironmentProblem(
                f"the suite in {self._launcher.name} is version {message.version} with protocol {message.protocol}, "
                f"this one {__version__} with protocol {PROTOCOL}: use the same version of the suite on both sides"
            )
        if isinstance(message, Answer):
            if self._heard is None:
                raise WorkerError("the worker sent an answer that it was not asked for")
            self._heard = self._asked = self._where = None
            return message
        if self._heard is not None:
            self._heard, self._asked, self._where = monotonic(), None, None
        self._progress = message if isinstance(message, Progress) else self._progress
        if isinstance(message, (Progress, Exhibit)):
            self._on_message(message)
        return None

    def _decoded(self, answer: Answer, kind: type[T]) -> T:
        try:
            value = msgspec.json.decode(answer.result, type=kind)
        except msgspec.DecodeError as error:
            raise WorkerError(f"the worker sent an answer that cannot be read: {error}") from error
        self._launcher.check(self._job, value)
        return value

    @property
    def due(self) -> float:
        """When ``attend`` has something to do, by the monotonic clock: never while the worker waits to be called."""
        if self._heard is None or self._is_over or self.problem is not None:
            return math.inf
        if self._asked is None:
            return self._heard + min(QUIET_SECONDS, self._timeout)
        return self._asked + _ANSWER_SECONDS if self._where is None else self._heard + self._timeout

    def attend(self) -> None:
        """Ask a worker that has sent nothing for long where it is, then end it if that has been too long.

        If that ends it, whoever waits for its answer gets the reason.
        """
        if monotonic() < self.due:
            return
        if self._asked is None:
            self._asked = monotonic()
            if self._greeted:  # before, the signal would end it
                self._worker.signal(ASK)
        elif self._where is None:
            if self._greeted:
                self._worker.signal(DUMP)
                sleep(_DUMP_SECONDS)
            self._locate(dumped(self._printed()) or "place unknown")
        else:
            self.problem = self.silence("ended by --timeout")
            self._worker.kill()

    def _locate(self, where: str) -> None:
        """Take note of where the worker is, unless it has gone on meanwhile."""
        if self._asked is None or self._heard is None:
            return
        self._where = where[:LONGEST_PLACE]
        if self._timeout > QUIET_SECONDS and self._progress.phase not in LENGTHY:
            self._on_message(replace(self._progress, silence=Silence(monotonic() - self._heard, self._where)))

    def silence(self, cause: str) -> NoAnswerError | None:
        """What to report of a worker that does not answer; ``None`` if it has not been silent for long.

        Args:
            cause: why it is not waited for any longer.
        """
        if self._heard is None or self._where is None:
            return None
        since = duration(monotonic() - self._heard)
        return NoAnswerError(f"{cause}: {self._progress.phase}, no answer for {since}: {self._where}")

    def _printed(self) -> str:
        """The end of what it has printed so far."""
        size = os.fstat(self._stderr.fileno()).st_size
        # The worker writes at the same position.
        return os.pread(self._stderr.fileno(), _TAIL, max(0, size - _TAIL)).decode(errors="replace")

    def _write(self, line: bytes) -> None:
        with suppress(BrokenPipeError):  # it died; whoever waits for an answer learns why
            self._stdin.write(line + b"\n")
            self._stdin.flush()

    def _close(self, stream: Any) -> None:
        with suppress(BrokenPipeError):  # a worker that died has left input unread
            stream.close()


def each_answer(remotes: Mapping[K, Remote], kind: type[T]) -> Iterator[tuple[K, T | ModelzooError]]:
    """Wait for one answer of each worker, in whatever order they come, and yield them, or how a worker ended."""
    waiting = dict(remotes)
    while waiting:
        due = min(remote.due for remote in waiting.values())
        ready = connection.wait([remote.fileno() for remote in waiting.values()], seconds_until(due))
        for key, remote in list(waiting.items()):
            remote.attend()
            found: Sequence[T | ModelzooError] = ()
            if remote.fileno() in ready or remote.problem is not None:
                try:
                    found = remote.answers(kind)
                except ModelzooError as problem:
                    found = (problem,)
            if found:
                del waiting[key]
                yield key, found[0]


def seconds_until(moment: float) -> float | None:
    """How long to wait until ``moment`` of the monotonic clock; ``None``: for ever."""
    return None if math.isinf(moment) else max(0.0, moment - monotonic())
