"""The runs of a call under load: repeats with new instances, and in each one run, or the search for the highest rate.

The instances of a repeat are started, calibrated, given to the generator, and asked what they ran. The highest rate
that meets a bound is looked for by bracketing, then by bisection.

LoadGen's rules describe the same search: "LoadGen will use a binary search to find a candidate value. It will then
verify stability by testing the value 5 times" (``inference_rules.adoc``, "LoadGen Operation",
https://github.com/mlcommons/inference_policies). Here the whole search is repeated with new instances instead, because
processes differ from each other by more than the runs of one.
"""

from __future__ import annotations

import math
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from statistics import median

import msgspec

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.machine.linux import read_throttling
from modelzoo.measure.jobs import OnEvent, Request, looks_of, start_instance
from modelzoo.records.machine import Throttling
from modelzoo.records.protocol import Preparation
from modelzoo.records.race import InstancePlace
from modelzoo.records.run import now
from modelzoo.records.serving import (
    BatchCount,
    Calibration,
    Flaw,
    GeneratorPlace,
    InstanceReport,
    InstanceUse,
    Load,
    LoadPlan,
    LoadRun,
    LoadSession,
    Ready,
    Scenario,
)
from modelzoo.results.load import RESOLUTION, SINGLE_STREAM_PERCENT, is_slow_alone, lateness, reasons
from modelzoo.serve.generator import Batching, ProcessServer, Server, poisson, serve, stream
from modelzoo.serve.places import settled
from modelzoo.setting import Setting
from modelzoo.stats.latency_bound import queries_for

CALIBRATION_SECONDS, CALIBRATION_BATCHES = 3.0, 8
"""How long full batches run on all instances before the first run, and how many each instance has at least."""
OVER = 3
"""A run is long enough for a bound if so many requests may exceed it: with none, a single one would decide."""
SERVER_SECONDS, OTHER_SECONDS = 30.0, 10.0
"""Minimum length of a run unless it was given …"""
SHOWING_SECONDS = 120.0
"""… and of one that has to show a bound: neighbouring requests wait in the same queue, so it takes several times as
many as if they were independent."""
UNBOUNDED_QUERIES = 101
"""Minimum of requests without a bound: enough for p99."""


def calibrate(server: Server, size: int, seconds: float = CALIBRATION_SECONDS) -> Calibration:
    """Keep all instances busy with full batches, and measure what one takes.

    Args:
        server: its instances are idle.
        size: requests of a batch.
        seconds: how long.

    Raises:
        WorkerError: an instance died. The others could serve without it, but that would be another measurement.
    """
    begun, samples = server.now(), []
    answered = dict.fromkeys(range(server.instances), 0)
    for instance in answered:
        server.start(instance, size)
    running, until = server.instances, begun + seconds
    ended = begun
    while running:
        for reply in server.wait(math.inf):
            running -= 1
            if reply.error is not None:
                raise WorkerError(f"instance {reply.instance} died before the first run: {reply.error}")
            ended = server.now()
            samples.append(reply.ended - reply.started)
            answered[reply.instance] += 1
            if ended < until or answered[reply.instance] < CALIBRATION_BATCHES:
                server.start(reply.instance, size)
                running += 1
    return Calibration(size, tuple(samples), size * len(samples) / (ended - begun))


def arrivals(plan: LoadPlan, rate: float | None, seed: int, capacity: float) -> Sequence[float]:
    """Return when the requests of a run arrive, in seconds from its start.

    Args:
        plan: of the server or the offline scenario.
        rate: requests per second; ``None`` offline.
        seed: beside that of the plan; another one gives another schedule.
        capacity: requests per second that the instances have answered, for the length of an offline run.
    """
    if plan.scenario is Scenario.OFFLINE or rate is None:
        least = CALIBRATION_BATCHES * plan.batch * plan.instances
        seconds = OTHER_SECONDS if plan.duration is None else plan.duration
        wanted = plan.queries if plan.queries is not None and plan.duration is None else math.ceil(capacity * seconds)
        return [0.0] * max(wanted, plan.queries or least)
    queries, seconds = _minima(plan)
    found: list[float] = poisson(rate, queries, seconds, (plan.seed, seed)).tolist()
    return found


def _minima(plan: LoadPlan) -> tuple[int, float]:
    """Requests and seconds of a run at least. If one of the two was given, the other does not matter."""
    if plan.queries is not None or plan.duration is not None:
        return plan.queries or 1, plan.duration or 0.0
    if plan.scenario is not Scenario.SERVER:
        return queries_for(OVER, SINGLE_STREAM_PERCENT / 100), OTHER_SECONDS
    bounded = queries_for(OVER, plan.bound.percentile / 100) if plan.bound is not None else UNBOUNDED_QUERIES
    return bounded, SHOWING_SECONDS if plan.bound is not None and not plan.is_search else SERVER_SECONDS


def least_seconds(plan: LoadPlan) -> float:
    """Return how long the requests of a run arrive at least."""
    queries, seconds = _minima(plan)
    return seconds if plan.rate is None else max(seconds, queries / plan.rate)


Throttled = Callable[[], Throttling | None]
"""Reads how a quota has stopped the instances so far; ``None`` if there is none."""


def measure(
    server: Server,
    plan: LoadPlan,
    rate: float | None,
    repeat: int,
    seed: int,
    calibration: Calibration,
    throttled: Throttled = lambda: None,
) -> LoadRun:
    """Put the load of ``plan`` on ``server``, and return the record of what happened, with its verdict.

    Args:
        server: its instances are idle.
        plan: what was asked for.
        rate: requests per second; ``None`` if the scenario has none.
        repeat: number of the repeat.
        seed: of its schedule, beside that of the plan.
        calibration: what full batches took.
        throttled: asked before and after it.
    """
    started, before = now(), throttled()
    if plan.scenario is Scenario.SINGLE_STREAM:
        served = stream(server, *_minima(plan))
    else:
        schedule = arrivals(plan, rate, seed, calibration.rate)
        # Offline all requests wait at the start, and there is nothing to wait for.
        wait, queue = (0.0, len(schedule)) if plan.scenario is Scenario.OFFLINE else (plan.max_wait, plan.queue)
        # In a search, a run that cannot pass any more ends; otherwise it shows by how much it fails.
        served = serve(server, schedule, Batching(plan.batch, wait, queue), plan.bound if plan.is_search else None)
    dispatcher = served.dispatcher
    batch_seconds = median(calibration.seconds) if calibration.seconds else 0.0
    run = LoadRun(
        repeat=repeat,
        rate=rate,
        seed=seed,
        started=started,
        requests=len(served.due),
        seconds=served.ended - served.begun,
        latencies=tuple(round(each, 6) for each in served.latencies()),
        rejected=served.rejected,
        # Only a schedule can be missed: all requests of the other scenarios are there when they are taken.
        lateness=lateness(served.lateness() if plan.scenario is Scenario.SERVER else (), batch_seconds),
        batches=tuple(BatchCount(size, count) for size, count in sorted(dispatcher.sizes.items())),
        padded=dispatcher.padded,
        uses=tuple(
            InstanceUse(count, busy, dispatcher.errors.get(instance))
            for instance, (count, busy) in enumerate(zip(dispatcher.batches, dispatcher.busy_seconds))
        ),
        given_up=served.given_up,
    )
    after = throttled()
    if before is not None and after is not None:
        run = replace(run, throttling=after.since(before))
    return replace(run, reasons=reasons(run, plan.bound, is_search=plan.is_search))


START = 0.7
"""The share of the capacity with which a search begins."""
STEP = 1.15
"""Factor between the first rate and the next, while all have passed or all have failed; each further step is twice as
large in logarithms …"""
WIDEST = 4
"""… up to this power of it."""
LOWEST = 0.02
"""Rates below this share of the first one are not tried."""


class Bracket(msgspec.Struct, frozen=True):
    """What is known of the highest rate.

    Attributes:
        first: the rate to try first, in requests per second.
        low: the highest rate that passed; ``None``: none has.
        high: the lowest rate that failed; ``None``: none has.
        steps: how many rates were tried before both were known.
    """

    first: float
    low: float | None = None
    high: float | None = None
    steps: int = 0

    def next(self) -> float | None:
        """Return the rate to try next; ``None`` if the answer is known, or there is none."""
        if self.low is None and self.high is None:
            return self.first
        if self.low is not None and self.high is not None:
            return None if self.high <= self.low * (1 + RESOLUTION) else math.sqrt(self.low * self.high)
        factor = math.pow(STEP, min(2 ** (self.steps - 1), WIDEST))
        if self.low is not None:
            return self.low * factor
        assert self.high is not None
        rate = self.high / factor
        return rate if rate >= LOWEST * self.first else None

    def tried(self, rate: float, *, passed: bool) -> Bracket:
        """Return what is known after a run at ``rate``."""
        is_open = self.low is None or self.high is None
        found = replace(self, steps=self.steps + is_open)
        return replace(found, low=rate) if passed else replace(found, high=rate)


MOST_LATE = 3
"""Runs in a row in which the generator was late, after which a search ends without an answer."""


Open = Callable[[int], "AbstractContextManager[tuple[Server, LoadSession]]"]
"""Starts and calibrates the instances of a repeat, given its number; they end with the context."""
OnSession = Callable[[LoadSession], None]


def runs(
    load: Load, open_session: Open, on_session: OnSession, throttled: Throttled = read_throttling
) -> Iterator[LoadRun]:
    """Yield the runs of a call, each as it ends.

    Args:
        load: what was asked for.
        open_session: starts the instances of a repeat.
        on_session: called with the instances of each repeat when they are ready.
        throttled: that of ``measure``.

    Raises:
        WorkerError: an instance died; its run was yielded before.
        ModelzooError: the instances cannot be started.
    """
    for repeat in range(load.plan.repeats):
        with open_session(repeat) as (server, session):
            on_session(session)
            plan, calibration = load.plan, session.calibration
            measured = partial(measure, server, plan, repeat=repeat, calibration=calibration, throttled=throttled)
            if plan.is_search:
                found = _search(plan, START * calibration.rate, repeat, measured)
            else:
                found = iter([measured(rate=plan.rate, seed=repeat)])
            for run in found:
                yield run
                for number, use in enumerate(run.uses):
                    if use.error is not None:
                        raise WorkerError(f"instance {number} died: {use.error}")


def _search(plan: LoadPlan, first: float, repeat: int, measured: Callable[..., LoadRun]) -> Iterator[LoadRun]:
    """The runs of one search.

    All of them have the same gaps between arrivals, stretched by the rate (common random numbers), so that the rates of
    a repeat differ by nothing else; other repeats have others. A run of which only the generator was at fault is
    repeated with another schedule. Whatever fails for another reason as well counts as failed, so a generator that is
    late can only make the answer lower.
    """
    bracket, late, seed = Bracket(first), 0, repeat
    while (rate := bracket.next()) is not None:
        run = measured(rate=rate, seed=seed)
        yield run
        flaws = {reason.flaw for reason in run.reasons}
        late = late + 1 if flaws == {Flaw.LATE} else 0
        if late >= MOST_LATE or Flaw.TOO_FEW in flaws or Flaw.DIED in flaws:
            return
        if plan.bound is not None and Flaw.BOUND in flaws and is_slow_alone(run, plan.bound):
            return
        if late:
            seed += plan.repeats
        else:
            bracket = bracket.tried(rate, passed=run.is_valid)


class Deployment(msgspec.Struct, frozen=True):
    """What is run, and where.

    Attributes:
        request: the workload with its only setting.
        prepared: the setting as resolved.
        places: the CPUs of each instance.
        generator: those of the generator.
        on_event: called with the progress of the instances.
    """

    request: Request
    prepared: Preparation
    places: tuple[InstancePlace, ...]
    generator: GeneratorPlace
    on_event: OnEvent


def fixed_size(setting: Setting, batch: int) -> int | None:
    """The only batch size that an instance of ``setting`` with this ``batch`` can run; ``None``: it runs any.

    A torch module in eager mode runs whatever it is given. What was compiled, traced, captured or exported has the
    shapes of the setting's batch, so smaller batches are padded to it.
    """
    return None if setting.engine == "torch" and setting.mode == "eager" else batch


@contextmanager
def open_session(
    site: Deployment, load: Load, repeat: int, on_end: OnSession, *, extras: bool
) -> Iterator[tuple[Server, LoadSession]]:
    """Start all instances and calibrate them, and yield what drives them and what is known of them.

    When the block ends, they report and end.

    Args:
        site: what is run, and where.
        load: what was asked for.
        repeat: its number.
        on_end: called with the reports of the instances; not if the block failed.
        extras: have the first instance audit itself in full and report everything.

    Raises:
        ModelzooError: an instance cannot be started.
        WorkerError: one died.
    """
    batch = load.plan.batch
    sizes = tuple(range(1, batch)) if load.fixed_size is None else ()
    with ExitStack() as stack:
        watch = stack.enter_context(select.epoll())
        instances = [
            stack.enter_context(start_instance(site.request, 0, site.prepared, place, site.on_event, repeat, sizes))
            for place in site.places
        ]
        started = now()
        for each in instances:
            each.wait(Ready)
        place = stack.enter_context(settled(site.generator))
        server = ProcessServer(instances, load.fixed_size, watch, polls=place.polls)
        calibration = calibrate(server, batch)
        cpus = tuple(place.cpus for place in site.places)
        session = LoadSession(repeat, started, cpus, place, calibration)
        yield server, session
        for number, each in enumerate(instances):
            each.send("finish", looks_of(site.request, number, extras=extras), last=True)
        on_end(replace(session, reports=tuple(each.wait(InstanceReport) for each in instances)))
