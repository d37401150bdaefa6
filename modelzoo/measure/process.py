"""A worker process as seen by its parent: started, resumed until it pauses or ends, and asked for its result."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import IO, Callable, Optional, TypeVar

import msgspec

from modelzoo.errors import KINDS, EnvironmentProblem, ModelzooError, UsageError, WorkerError
from modelzoo.measure.launcher import Launcher
from modelzoo.records.protocol import (
    PROTOCOL,
    Exhibited,
    Failed,
    Hello,
    Job,
    Message,
    Paused,
    Progress,
    decode_message,
    encode_job,
)
from modelzoo.version import __version__

OnMessage = Callable[[Message], None]
"""Called with each ``Progress`` and ``Exhibited`` message of a worker."""
LONGEST = 1 << 28
"""Bytes of a message at most; a million samples take a tenth of it."""
_TAIL = 1 << 16
"""Bytes at the end of a worker's output that are looked at."""
T = TypeVar("T")


class WorkerProcess:
    """A running worker. Leaving the ``with`` block kills it, whatever it is doing.

    A worker that pauses is suspended until it is resumed, so that no thread of a library spins while others sample.

    Raises:
        UsageError: a path in the job is not UTF-8 text.
        EnvironmentProblem: the worker cannot be started.
    """

    def __init__(self, launcher: Launcher, job: Job, environment: Mapping[str, str], on_message: OnMessage) -> None:
        try:
            line = encode_job(launcher.adapt(job))
        except UnicodeEncodeError as error:
            raise UsageError(f"the path {error.object!r} is not UTF-8 text; rename it") from error
        self._on_message = on_message
        self._last: Optional[Message] = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed by __exit__
        self._launcher, self._job = launcher, job
        try:
            self._worker = launcher.start(job, environment, self._stderr)
        except BaseException:
            self._stderr.close()
            raise
        self._process = self._worker.process
        self._messages = messages(self.output, self.read)
        self.send(line + b"\n")

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

    @property
    def output(self) -> IO[bytes]:
        """Where its messages come from."""
        assert self._process.stdout is not None
        return self._process.stdout

    def read(self, line: bytes) -> Message:
        """Return the message in ``line``; raises as ``Launcher.read``."""
        return self._launcher.read(self._job, line)

    def advance(self) -> bool:
        """Wait until the worker pauses (``True``) or has ended (``False``).

        Raises:
            ModelzooError: it speaks another protocol, or says what no worker of the suite would say.
        """
        for message in self._messages:
            if isinstance(message, Hello):
                self.check(message)
            elif isinstance(message, (Progress, Exhibited)):
                self._on_message(message)
            elif isinstance(message, Paused):
                self._worker.suspend()
                return True
            else:
                self._last = message
        self._worker.wait()
        return False

    def resume(self) -> None:
        """End the pause: the worker samples for another turn."""
        self._worker.resume()
        self.send(b"turn\n")

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
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - _TAIL))
        output = self._stderr.read(_TAIL).decode(errors="replace")
        return self._launcher.explain(self._job, code, output)

    def check(self, hello: Hello) -> None:
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


def call(launcher: Launcher, job: Job, environment: Mapping[str, str], kind: type[T], on_message: OnMessage) -> T:
    """Run one job in a worker of its own and return its final message; raises as ``WorkerProcess.result``."""
    with WorkerProcess(launcher, job, environment, on_message) as worker:
        while worker.advance():
            worker.resume()
        return worker.result(kind)


def messages(stream: IO[bytes], read: Callable[[bytes], Message] = decode_message) -> Iterator[Message]:
    """Decode messages, one JSON object per line, until the stream closes.

    Lines before the first message are skipped: ``sitecustomize`` and ``.pth`` files may print before a worker takes
    standard output for itself. A worker that is killed while it writes leaves an incomplete line, which ends the
    iteration.

    Args:
        stream: what the worker writes.
        read: turns a line into a message.

    Raises:
        WorkerError: a message is longer than ``LONGEST``; and whatever ``read`` raises.
    """
    greeted = False
    for line in iter(lambda: stream.readline(LONGEST), b""):
        if len(line) == LONGEST:
            raise too_long()
        try:
            message = read(line)
        except msgspec.DecodeError as error:
            if not greeted:
                continue
            if line.endswith(b"\n"):
                yield Failed(f"the worker sent a message that cannot be read: {error}", WorkerError.__name__)
            return
        greeted = True
        yield message


def too_long() -> WorkerError:
    """The error of a message without an end."""
    return WorkerError(f"the worker sent a message of more than {LONGEST >> 20} MiB")
