"""How worker processes are started, suspended and ended, and the launcher that starts them on this machine.

``modelzoo.measure.container`` has the launcher that starts them in containers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Optional, Protocol

from modelzoo.errors import EnvironmentProblem, ModelzooError, WorkerError
from modelzoo.formatting import printable
from modelzoo.measure.answers import accepted
from modelzoo.measure.interpreter import suite_path
from modelzoo.records.protocol import Job, Message, decode_message

WORKER = ("-m", "modelzoo.measure.worker")
"""The arguments with which an interpreter runs a worker."""


class Worker(Protocol):
    """A worker that has been started."""

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process whose standard input takes the job and whose standard output gives the messages."""

    def suspend(self) -> None:
        """Stop it, with all of its threads, until ``resume``."""

    def resume(self) -> None:
        """Let it go on; does nothing if it has ended."""

    def kill(self) -> None:
        """End it, whatever it is doing; does nothing if it has ended."""


class Launcher(Protocol):
    """A way to start workers. Equal launchers start equal workers."""

    @property
    def name(self) -> str:
        """Its name in errors."""

    @property
    def is_local(self) -> bool:
        """Whether its workers see the files of this machine."""

    def environment(self) -> Mapping[str, str]:
        """The environment variables that a worker inherits."""

    def adapt(self, job: Job) -> Job:
        """Return the job as the worker needs it."""

    def read(self, job: Job, line: bytes) -> Message:
        """Return what a worker has answered to ``job``, in terms of this machine.

        Raises:
            msgspec.DecodeError: it is no message.
            WorkerError: no worker of the suite would answer this.
        """

    def start(self, job: Job, environment: Mapping[str, str], stderr: IO[bytes]) -> Worker:
        """Start a worker in a session of its own, so that Ctrl-C reaches the parent alone.

        Args:
            job: the job that it will be given, not yet adapted.
            environment: all of the worker's environment variables.
            stderr: the file that receives whatever libraries print.

        Raises:
            ModelzooError: it cannot be started.
        """

    def explain(self, job: Job, code: int, output: str) -> ModelzooError:
        """Say why a worker ended without a final message.

        Args:
            job: what it was to do.
            code: the exit code of its process; a negative one is the number of a signal.
            output: the end of what it printed.
        """


@dataclass(frozen=True)
class LocalLauncher:
    """Workers on this machine.

    Attributes:
        python: the interpreter, by default the one that runs the suite.
        cpus: logical CPUs that the worker is restricted to, by default those of the parent.
        worker: the arguments with which the interpreter runs a worker.
    """

    python: str = sys.executable
    cpus: Optional[frozenset[int]] = None
    worker: tuple[str, ...] = WORKER

    @property
    def name(self) -> str:
        return self.python

    @property
    def is_local(self) -> bool:
        return True

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, **suite_path(self.python, os.environ)}

    def adapt(self, job: Job) -> Job:
        return job

    def read(self, job: Job, line: bytes) -> Message:
        return accepted(decode_message(line), job)

    def start(self, job: Job, environment: Mapping[str, str], stderr: IO[bytes]) -> LocalWorker:
        try:
            process = subprocess.Popen(
                [*self._affinity(), self.python, *self.worker],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            program = error.filename or self.python
            raise EnvironmentProblem(f"cannot start {program}: {error.strerror}; check that it is installed") from error
        return LocalWorker(process)

    def explain(self, job: Job, code: int, output: str) -> ModelzooError:
        own = self.python == sys.executable
        hint = "run ./scripts/run once, then use .venv/bin/python" if own else "install it there"
        return explain_end(code, output, self.python, hint)

    def _affinity(self) -> list[str]:
        """The command prefix that restricts the CPUs before the interpreter allocates any memory."""
        if self.cpus is None:
            return []
        return ["taskset", "--cpu-list", ",".join(map(str, sorted(self.cpus)))]


@dataclass(frozen=True)
class LocalWorker:
    """A process of this machine, with its children."""

    process: subprocess.Popen[bytes]

    def suspend(self) -> None:
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def explain_end(code: int, output: str, where: str, hint: str) -> ModelzooError:
    """Say why a worker ended without a final message.

    Args:
        code: its exit code; a negative one is the number of a signal.
        output: what it printed.
        where: the interpreter or the image.
        hint: what to do if a module is missing.
    """
    lines = [printable(line.strip()) for line in output.splitlines() if line.strip()]
    if code < 0:
        name = signal.Signals(-code).name
        cause = " (out of memory? try a smaller --batch)" if name == "SIGKILL" else ""
        if name == "SIGILL":
            cause = " (this build of torch uses instructions that this CPU lacks)"
        return WorkerError(f"the worker process was ended by {name}{cause}")
    if any("No module named" in line for line in lines[-1:]):
        missing = lines[-1].split("No module named", 1)[1].strip()
        return EnvironmentProblem(f"{where} has no module {missing}: {hint}")
    return WorkerError(f"the worker process ended with code {code}: {lines[-1] if lines else 'no output'}")
