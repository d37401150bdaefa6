"""One fresh process that does one job: resolve settings, time one, or judge one, as a whole or in shards.

The parent starts ``python -m modelzoo.measure.worker`` with a scrubbed environment, writes one job to its standard
input and reads messages from its standard output, one JSON object per line. Whatever libraries print goes to standard
error instead. A worker is started, never forked, so that no library state is inherited.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Callable

import msgspec

from modelzoo.errors import ModelzooError, UsageError, WorkerError, in_own_code
from modelzoo.machine import environment, start
from modelzoo.measure.whereabouts import answer_when_asked
from modelzoo.records.fleet import ShardResult
from modelzoo.records.protocol import (
    PROTOCOL,
    ConcludeJob,
    Failed,
    Hello,
    InstanceJob,
    Job,
    Located,
    MeasureJob,
    Message,
    PrepareJob,
    ShardJob,
    ShardTurn,
    decode_job,
    decode_shard_result,
    decode_turn,
    encode_line,
)
from modelzoo.records.serving import Command, decode_command
from modelzoo.version import __version__

Send = Callable[[Message], None]
OUT_OF_MEMORY = "out of memory; use a smaller --batch"


def main() -> int:
    """Read a job, do it and send its messages; the entry point of the process."""
    start.begin()
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    writing = threading.Lock()

    def send(message: Message) -> None:
        line = memoryview(encode_line(message) + b"\n")
        with writing:
            while line:  # a signal may interrupt a long line
                line = line[pipe.write(line) or 0 :]

    answer_when_asked(lambda where: send(Located(where)))
    send(Hello(PROTOCOL, __version__))
    try:
        job = decode_job(sys.stdin.buffer.readline())
    except msgspec.DecodeError as error:
        return _fail(send, UsageError(f"the worker was given a job that it does not understand: {error}"))
    parent = job.parent if isinstance(job, PrepareJob) else job.assignment.parent
    if parent is not None:
        _die_with(parent)
    try:
        send(do(job, send))
    except ModelzooError as error:
        return _fail(send, error)
    except MemoryError:
        return _fail(send, WorkerError(OUT_OF_MEMORY))
    except Exception as error:
        # torch reports a failed allocation as a RuntimeError.
        if "can't allocate memory" in str(error) or "out of memory" in str(error):
            return _fail(send, WorkerError(OUT_OF_MEMORY))
        return _fail(send, in_own_code(error))
    return 0


def do(job: Job, send: Send) -> Message:
    """Do ``job`` in this process and return its final message."""
    if isinstance(job, PrepareJob):
        from modelzoo.measure.preparation import prepare

        return prepare(job, send)
    if isinstance(job, MeasureJob):
        environment.enter(job.assignment.setting)
        from modelzoo.measure.measurement import measure

        return measure(job, send, take_turn)
    if isinstance(job, InstanceJob):
        environment.enter(job.assignment.setting)
        from modelzoo.measure import instance

        return instance.serve(job, send, read_command)
    environment.enter(job.assignment.setting)
    if isinstance(job, ShardJob):
        from modelzoo.measure.judgement import judge_shards

        return judge_shards(job, send, shard_turns())
    if isinstance(job, ConcludeJob):
        from modelzoo.measure.judgement import conclude_shards

        return conclude_shards(job, send, shard_results())
    from modelzoo.measure.judgement import judge

    return judge(job, send)


def take_turn() -> None:
    """Wait until the parent gives this worker its turn; end the process if the parent has closed the pipe."""
    if not sys.stdin.buffer.readline():
        sys.exit(0)


def read_command() -> Command:
    """Wait for the next command of an instance; end the process if the parent has closed the pipe.

    Raises:
        UsageError: the parent sent something else.
    """
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    try:
        return decode_command(line)
    except msgspec.DecodeError as error:
        raise UsageError(f"the instance was given a command that it does not understand: {error}") from error


def shard_turns() -> Iterator[ShardTurn]:
    """Wait for each turn of a worker that judges shards; the parent ends the worker when there are no more."""
    while True:
        take_turn()
        yield decode_turn(sys.stdin.buffer.readline())


def shard_results() -> Iterator[ShardResult]:
    """The results of shards that the parent sends, up to an empty line."""
    while (line := sys.stdin.buffer.readline()).strip():
        yield decode_shard_result(line)


def _fail(send: Send, error: ModelzooError) -> int:
    send(Failed(str(error), type(error).__name__))
    return 2


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
