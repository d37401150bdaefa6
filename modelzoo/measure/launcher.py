"""Start worker processes with a given interpreter, on given CPUs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Optional, Protocol

from modelzoo.errors import EnvironmentProblem

WORKER = ("-m", "modelzoo.measure.worker")
"""The arguments with which an interpreter runs a worker."""


class Launcher(Protocol):
    """Starts worker processes. Jobs go to a worker's standard input, messages come from its standard output."""

    @property
    def name(self) -> str:
        """Its name in errors."""

    def start(self, environment: Mapping[str, str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start one worker in a session of its own, so that Ctrl-C reaches the parent alone.

        Args:
            environment: all of the worker's environment variables.
            stderr: the file that receives whatever libraries print.

        Raises:
            EnvironmentProblem: it cannot be started.
        """

    def suspend(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a worker that ``start`` returned, with all of its threads, until ``resume``."""

    def resume(self, process: subprocess.Popen[bytes]) -> None:
        """Let a suspended worker go on; does nothing if it has ended."""


@dataclass(frozen=True)
class LocalLauncher:
    """Workers on this machine.

    Attributes:
        python: the interpreter, by default the one that runs the suite.
        cpus: logical CPUs that the worker is restricted to, by default those of the parent.
    """

    python: str = sys.executable
    cpus: Optional[frozenset[int]] = None

    @property
    def name(self) -> str:
        return self.python

    def start(self, environment: Mapping[str, str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*self._affinity(), self.python, *WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            program = error.filename or self.python
            raise EnvironmentProblem(f"cannot start {program}: {error.strerror}; check that it is installed") from error

    def suspend(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGSTOP)

    def resume(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGCONT)

    def _affinity(self) -> list[str]:
        """The command prefix that restricts the CPUs before the interpreter allocates any memory."""
        if self.cpus is None:
            return []
        return ["taskset", "--cpu-list", ",".join(map(str, sorted(self.cpus)))]
