"""Measurements under load, made in virtual time on a machine that does not exist."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fake_runs import MACHINE

from modelzoo.frozen import replace
from modelzoo.records.machine import Core, Topology
from modelzoo.records.run import Result, SettingRequest
from modelzoo.records.serving import GeneratorPlace, LatencyBound, Load, LoadPlan, LoadSession, Scenario
from modelzoo.serve import search
from modelzoo.serve.generator import Reply, Server
from modelzoo.serve.search import calibrate
from modelzoo.setting import Setting

BOUND = LatencyBound(99.0, 0.05)


class VirtualServer:
    """Instances that take a known time for each batch. Its clock stands still except in ``wait``.

    Args:
        dies: whether an instance dies with a batch, by its own number and that of the batch, from 0.
    """

    def __init__(
        self,
        instances: int,
        service: Callable[[int], float],
        fixed_size: int | None = None,
        dies: Callable[[int, int], bool] = lambda instance, batch: False,
    ) -> None:
        self.instances, self._service, self.fixed_size = instances, service, fixed_size
        self._dies, self._batches = dies, itertools.count()
        self._now = 0.0
        self._running: list[tuple[float, int, float]] = []

    def now(self) -> float:
        return self._now

    def start(self, instance: int, size: int) -> None:
        heapq.heappush(self._running, (self._now + self._service(size), instance, self._now))

    def wait(self, until: float) -> Sequence[Reply]:
        """Move the clock to the next reply or to ``until``."""
        if not self._running or self._running[0][0] > until:
            if math.isinf(until):
                raise RuntimeError("nothing runs, and nothing is due")
            self._now = max(self._now, until)
            return ()
        self._now = max(self._now, self._running[0][0])
        found = []
        while self._running and self._running[0][0] <= self._now:
            ended, instance, started = heapq.heappop(self._running)
            error = "ended by SIGKILL" if self._dies(instance, next(self._batches)) else None
            found.append(Reply(instance, started, ended, error))
        return found


def plan(**changes: object) -> LoadPlan:
    """One instance that takes one request at a time."""
    usual = LoadPlan(Scenario.SERVER, 1, 2, 1, 0.0, 1000, rate=50.0, bound=BOUND)
    return replace(usual, **changes)


def load(**changes: object) -> Load:
    """What was asked for, before anything has run."""
    topology = Topology(tuple(Core((cpu,), (cpu,), 0, 0) for cpu in range(4)))
    return Load("toy", "items", MACHINE, topology, plan(**changes))


def sessions(found: Load, seconds: float = 0.01, slower: float = 0.0) -> search.Open:
    """Instances in virtual time that take ``seconds`` for a request, or 5 % more; repeats are ever ``slower``."""
    draw = random.Random(4)

    @contextmanager
    def opened(repeat: int) -> Iterator[tuple[Server, LoadSession]]:
        def service(size: int) -> float:
            base = seconds * (0.5 + 0.5 * size) * (1 + slower * repeat)
            return base * (1 + 0.05 * draw.random())

        server = VirtualServer(found.plan.instances, service, found.fixed_size)
        calibration = calibrate(server, found.plan.batch, 1.0)
        cpus = tuple((2 * number, 2 * number + 1) for number in range(found.plan.instances))
        session = LoadSession(repeat, "2026-11-22T20:00:00+00:00", cpus, GeneratorPlace((3,), True), calibration)
        yield server, session

    return opened


def measured(found: Load, **how: float) -> Load:
    """The same with all of its runs."""
    done = [found]

    def on_session(session: LoadSession) -> None:
        done[0] = done[0].plus_session(session)

    for run in search.runs(found, sessions(found, **how), on_session, lambda: None):
        done[0] = done[0].plus(run)
    return replace(done[0], is_complete=True)


def result(found: Load) -> Result:
    """A stored result that holds it."""
    command = ("/bin/modelzoo", "load", "toy")
    return Result(
        command, "2026-11-22T20:00:00+00:00", (SettingRequest("toy", Setting(batch=1, threads=2)),), payload=found
    )
