"""What a Dask worker runs on its host. It does not import torch: processes of their own do the work."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from modelzoo import __version__
from modelzoo.errors import EnvironmentProblem, ModelzooError, WorkerError
from modelzoo.files import files_sha256
from modelzoo.fleet.shards import facts_differ, open_shards
from modelzoo.formatting import DIGEST_DIGITS
from modelzoo.measure.jobs import Shards
from modelzoo.measure.launcher import start_guarded
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.fleet import Shard, ShardedCall, ShardPlan, ShardResult
from modelzoo.workload.discovery import PACKAGE

PREFIXES = ("modelzoo: error: ", "modelzoo: interrupted")
"""The last line of a command that could not do all of it begins so."""
LONGEST_TICK = 0.5
"""Seconds; a Dask worker that wakes up more often takes time from what it times."""


class Host(msgspec.Struct, frozen=True):
    """What must be equal on all hosts, and how the host is called.

    Attributes:
        name: of the machine.
        facts: by name.
        is_slow: its Dask worker wakes up more often than an idle one needs to.
        address: of its Dask worker.
    """

    name: str
    facts: dict[str, str]
    is_slow: bool
    address: str = ""


class Measured(msgspec.Struct, frozen=True):
    """How a command ended on a host.

    Attributes:
        code: its exit code.
        result: the result's file; empty if it wrote none.
        problem: why it could not measure all of it; empty if it did.
    """

    code: int
    result: bytes = b""
    problem: str = ""


class Judged(msgspec.Struct, frozen=True):
    """A shard that was judged: the comparison of each item, and what to write about some of them."""

    result: ShardResult
    exhibits: tuple[Exhibit, ...] = ()


_ended: set[str] = set()
_end: Callable[[], None] = lambda: None  # noqa: E731
_held: tuple[ShardedCall, Shards, list[Exhibit], ExitStack] | None = None


def about() -> Host:
    """Describe this host."""
    import dask
    import distributed  # noqa: F401 - fills in Dask's configuration
    from dask.utils import parse_timedelta

    code = files_sha256(PACKAGE, PACKAGE.rglob("*.py"))[:DIGEST_DIGITS]
    facts = {"modelzoo": __version__, "source code of modelzoo": code}
    tick = parse_timedelta(dask.config.get("distributed.admin.tick.interval"))
    return Host(socket.gethostname(), facts, is_slow=tick < LONGEST_TICK)


def measure(call: str, words: tuple[str, ...], directory: str) -> Measured:
    """Run ``modelzoo WORDS`` in a process of its own.

    Args:
        call: names the call that wants it, see ``end``.
        words: without the file of the result.
        directory: where it runs, so that relative paths mean the same on all hosts.
    """
    global _end
    _use_own_environment()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as stderr:
        path = Path(folder, "result.json")
        # It waits for a line, so that it ends with this process if that is killed before the guardian knows of it.
        command = ["sh", "-c", 'read -r line && exec "$@"', "sh", sys.executable, "-m", "modelzoo", *words]
        command += ["--json", str(path)]
        try:
            os.chdir(directory)
            worker = start_guarded(command, os.environ, stderr)
        except OSError as error:
            return Measured(2, problem=f"{error.filename}: {error.strerror}")
        _end = worker.process.terminate  # as Ctrl-C does: it ends its own processes
        if call in _ended:
            worker.process.terminate()
        assert worker.process.stdout is not None and worker.process.stdin is not None
        with suppress(BrokenPipeError), worker.process.stdin, worker.process.stdout:
            worker.process.stdin.write(b"\n")
            worker.process.stdin.flush()
            worker.process.stdout.read()
        code = worker.wait()
        stderr.seek(0)
        last = (stderr.read().decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        problem = ""
        if last.startswith(PREFIXES) or code not in (0, 1, 2):
            problem = last.removeprefix(PREFIXES[0])
        return Measured(code, path.read_bytes() if path.exists() else b"", problem)


def judge(call: str, what: ShardedCall, plan: ShardPlan, shard: Shard) -> Judged | str:
    """Judge one shard. The worker that has the models stays for further shards, until ``end``.

    Args:
        call: names the call that wants it, see ``end``.
        plan: of the client, which this host must share.

    Returns:
        What was found, or why this host cannot do what others do, with its name; another try would not help.

    Raises:
        WorkerError: the worker died; another one may judge the shard.
    """
    try:
        shards, exhibits = _shards(call, what)
        if shards.plan != plan:
            differences = facts_differ(plan.facts, shards.plan.facts) or ["other shards"]
            return f"{socket.gethostname()}: it would judge otherwise ({'; '.join(differences[:3])})"
        exhibits.clear()
        return Judged(shards.judge(shard), tuple(exhibits))
    except WorkerError:
        _close()
        raise
    except ModelzooError as error:
        _close()
        return f"{socket.gethostname()}: {error}"


def end(call: str) -> None:
    """End what runs on this host for a call that needs no more of it, whatever it is doing."""
    _ended.add(call)
    _end()


def _shards(call: str, what: ShardedCall) -> tuple[Shards, list[Exhibit]]:
    """The worker that judges ``what``: that of the last shard, or a new one."""
    global _held, _end
    if call in _ended:
        raise EnvironmentProblem("the call has ended")
    if _held is None or _held[0] != what:
        _close()
        _use_own_environment()
        exhibits: list[Exhibit] = []
        opened = ExitStack()
        shards = opened.enter_context(open_shards(what, exhibits.append))
        _held, _end = (what, shards, exhibits, opened), _close
    return _held[1:3]


def _close() -> None:
    global _held
    held, _held = _held, None
    if held is not None:
        held[3].close()


def _use_own_environment() -> None:
    """Take back the variables that Dask's nanny set for its worker: they limit threads and tune the allocator.

    The nanny leaves alone what its user had set, so only its own values are removed.
    """
    import dask

    own = {**dask.config.get("distributed.nanny.pre-spawn-environ", {}), "PYTHONHASHSEED": "6640"}
    for name, value in own.items():
        if os.environ.get(name) == str(value):
            del os.environ[name]
