"""How worker processes are started, suspended and ended; on this machine, in this Python interpreter or in another one.

``modelzoo.measure.container`` has the launcher that starts them in containers.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, ClassVar

import msgspec

from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError, WorkerError
from modelzoo.formatting import printable
from modelzoo.machine.linux import allowed_cpus, current_cpus, format_cpu_list
from modelzoo.measure.guardian import GROUP, GUARDIAN
from modelzoo.records.protocol import Job, Message, decode_message, encode_job
from modelzoo.workload.discovery import PACKAGE, import_root, installation_advice

WORKER = ("-m", "modelzoo.measure.worker")
"""The arguments with which an interpreter runs a worker."""
REQUIRED = ("torch", "msgspec", "numpy", "psutil", "safetensors", "platformdirs", "threadpoolctl", "packaging")
"""What every worker imports."""
OLDEST = (3, 10)
_ADVICE = "name an environment such as envs/torch-2.9.1/bin/python, which 'scripts/torch-env --unpinned 2.9.1' makes"
_PROBE_SECONDS = 60
# It must run on any Python 3, and finds modules without importing them.
_PROBE = """
import importlib.util, json, sys
found = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
suite = importlib.util.find_spec("modelzoo")
print(json.dumps([list(sys.version_info[:2]), found, suite.origin if suite else None]))
"""


class LocalLauncher(msgspec.Struct, frozen=True):
    """Workers on this machine. Equal launchers start equal workers.

    Attributes:
        is_local: whether its workers see the files of this machine.
        python: the interpreter, by default the one that runs the suite.
        cpus: logical CPUs that the worker is restricted to, by default those of the parent.
        worker: the arguments with which the interpreter runs a worker.
    """

    is_local: ClassVar[bool] = True
    python: str = sys.executable
    cpus: frozenset[int] | None = None
    worker: tuple[str, ...] = WORKER

    @property
    def name(self) -> str:
        """Its name in errors."""
        return self.python

    def environment(self) -> Mapping[str, str]:
        """The environment variables that a worker inherits."""
        return {**os.environ, **suite_path(self.python, os.environ)}

    def write(self, job: Job) -> bytes:
        """Return the job as one line of JSON, without the line break, in terms of the worker.

        Raises:
            UnicodeEncodeError: a path in it is not UTF-8.
        """
        return encode_job(job)

    def read(self, job: Job, line: bytes) -> Message:
        """Return the message of a worker with ``job``, in terms of this machine.

        Raises:
            msgspec.DecodeError: it is no message.
            WorkerError: it was not asked for this.
        """
        return decode_message(line)

    def check(self, job: Job, answer: object) -> None:
        """Check what a method of a worker with ``job`` has returned.

        Raises:
            WorkerError: it was not asked for this.
        """

    def start(self, job: Job, environment: Mapping[str, str], stderr: IO[bytes]) -> LocalWorker:
        """Start a worker in a session of its own, so that Ctrl-C reaches the parent alone.

        Args:
            job: the job that it will be given, not yet adapted.
            environment: all of the worker's environment variables.
            stderr: the file that receives whatever libraries print.

        Raises:
            ModelzooError: it cannot be started.
        """
        cpus = allowed_cpus() if self.cpus is None else self.cpus
        command = [self.python, *self.worker]
        # Before the interpreter allocates any memory; also if a library has bound this thread, whose CPUs the worker
        # would inherit.
        if self.cpus is not None or current_cpus() != cpus:
            command = ["taskset", "--cpu-list", format_cpu_list(cpus), *command]
        try:
            return start_guarded(command, environment, stderr)
        except OSError as error:
            program = error.filename or self.python
            raise EnvironmentProblem(f"cannot start {program}: {error.strerror}; check that it is installed") from error

    def explain(self, job: Job, code: int, output: str) -> ModelzooError:
        """Say why a worker with ``job`` ended without a final message; the rest as in ``explain_end``."""
        own = self.python == sys.executable
        hint = installation_advice(missing_module(output) or "") if own else "install it there"
        return explain_end(code, output, self.python, hint)


class LocalWorker(msgspec.Struct, frozen=True):
    """A process of this machine, with its children: a process group that has its id."""

    process: subprocess.Popen[bytes]

    def suspend(self) -> None:
        """Stop it, with all of its threads, until ``resume``."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on; does nothing if it has ended."""
        self._send(signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send a signal to it alone; does nothing if it has ended."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def wait(self) -> int:
        """Wait until it has ended, end the processes that it left, and return its exit code."""
        if self.process.returncode is None:
            # Who ignores SIGCHLD learns of no end, and macOS has this function in Python 3.13 only.
            with suppress(ChildProcessError, AttributeError):
                os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
                self._send(signal.SIGKILL)
            GUARDIAN.release(GROUP, self.process.pid)
        return self.process.wait()

    def kill(self) -> None:
        """End it with its processes, whatever it is doing; does nothing if ``wait`` has returned."""
        self._send(signal.SIGKILL)
        self.wait()

    def _send(self, number: int) -> None:
        # Once the process has been waited for, another group may have its id.
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):  # macOS refuses signals to those that have ended
                os.killpg(self.process.pid, number)


def start_guarded(command: Sequence[str], environment: Mapping[str, str], stderr: IO[bytes]) -> LocalWorker:
    """Start a program in a session of its own, which the guardian ends if this process is killed.

    Raises:
        OSError: it cannot be started.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=dict(environment),
        start_new_session=True,
    )
    worker = LocalWorker(process)
    try:
        GUARDIAN.guard(GROUP, process.pid)
    except BaseException:
        worker.kill()
        raise
    return worker


def missing_module(output: str) -> str | None:
    """The module whose import ended a process, by what it printed; ``None`` if it ended otherwise."""
    found = re.search(r"No module named '?([\w.]+)'?[^\n]*\s*$", output)
    return None if found is None else found[1]


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
    if (missing := missing_module(output)) is not None:
        return EnvironmentProblem(f"{where} has no module {missing!r}: {hint}")
    return WorkerError(f"the worker process ended with code {code}: {lines[-1] if lines else 'no output'}")


Interpreter = tuple[tuple[int, int], tuple[str, ...], str | None]
"""What an interpreter says about itself: its version of Python, major and minor; those of ``REQUIRED`` that it has; the
path of the suite's package that it finds by itself, ``None`` if it finds none."""


def find_interpreter(name: str) -> str:
    """Return the absolute path of the interpreter that ``python=NAME`` means, after checking that it can run workers.

    Raises:
        UsageError: it does not exist, is not an interpreter, or lacks what a worker needs.
    """
    program = shutil.which(name) if os.sep not in name else None
    # A link stays a link: an interpreter finds its environment by the path that it was called by.
    path = Path(program or name).expanduser().absolute()
    if path.is_dir():
        raise UsageError(f"python={name} is a directory; name the interpreter in it, for example {name}/bin/python")
    if not path.is_file():
        raise UsageError(f"python={name} does not exist; {_ADVICE}")
    version, modules, _ = _ask(str(path))
    if version < OLDEST:
        found, oldest = (".".join(map(str, each)) for each in (version, OLDEST))
        raise UsageError(f"python={name} is Python {found}; the suite needs {oldest} or newer")
    missing = [module for module in REQUIRED if module not in modules]
    if missing:
        raise UsageError(f"python={name} lacks {', '.join(missing)}; {_ADVICE}")
    return str(path)


def suite_path(python: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variable with which ``python`` imports this suite; none if it would find the same anyway.

    Raises:
        EnvironmentProblem: the cache cannot be written to.
    """
    if python != sys.executable:
        _, _, suite = _ask(python)
        if suite is not None and Path(suite).resolve().parent == PACKAGE:
            return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(import_root()), environ.get("PYTHONPATH")]))}


@functools.cache
def _ask(python: str) -> Interpreter:
    try:
        done = subprocess.run(
            [python, "-c", _PROBE, *REQUIRED], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
        about: Interpreter = msgspec.json.decode((done.stdout.splitlines() or [""])[-1], type=Interpreter)
        return about
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no answer within {_PROBE_SECONDS} s"
        raise UsageError(f"python={python} cannot be run as an interpreter: {reason}; {_ADVICE}") from error
    except (ValueError, msgspec.DecodeError) as error:
        raise UsageError(f"python={python} is not a Python interpreter; {_ADVICE}") from error
