"""One run under load, from its plan to its record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.run import now
from modelzoo.records.serving import BatchCount, Calibration, InstanceUse, LoadPlan, LoadRun, Scenario
from modelzoo.results.load import SINGLE_STREAM_PERCENT, lateness, reasons
from modelzoo.serve.generator import Batching, GiveUp, poisson, serve, stream
from modelzoo.serve.servers import Server
from modelzoo.stats.latency_bound import most_over, queries_for

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
    bounded = queries_for(OVER, plan.bound.percentile / 100) if plan.bound is not None else UNBOUNDED_QUERIES
    return bounded, SHOWING_SECONDS if plan.bound is not None and not plan.is_search else SERVER_SECONDS


def least_seconds(plan: LoadPlan) -> float:
    """Return how long the requests of a run arrive at least."""
    if plan.scenario is not Scenario.SERVER:
        return plan.duration or (OTHER_SECONDS if plan.queries is None else 0.0)
    queries, seconds = _minima(plan)
    return seconds if plan.rate is None else max(seconds, queries / plan.rate)


def measure(
    server: Server, plan: LoadPlan, rate: float | None, repeat: int, seed: int, calibration: Calibration
) -> LoadRun:
    """Put the load of ``plan`` on ``server``, and return the record of what happened, with its verdict.

    Args:
        server: its instances are idle.
        plan: what was asked for.
        rate: requests per second; ``None`` if the scenario has none.
        repeat: number of the repeat.
        seed: of its schedule, beside that of the plan.
        calibration: what full batches took.
    """
    started = now()
    if plan.scenario is Scenario.SINGLE_STREAM:
        queries, seconds = plan.queries or 1, plan.duration or 0.0
        if plan.queries is None and plan.duration is None:
            queries, seconds = queries_for(OVER, SINGLE_STREAM_PERCENT / 100), OTHER_SECONDS
        served = stream(server, queries, seconds)
    else:
        schedule = arrivals(plan, rate, seed, calibration.rate)
        # Offline all requests wait at the start, and there is nothing to wait for.
        wait, queue = (0.0, len(schedule)) if plan.scenario is Scenario.OFFLINE else (plan.max_wait, plan.queue)
        # In a search, a run that cannot pass any more ends; otherwise it shows by how much it fails.
        bound = plan.bound if plan.is_search else None
        over = None if bound is None else most_over(len(schedule), bound.percentile / 100)
        give_up = None if bound is None or over is None else GiveUp(bound.seconds, over)
        served = serve(server, schedule, Batching(plan.batch, wait, queue), give_up)
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
    return replace(run, reasons=reasons(run, plan.bound, is_search=plan.is_search))
