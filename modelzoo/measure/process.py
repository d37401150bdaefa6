"""A worker process as seen by its parent: started, resumed until it pauses or ends, and asked for its result."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import connection
from time import monotonic, sleep
from types import TracebackType
from typing import Callable, Optional, TypeVar

import msgspec

from modelzoo.errors import KINDS, EnvironmentProblem, ModelzooError, NoAnswerError, UsageError, WorkerError
from modelzoo.formatting import duration
from modelzoo.frozen import replace
from modelzoo.measure.launcher import Launcher
from modelzoo.measure.whereabouts import ASK, DUMP, dumped
from modelzoo.records.protocol import (
    PROTOCOL,
    Exhibited,
    Failed,
    Hello,
    Job,
    Located,
    Message,
    Paused,
    Progress,
    Silence,
)
from modelzoo.records.serving import BatchDone, Ready, Window
from modelzoo.version import __version__

OnMessage = Callable[[Message], None]
"""Called with each ``Progress`` and ``Exhibited`` message of a worker."""
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
_READ = 1 << 20
"""Bytes that are read at once."""
_TAIL = 1 << 16
"""Bytes at the end of a worker's output that are looked at."""
T = TypeVar("T")


class WorkerProcess:
    """A running worker. Leaving the ``with`` block kills it, whatever it is doing.

    A worker that pauses is suspended until it is resumed, so that no thread of a library spins while others sample.

    Args:
        launcher: starts it.
        job: what it does.
        environment: all of its environment variables.
        on_message: receives its progress and what it exhibits, and, once a worker that has something to do has sent
            nothing for ``QUIET_SECONDS``, where it is.
        timeout: seconds after which such a worker is ended; ``None``: it never is.

    Attributes:
        is_over: it has closed its standard output.

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
        timeout: Optional[float] = None,
    ) -> None:
        try:
            line = launcher.write(job)
        except UnicodeEncodeError as error:
            raise UsageError(f"the path {error.object!r} is not UTF-8 text; rename it") from error
        self._on_message = on_message
        self._last: Optional[Message] = None
        try:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed by __exit__
        except OSError as error:
            raise EnvironmentProblem(
                f"no temporary file can be written: {error.strerror}; name another directory with TMPDIR"
            ) from error
        self._launcher, self._job = launcher, job
        try:
            self._worker = launcher.start(job, environment, self._stderr)
        except BaseException:
            self._stderr.close()
            raise
        self._process = self._worker.process
        assert self._process.stdout is not None
        self._descriptor = self._process.stdout.fileno()
        self._parts: list[bytes] = []
        self._unread = 0
        self._greeted = self.is_over = False
        self._timeout = math.inf if timeout is None else timeout
        self._progress = Progress("start")
        self._heard: Optional[float] = None
        self._asked: Optional[float] = None
        self._where: Optional[str] = None
        self.send(line + b"\n")
        self.expect()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):  # a worker that died has left input unread
                stream.close()
        self._stderr.close()

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def fileno(self) -> int:
        """The descriptor to wait for; when it is readable, ``receive`` does not block."""
        return self._descriptor

    def advance(self) -> bool:
        """Wait until the worker pauses (``True``) or has ended (``False``).

        Raises:
            NoAnswerError: it did not answer in time, and has been ended.
            ModelzooError: it speaks another protocol, or says what no worker of the suite would say.
        """
        while not self.is_over:
            self.wait()
            for message in self.receive():
                if isinstance(message, Paused):  # nothing comes after it
                    self._worker.suspend()
                    return True
                self._last = message
        self._worker.wait()
        return False

    def wait(self, until: float = math.inf) -> bool:
        """Wait for something to receive, until ``until`` by the monotonic clock; return whether there is.

        Raises:
            NoAnswerError: it did not answer in time, and has been ended.
        """
        while not connection.wait([self._descriptor], seconds_until(min(until, self.due))):
            if monotonic() >= until:
                return False
            self.attend()
        return True

    def receive(self) -> Sequence[Message]:
        """Read once, and return the messages that are complete by then; progress is passed on.

        What is read before the first message is skipped: ``sitecustomize`` and ``.pth`` files may print before a worker
        takes standard output for itself. A line that a worker which was killed has left incomplete is dropped.

        Raises:
            WorkerError: a message is longer than ``LONGEST``, or none of the suite.
            EnvironmentProblem: it speaks another protocol.
        """
        data = b"" if self.is_over else os.read(self._descriptor, _READ)
        if not data:
            self.is_over = True
            return ()
        # A long message takes many reads.
        self._parts.append(data)
        self._unread += len(data)
        if b"\n" not in data:
            if self._unread > LONGEST:
                raise WorkerError(f"the worker sent a message of more than {LONGEST >> 20} MiB")
            return ()
        *lines, rest = b"".join(self._parts).split(b"\n")
        self._parts, self._unread = [rest], len(rest)
        return [message for message in map(self._read, lines) if message is not None]

    def _read(self, line: bytes) -> Optional[Message]:
        """The message in ``line``; ``None`` if there is none, or nobody waits for it."""
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
        waits = isinstance(message, (Paused, Ready, Window, BatchDone))
        self._heard, self._asked, self._where = None if waits else monotonic(), None, None
        if isinstance(message, Progress):
            self._progress = message
        if isinstance(message, (Progress, Exhibited)):
            self._on_message(message)
            return None
        if isinstance(message, Hello):
            self._check(message)
            return None
        return message

    def resume(self) -> None:
        """End the pause: the worker samples for another turn."""
        self._worker.resume()
        self.send(b"turn\n")
        self.expect()

    def expect(self, since: Optional[float] = None, phase: Optional[str] = None) -> None:
        """Take note that the worker has been given something to do.

        Args:
            since: when it can be done at the earliest, by the monotonic clock; by default now.
            phase: what it is, if the worker does not say so.
        """
        self._heard, self._asked, self._where = monotonic() if since is None else since, None, None
        if phase is not None:
            self._progress = Progress(phase)

    @property
    def due(self) -> float:
        """When ``attend`` has something to do, by the monotonic clock: never while the worker waits for its parent."""
        if self._heard is None or self.is_over:
            return math.inf
        if self._asked is None:
            return self._heard + min(QUIET_SECONDS, self._timeout)
        return self._asked + _ANSWER_SECONDS if self._where is None else self._heard + self._timeout

    def attend(self) -> None:
        """Ask a worker that has sent nothing for long where it is, then end it if that has been too long.

        Raises:
            NoAnswerError: it has been ended.
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
            problem = self.silence("ended by --timeout")
            self._worker.kill()
            assert problem is not None, "it has been asked"
            raise problem

    def _locate(self, where: str) -> None:
        """Take note of where the worker is, unless it has gone on meanwhile."""
        if self._asked is None or self._heard is None:
            return
        self._where = where[:LONGEST_PLACE]
        if self._timeout > QUIET_SECONDS and self._progress.phase not in LENGTHY:
            self._on_message(replace(self._progress, silence=Silence(monotonic() - self._heard, self._where)))

    def silence(self, cause: str) -> Optional[NoAnswerError]:
        """What to report of a worker that does not answer; ``None`` if it has not been silent for long.

        Args:
            cause: why it is not waited for any longer.
        """
        if self._heard is None or self._where is None:
            return None
        since = duration(monotonic() - self._heard)
        return NoAnswerError(f"{cause}: {self._progress.phase}, no answer for {since}: {self._where}")

    def result(self, kind: type[T]) -> T:
        """Return the worker's final message, which must be of ``kind``.

        Raises:
            WorkerError: the worker died; the message gives the signal or the last line that it printed.
            ModelzooError: the error that it reported, as the class that it was there.
        """
        if isinstance(self._last, kind):
            return self._last
        if isinstance(self._last, Failed):
            raise KINDS.get(self._last.error_kind, ModelzooError)(self._last.error)
        raise self.explained_end()

    def explained_end(self) -> ModelzooError:
        """Wait for the process to end, and say why it did so without a final message."""
        code = self._worker.wait()
        return self._launcher.explain(self._job, code, self._printed())

    def _printed(self) -> str:
        """The end of what it has printed so far."""
        size = os.fstat(self._stderr.fileno()).st_size
        # The worker writes at the same position.
        return os.pread(self._stderr.fileno(), _TAIL, max(0, size - _TAIL)).decode(errors="replace")

    def _check(self, hello: Hello) -> None:
        """Raise ``EnvironmentProblem`` if the worker speaks another protocol."""
        if hello.protocol != PROTOCOL:
            raise EnvironmentProblem(
                f"the suite in {self._launcher.name} is version {hello.version} with protocol {hello.protocol}, this "
                f"one {__version__} with protocol {PROTOCOL}: use the same version of the suite on both sides"
            )

    def send(self, line: bytes) -> None:
        """Write to its standard input."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it died; ``result`` says why
            self._process.stdin.write(line)
            self._process.stdin.flush()


def call(
    launcher: Launcher,
    job: Job,
    environment: Mapping[str, str],
    kind: type[T],
    on_message: OnMessage,
    timeout: Optional[float] = None,
) -> T:
    """Run one job in a worker of its own and return its final message.

    Raises:
        NoAnswerError: it did not answer in time, and has been ended.
        ModelzooError: as ``WorkerProcess.result``.
    """
    with WorkerProcess(launcher, job, environment, on_message, timeout) as worker:
        while worker.advance():
            worker.resume()
        return worker.result(kind)


def seconds_until(moment: float) -> Optional[float]:
    """How long to wait until ``moment`` of the monotonic clock; ``None``: for ever."""
    return None if math.isinf(moment) else max(0.0, moment - monotonic())
