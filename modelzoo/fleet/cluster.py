"""A Dask cluster as seen by the call that uses it: its hosts, the tasks that they are given, and what is lost.

The user starts a scheduler, and one worker on every host (docs/scale.md). Tasks need ``host=1`` of a worker's
resources, so that a host does one thing at a time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from modelzoo.errors import EnvironmentProblem, ModelzooError, first_line
from modelzoo.fleet import task
from modelzoo.fleet.shards import facts_differ
from modelzoo.fleet.task import Host, Judged, Measured
from modelzoo.frozen import replace
from modelzoo.records.fleet import Shard, ShardedCall, ShardPlan

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
            self._submit(task.measure, words, directory, workers=[each.address], allow_other_workers=False): each
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
        tasks = {self._submit(task.judge, what, plan, shard, retries=RETRIES): shard for shard in shards}
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
                self._client.run(task.end, self._call, on_error="ignore")

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
            differences = facts_differ(_versions(versions["client"]), _versions(versions["workers"][address]))
            if differences:
                raise EnvironmentProblem(f"the Dask worker {worker['name']} has {'; '.join(differences)}")
            if worker["nthreads"] != 1 or worker["resources"].get("host") != 1:
                raise EnvironmentProblem(f"the Dask worker {worker['name']} was not started with '{start}'")
        here = task.about()
        found = self._client.run(task.about, workers=list(workers), on_error="return")
        count = Counter(host.name for host in found.values() if isinstance(host, Host))
        members = []
        for address, host in found.items():
            if not isinstance(host, Host):
                raise EnvironmentProblem(f"the Dask worker {workers[address]['name']} cannot import modelzoo: {host}")
            name = host.name if count[host.name] == 1 else f"{host.name} ({workers[address]['name']})"
            differences = facts_differ(here.facts, host.facts)
            if differences:
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
