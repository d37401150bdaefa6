"""A Dask cluster: its hosts, the tasks that they are given, what a Dask worker runs of these, and what is lost.

The user starts a scheduler, and one worker on every host (docs/scale.md). Tasks need ``host=1`` of a worker's
resources, so that a host does one thing at a time. A worker does not import torch: processes of their own do the work.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from modelzoo import __version__
from modelzoo.errors import EnvironmentProblem, ModelzooError, WorkerError, first_line
from modelzoo.files import files_sha256
from modelzoo.fleet.shards import facts_differ, open_shards
from modelzoo.formatting import DIGEST_DIGITS
from modelzoo.frozen import replace
from modelzoo.measure.jobs import Shards
from modelzoo.measure.launcher import start_guarded
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.fleet import Shard, ShardedCall, ShardPlan, ShardResult
from modelzoo.workload.discovery import PACKAGE

# What a worker runs on its host

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
    """How a command ended on a host: its exit code, its result's file, and why it could not measure all of it.

    What does not apply is empty.
    """

    code: int
    result: bytes = b""
    problem: str = ""


Judged = tuple[ShardResult, tuple[Exhibit, ...]]
"""A shard that was judged: the comparison of each item, and what to write about some of them."""

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
        return shards.judge(shard), tuple(exhibits)
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


# The call that uses it

CONNECT_SECONDS = 15.0
"""How long the scheduler may take to answer, and the first worker to come."""
LOST_SECONDS = 60.0
"""A call ends if there is no worker for so long."""
LOOK_SECONDS, CHECK_SECONDS = 0.1, 2.0
"""Seconds between two looks at the tasks, which ask nobody, and at the list of the workers, which the scheduler has."""
GATHER_SECONDS = 10.0
"""How long a result may take to arrive."""
RETRIES = 2
"""How often a shard that failed is given to a host again. ``distributed.scheduler.allowed-failures`` limits how many
workers may be lost with it."""
RESOURCES = {"host": 1}
WORKER = "dask worker {} --nworkers 1 --nthreads 1 --resources host=1 --no-dashboard"
T = TypeVar("T")


class Cluster:
    """The workers of a scheduler. Use ``connected``, which ends what was begun.

    Attributes:
        members: the hosts that were there at first, by name; with its own name if several workers are on one.
    """

    def __init__(self, client: Any, address: str, kept: str) -> None:
        self._client, self._address, self._kept = client, address, kept
        self._call = uuid.uuid4().hex
        self._lost = f"the Dask scheduler at {address} is lost; {kept}"
        self.members = self._members()

    def measure(self, words: tuple[str, ...], directory: str) -> Iterator[tuple[Host, Measured]]:
        """Run a command on every host at the same time; yield how it ended there, as it ends.

        A task that is bound to a worker would wait for ever if that were lost, so it is given up then.
        """
        tasks = {
            self._submit(measure, words, directory, workers=[each.address], allow_other_workers=False): each
            for each in self.members
        }
        for member, measured in self._arrivals(tasks, lambda member, workers: member.address not in workers):
            yield member, measured or Measured(2, problem="the Dask worker is lost")

    def judge(self, what: ShardedCall, plan: ShardPlan, shards: Sequence[Shard]) -> Iterator[Judged]:
        """Judge shards on whichever hosts are free; yield them as they are finished.

        Raises:
            EnvironmentProblem: a host would judge otherwise; no host is left, or the scheduler is lost.
            ModelzooError: a shard could not be judged on any host that was tried.
        """
        tasks = {self._submit(judge, what, plan, shard, retries=RETRIES): shard for shard in shards}
        alone_since = time.monotonic()

        def nobody(shard: Shard, workers: Mapping[str, Any]) -> bool:
            nonlocal alone_since
            alone_since = time.monotonic() if workers else alone_since
            return time.monotonic() - alone_since > LOST_SECONDS

        for _, found in self._arrivals(tasks, nobody):
            if found is None:
                raise EnvironmentProblem(f"no Dask worker has been left for {LOST_SECONDS:g} s; {self._kept}")
            if isinstance(found, str):
                raise EnvironmentProblem(f"host {found}")
            yield found

    def end(self) -> None:
        """End whatever is still being done for this call."""
        if self._client.status == "running":
            with suppress(Exception):  # the scheduler or a worker is lost just now
                self._client.cancel(list(self._client.futures), force=True)
            with suppress(Exception):
                self._client.run(end, self._call, on_error="ignore")

    def _submit(self, function: Callable[..., T], *args: object, **options: object) -> Any:
        return self._client.submit(function, self._call, *args, resources=RESOURCES, pure=False, **options)

    def _arrivals(
        self, tasks: Mapping[Any, T], is_lost: Callable[[T, Mapping[str, Any]], bool]
    ) -> Iterator[tuple[T, Any]]:
        """Yield each task with what it returned as it ends, or with ``None`` when it is lost.

        Raises:
            EnvironmentProblem: the scheduler is lost.
            ModelzooError: a task has failed.
        """
        waiting, checked = dict(tasks), time.monotonic()
        while waiting:
            for future in [each for each in waiting if each.done()]:
                with suppress(asyncio.TimeoutError):  # its worker was lost with the result, so that it runs once more
                    value = self._value(future)
                    yield waiting.pop(future), value
            if self._client.status != "running":
                raise EnvironmentProblem(self._lost)
            if waiting and time.monotonic() - checked > CHECK_SECONDS:
                workers, checked = self._workers(), time.monotonic()
                for future in [each for each, subject in waiting.items() if is_lost(subject, workers)]:
                    yield waiting.pop(future), None
            time.sleep(LOOK_SECONDS)

    def _value(self, future: Any) -> Any:
        """What a task returned."""
        from distributed import CancelledError
        from distributed.comm import CommClosedError

        try:
            problem = future.exception(timeout=GATHER_SECONDS)
            if problem is None:
                return future.result(timeout=GATHER_SECONDS)
        except (CancelledError, CommClosedError) as error:
            raise EnvironmentProblem(self._lost) from error
        text = str(problem).partition("Inspecting worker logs")[0].split("\n")[0].strip() or type(problem).__name__
        raise ModelzooError(f"{text}; {self._kept}") from problem

    def _workers(self) -> Mapping[str, Any]:
        try:
            workers: Mapping[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        except OSError as error:
            raise EnvironmentProblem(self._lost) from error
        return workers

    def _members(self) -> tuple[Host, ...]:
        """The workers, after a check that all of them run the same code as this process, one task at a time.

        Raises:
            EnvironmentProblem: there is none, or one does not.
        """
        start = WORKER.format(self._address)
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except asyncio.TimeoutError as error:
            raise EnvironmentProblem(
                f"no Dask worker has come to {self._address}: start one on every host with '{start}'"
            ) from error
        workers, versions = self._workers(), self._client.get_versions()
        for address, worker in workers.items():
            if differences := facts_differ(*map(_versions, (versions["client"], versions["workers"][address]))):
                raise EnvironmentProblem(f"the Dask worker {worker['name']} has {'; '.join(differences)}")
            if worker["nthreads"] != 1 or worker["resources"].get("host") != 1:
                raise EnvironmentProblem(f"the Dask worker {worker['name']} was not started with '{start}'")
        here = about()
        found = self._client.run(about, workers=list(workers), on_error="return")
        count = Counter(host.name for host in found.values() if isinstance(host, Host))
        members = []
        for address, host in found.items():
            if not isinstance(host, Host):
                raise EnvironmentProblem(f"the Dask worker {workers[address]['name']} cannot import modelzoo: {host}")
            name = host.name if count[host.name] == 1 else f"{host.name} ({workers[address]['name']})"
            if differences := facts_differ(here.facts, host.facts):
                raise EnvironmentProblem(f"host {name} has {'; '.join(differences)}; install the same everywhere")
            members.append(replace(host, name=name, address=address))
        return tuple(sorted(members, key=lambda member: member.name))


@contextmanager
def connected(address: str, kept: str) -> Iterator[Cluster]:
    """Yield the cluster of the scheduler at ``address``; whatever is still running at the end of the block is ended.

    TLS follows Dask's configuration.

    Args:
        address: ``tcp://HOST:PORT`` or ``tls://HOST:PORT``.
        kept: what is kept if the scheduler is lost, and what to do then; the end of an error.

    Raises:
        EnvironmentProblem: Dask is not installed, nobody answers, or a worker runs something else.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise EnvironmentProblem(
            f"'modelzoo fleet' needs Dask ({error}): run pip install distributed, or in a checkout pip "
            "install -r requirements/lock-fleet.txt"
        ) from error
    for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # a traceback for each heartbeat of a scheduler that is lost
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:  # Dask raises OSError, ValueError, TypeError … for an address and for certificates
        reason = first_line(error)
        raise EnvironmentProblem(f"no Dask scheduler answers at {address}: {reason}") from error
    with ExitStack() as stack:
        stack.callback(client.close, timeout=2)
        cluster = Cluster(client, address, kept)
        stack.callback(cluster.end)
        yield cluster


def _versions(found: Mapping[str, Any]) -> dict[str, str]:
    packages = found["packages"]
    python = ".".join(str(packages["python"]).split(".")[:2])
    return {"Python": python, **{name: str(packages[name]) for name in ("dask", "distributed")}}


def is_open(address: str) -> bool:
    """Whether whoever can reach ``address`` can use the cluster: it is not on loopback, and has no TLS."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    host = parts.hostname or ""
    with suppress(ValueError):
        return parts.scheme != "tls" and not ipaddress.ip_address(host).is_loopback
    return parts.scheme != "tls" and host != "localhost"
