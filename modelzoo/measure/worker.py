"""One fresh process whose methods its parent calls: it resolves settings, runs one, or judges one.

The parent starts ``python -m modelzoo.measure.worker`` with a scrubbed environment, writes what the process is for and
then its calls to its standard input, and reads messages from its standard output (``modelzoo.records.protocol``).
Whatever libraries print goes to standard error instead. A worker is started, never forked, so that no library state is
inherited. It ends when the parent closes the pipe.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from modelzoo import __version__
from modelzoo.errors import ModelzooError, UsageError, WorkerError, in_own_code
from modelzoo.machine import environment, linux
from modelzoo.measure.whereabouts import answer_when_asked
from modelzoo.records.codec import encode_json
from modelzoo.records.protocol import (
    PROTOCOL,
    Answer,
    Failed,
    Hello,
    Job,
    Located,
    Message,
    Preparation,
    PrepareJob,
    Send,
    decode_job,
)

OUT_OF_MEMORY = "out of memory; use a smaller --batch"


def main() -> int:
    """Do what the parent says, and send messages; the entry point of the process."""
    linux.begin()
    # ``-m`` puts the current directory first: what lies there by chance would replace what is installed.
    with suppress(OSError):  # it may have been deleted
        if sys.path[:1] == [str(Path.cwd())]:
            del sys.path[0]
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    writing = threading.Lock()

    def send(message: Message) -> None:
        line = memoryview(encode_json(message) + b"\n")
        with writing:
            while line:  # a signal may interrupt a long line
                line = line[pipe.write(line) or 0 :]

    answer_when_asked(lambda where: send(Located(where)))
    send(Hello(PROTOCOL, __version__))
    try:
        obey(iter(sys.stdin.buffer.readline, b""), send)
        return 0
    except ModelzooError as error:
        problem = error
    except MemoryError:
        problem = WorkerError(OUT_OF_MEMORY)
    except Exception as error:
        # torch reports a failed allocation as a RuntimeError.
        is_memory = "can't allocate memory" in str(error) or "out of memory" in str(error)
        problem = WorkerError(OUT_OF_MEMORY) if is_memory else in_own_code(error)
    send(Failed(str(problem), type(problem).__name__))
    return 2


def obey(lines: Iterator[bytes], send: Send) -> None:
    """Read what the process is for, and call one method after the other.

    Raises:
        UsageError: a line is not understood.
    """
    try:
        job = decode_job(next(lines, b""))
    except msgspec.DecodeError as error:
        raise UsageError(f"the worker was given a job that it does not understand: {error}") from error
    if job.parent is not None:
        _die_with(job.parent)
    subject = subject_of(job, send)
    with subject.active:  # sessions say what errors of their devices mean
        for line in lines:
            try:
                name, *given = msgspec.json.decode(line, type=list[msgspec.Raw])
                method = getattr(subject, msgspec.json.decode(name, type=str).lstrip("_"))
                pairs = zip(given, _kinds(method.__func__), strict=True)
                arguments = [msgspec.json.decode(value, type=kind) for value, kind in pairs]
            except (msgspec.DecodeError, AttributeError, ValueError) as error:
                raise UsageError(f"the worker was given a call that it does not understand: {error}") from error
            send(Answer(msgspec.Raw(encode_json(method(*arguments)))))


@functools.cache
def _kinds(method: Callable[..., Any]) -> list[Any]:
    """The types of the arguments of ``method``."""
    return [kind for name, kind in get_type_hints(method).items() if name != "return"]


def subject_of(job: Job, send: Send) -> Any:
    """Return the object whose methods are called, while it is ``active``; its modules are imported only now."""
    if isinstance(job, PrepareJob):
        return _Preparing(job, send)
    environment.enter(job.setting)
    if job.validity is None:
        from modelzoo.measure.instance import Instance

        return Instance(job, send)
    from modelzoo.measure.judgement import Judging

    return Judging(job, send)


class _Preparing:
    """Resolves the settings of ``job``."""

    active = nullcontext()

    def __init__(self, job: PrepareJob, send: Send) -> None:
        self._job, self._send = job, send

    def prepare(self) -> tuple[Preparation, ...]:
        from modelzoo.measure.preparation import prepare

        return prepare(self._job, self._send)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that happens (Linux)."""
    import ctypes
    import signal

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it ended before that call
            os._exit(1)


def leave(code: int) -> None:
    """End this process without taking the interpreter and its libraries apart, which takes a second after torch.

    All messages have been sent, and files are closed when they are written. What was registered to run at exit runs,
    such as the removal of temporary directories.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())
