"""A process that ends what a call has started if the call cannot: it is killed while workers are suspended.

The call names what it starts on the guardian's standard input, one line each, and takes it back when it has ended. When
that pipe closes, the guardian ends the rest. As a program this file imports neither torch nor the suite.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import IO

GROUP, CONTAINER = "group", "container"
_DOCKER_SECONDS = 60


class Guardian:
    """The guardian of this process, started when there is first something to guard, and again if it was ended."""

    def __init__(self) -> None:
        self._guarded: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def guard(self, kind: str, name: object) -> None:
        """End this when the parent has ended.

        Args:
            kind: ``GROUP`` or ``CONTAINER``.
            name: id of the process group, or name of the container.

        Raises:
            OSError: no process can be started.
        """
        line = f"+ {kind} {name}"
        with self._lock:
            _note(self._guarded, line)
            if self._process is None or not _write(self._process, [line]):
                self._start()

    def release(self, kind: str, name: object) -> None:
        """It has ended. The id of a process group must not be free for another one yet."""
        line = f"- {kind} {name}"
        with self._lock:
            _note(self._guarded, line)
            if self._process is not None:
                _write(self._process, [line])

    def end(self) -> None:
        """Let it end what is guarded, and itself."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            process.wait()

    def _start(self) -> None:
        self.end()
        atexit.register(self.end)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _write(self._process, [f"+ {each}" for each in self._guarded])


def _write(guardian: subprocess.Popen[bytes], lines: Iterable[str]) -> bool:
    """Whether it can still read."""
    assert guardian.stdin is not None
    try:
        guardian.stdin.write("".join(f"{line}\n" for line in lines).encode())
    except BrokenPipeError:
        return False
    return True


def _note(guarded: set[str], line: str) -> None:
    sign, _, thing = line.strip().partition(" ")
    if sign == "+":
        guarded.add(thing)
    else:
        guarded.discard(thing)


GUARDIAN = Guardian()


def main(stream: IO[str]) -> None:
    """Be the guardian: read until the parent has ended, and end what it has left."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    guarded: set[str] = set()
    for line in stream:
        _note(guarded, line)
    things = [each.split(" ", 1) for each in guarded]
    for group in [name for kind, name in things if kind == GROUP]:
        with suppress(OSError):  # it has ended, with all of its processes
            os.killpg(int(group), signal.SIGKILL)
    containers = [name for kind, name in things if kind == CONTAINER]
    for command in (["unpause"], ["rm", "--force", "--volumes"]) if containers else ():
        with suppress(OSError, subprocess.TimeoutExpired):  # there is no engine any more, or it does not answer
            subprocess.run(["docker", *command, *containers], capture_output=True, timeout=_DOCKER_SECONDS, check=False)


if __name__ == "__main__":
    main(sys.stdin)
