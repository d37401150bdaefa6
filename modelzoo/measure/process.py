"""A worker process as its parent sees it: started, let go on until it pauses or ends, asked for its result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Callable

from modelzoo.errors import KINDS, EnvironmentProblem, ModelzooError, WorkerError

Progress = Callable[[Mapping[str, Any]], None]


class Child:
    """One worker at work. Leaving the ``with`` block ends it, whatever it is doing.

    Attributes:
        precise: what it said at its last pause: whether its interval is narrow enough.
    """

    def __init__(self, work: Mapping[str, Any], progress: Progress) -> None:
        self.precise = False
        self._progress = progress
        self._last: dict[str, Any] = {}
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed by __exit__
        variables = work["environment"]["variables"]
        sent = {**work, "environment": {k: v for k, v in work["environment"].items() if k != "variables"}}
        reading, writing = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "modelzoo.measure.worker", str(writing)],
            stdin=subprocess.PIPE,
            stdout=self._said,
            stderr=self._said,
            env=dict(variables),
            pass_fds=(writing,),
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends the worker
        )
        os.close(writing)
        self._stream = os.fdopen(reading, "rb")
        self._messages = messages(self._stream)
        self._tell(json.dumps(sent))

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        with suppress(BrokenPipeError):  # what was not read by a worker that has died
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._stream.close()
        self._said.close()

    def advance(self) -> bool:
        """Wait until it pauses (True) or has ended (False), and pass its progress on."""
        for message in self._messages:
            self._last = message
            if message.get("phase") == "pause":
                self.precise = message["precise"]
                return True
            if "phase" in message:
                self._progress(message)
        self._process.wait()
        return False

    def resume(self, on: bool = True) -> None:
        """End its pause: another turn, or, with ``on`` false, no more sampling."""
        self._tell("turn" if on else "stop")

    def result(self) -> dict[str, Any]:
        """What it has done.

        Raises:
            WorkerError: it died; the message holds the signal or the last line it wrote.
            ModelzooError: the error it reported, as its own class.
        """
        if "done" in self._last:
            return dict(self._last["done"])
        if "error" in self._last:
            raise KINDS.get(self._last["error_kind"], ModelzooError)(self._last["error"])
        self._said.seek(0)
        raise death(self._process.returncode, self._said.read().decode(errors="replace"))

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it died; ``result`` says of what
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()


def call(work: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Start a worker, pass its progress on, and return what it has done; raises as ``Child.result``."""
    with Child(work, progress) as child:
        while child.advance():
            child.resume()
        return child.result()


def messages(stream: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects, one a line, that arrive on a pipe until it closes."""
    for line in stream:
        try:
            yield json.loads(line)
        except ValueError:
            return  # a worker killed while it wrote leaves half a line


def death(code: int, output: str) -> ModelzooError:
    """Why a worker that reported nothing ended."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (out of memory? try a smaller --batch)" if name == "SIGKILL" else ""
        if name == "SIGILL":
            hint = " (this build of torch has instructions that this CPU lacks)"
        return WorkerError(f"the worker process was ended by {name}{hint}")
    if any("No module named" in line for line in lines[-1:]):
        missing = lines[-1].split("No module named", 1)[1].strip()
        return EnvironmentProblem(
            f"{sys.executable} has no module {missing}: run ./scripts/run once, then use .venv/bin/python"
        )
    return WorkerError(f"the worker process ended with code {code}: {lines[-1] if lines else 'no output'}")
