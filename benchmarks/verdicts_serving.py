"""What throughput, load, the fleet and comparisons within an hour promise, replayed on simulated data.

``PROMISES`` are replayed by benchmarks/verdicts.py. The verdicts come from the functions that the commands call. The
simulations lie where a verdict has to be careful: a percentile on its bound, hosts that are equal.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import NormalDist

import common  # noqa: F401 - puts the checkout on the path
import numpy as np
from numpy.typing import NDArray
from promises import Bound, Counted, Promise
from queueing import lindley

from modelzoo import stats
from modelzoo.comparison.estimate import ratio
from modelzoo.fleet.hosts import host_ratios
from modelzoo.frozen import replace
from modelzoo.machine.facts import read_machine
from modelzoo.records.load import Flaw, InvalidReason, Lateness, Load, LoadPlan, LoadRun, Scenario
from modelzoo.records.machine import Core, Machine, Topology
from modelzoo.records.race import Stage, StageKind
from modelzoo.records.run import Result, SettingRequest
from modelzoo.records.serving import LatencyBound
from modelzoo.records.throughput import (
    Configuration,
    ConfigurationRun,
    InstancePlace,
    InstanceRun,
    Smt,
    Throughput,
)
from modelzoo.results import load as load_results
from modelzoo.results import throughput as throughput_results
from modelzoo.results.counting import Served
from modelzoo.results.refusals import Metric, Pair, SideSetting
from modelzoo.serve.generator import poisson
from modelzoo.serve.search import Bracket
from modelzoo.setting import Setting
from modelzoo.stats import latency_bound

Floats = NDArray[np.float64]
EXPENSIVE = 1000
"""Repetitions of what takes long."""
TWO_SIDED = NormalDist().inv_cdf(0.975)
WHEN = "2026-01-01T00:00:00+00:00"
PLACE = InstancePlace((0,), 0)
TOPOLOGY = Topology((Core((0,), (0,), 0, 0),))


@lru_cache(maxsize=1)
def machine() -> Machine:
    """Any machine: no verdict depends on it."""
    return read_machine()


# throughput: the best of several


def recommended(logs: Floats, again: Floats) -> throughput_results.Recommendation:
    """Choose among configurations of one item a second, and measure the choice again, as ``modelzoo throughput`` does.

    Args:
        logs: of the throughput, by configuration and round.
        again: of the throughput in the rounds of the confirmation.
    """
    count, rounds = logs.shape
    own = tuple(Configuration(0, index + 1, 1, 1, Smt.OFF, (PLACE,) * (index + 1)) for index in range(count))
    runs = [_round(index, number, logs[index, number]) for number in range(rounds) for index in range(count)]
    found = Throughput("simulated", "items", machine(), TOPOLOGY, own, rounds, tuple(runs))
    result = Result((), WHEN, (SettingRequest("simulated", Setting(batch=1, threads=1)),), payload=found)
    choice = throughput_results.choice(throughput_results.rows(result), None)
    assert choice is not None
    confirmation = Stage(StageKind.CONFIRMATION, (choice.winner,), again.size, None, rounds)
    runs += [_round(choice.winner, rounds + number, value) for number, value in enumerate(again)]
    found = replace(found, runs=tuple(runs), stages=(confirmation,), choice=choice)
    recommendation = throughput_results.recommendation(replace(result, payload=found))
    assert recommendation is not None
    return recommendation


def _round(index: int, number: int, log: float) -> ConfigurationRun:
    batches = 1000
    instance = InstanceRun(PLACE, batches=batches, counted=batches)
    return ConfigurationRun(index, number, WHEN, WHEN, (instance,), window=batches / math.exp(log))


def replay_recommendation(
    rng: np.random.Generator, repetitions: int, *, equals: int, rounds: int, is_bias: bool
) -> Counted:
    """Count intervals that cover the true throughput, or figures that are over it.

    Rounds differ by 3 % (standard deviation) for each configuration and by 4 % for all of them together.
    """
    hits, widths = 0, 0.0
    own, shared = 0.03, 0.04
    for _ in range(repetitions):
        logs = rng.normal(0, own, (equals, rounds)) + rng.normal(0, shared, rounds)
        again = rng.normal(0, own, rounds) + rng.normal(0, shared, rounds)
        level = recommended(logs, again).row.throughput
        assert level is not None
        hits += level.value > 1 if is_bias else level.low <= 1 <= level.high
        widths += math.log(level.high / level.low)
    ideal = 2 * TWO_SIDED * math.hypot(own, shared) / math.sqrt(rounds)
    return Counted(hits, repetitions, None if is_bias else widths / repetitions / ideal)


# compare: sessions of one day


@dataclass(frozen=True)
class Server:
    """One of two servers that are equally fast, in logarithms of items per second.

    Attributes:
        rounds: of a session.
        spread: standard deviation of rounds.
        sessions: within one hour, in which the other server has some, too.
        between: standard deviation of sessions; a single one is what is compared.
        is_split: whether rounds run at one of two levels, each as often.
    """

    rounds: int
    spread: float
    sessions: int = 1
    between: float = 0.0
    is_split: bool = False


def measured(server: Server, rng: np.random.Generator) -> SideSetting:
    """The sessions of a server, as ``modelzoo compare`` reads them."""
    shape = (server.sessions, server.rounds)
    noise = rng.choice([-1.0, 1.0], shape) if server.is_split else rng.standard_normal(shape)
    logs = server.spread * noise + server.between * rng.standard_normal((server.sessions, 1))
    found = tuple(Served("", tuple(each), "items", (1,), 1, None, True, True) for each in np.exp(logs).tolist())
    count = server.sessions
    return SideSetting(
        "simulated", Setting(), "", ((),) * count, (Result((), WHEN),) * count, (0,) * count, served=found
    )


def replay_alone(
    rng: np.random.Generator, repetitions: int, *, base: Server, other: Server, is_interval: bool
) -> Counted:
    """Count comparisons of the sessions alone that call one of two equal servers faster, or cover their ratio."""
    hits, widths = 0, 0.0
    for _ in range(repetitions):
        found = ratio(Pair(measured(base, rng), measured(other, rng)), Metric.THROUGHPUT, is_alone=True)
        assert isinstance(found, stats.Ratio)
        (verdict,) = stats.verdicts([found])
        is_called = verdict.outcome in (stats.Outcome.FASTER, stats.Outcome.SLOWER)
        hits += found.interval.low <= 1 <= found.interval.high if is_interval else is_called
        widths += math.log(found.interval.high / found.interval.low)
    error = math.sqrt(sum((each.between**2 + each.spread**2 / each.rounds) / each.sessions for each in (base, other)))
    return Counted(hits, repetitions, widths / repetitions / (2 * TWO_SIDED * error) if is_interval else None)


# throughput: the bound


@dataclass(frozen=True)
class Rounds:
    """How the latencies of a configuration are simulated, in logarithms of seconds.

    Attributes:
        rounds: of new processes.
        instances: of each, which share the wander of the machine's speed.
        samples: of each instance.
        between: standard deviation of the level of rounds.
        wander: standard deviation of the machine's speed, and the samples after which it has changed (1 / e).
        noise: standard deviation of a sample.
        spikes: share of samples that take longer, by 30 % in the mean.
    """

    rounds: int
    instances: int
    samples: int
    between: float = 0.08
    wander: tuple[float, float] = (0.06, 20.0)
    noise: float = 0.03
    spikes: float = 0.0


def _within(case: Rounds, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """The noise of samples and their spikes."""
    found = rng.normal(0, case.noise, shape)
    return found + np.where(rng.random(shape) < case.spikes, rng.exponential(0.3, shape), 0.0)


@lru_cache(maxsize=64)
def level_of(case: Rounds, percent: float) -> float:
    """The log of the percentile of a round at the middle level."""
    rng, count = np.random.default_rng(1), 4_000_000
    return float(np.quantile(rng.normal(0, case.wander[0], count) + _within(case, rng, (count,)), percent / 100))


def simulated_rounds(case: Rounds, rng: np.random.Generator) -> list[list[list[float]]]:
    """Latencies by round and instance."""
    size, after = case.wander
    speed = autoregressive(rng, case.rounds, case.samples, math.exp(-1 / after)) * size
    logs = speed[:, None, :] + _within(case, rng, (case.rounds, case.instances, case.samples))
    logs += rng.normal(0, case.between, (case.rounds, 1, 1))
    latencies: list[list[list[float]]] = np.exp(logs).tolist()
    return latencies


def autoregressive(rng: np.random.Generator, series: int, count: int, lag: float) -> Floats:
    """Series of unit variance with this lag-1 correlation."""
    noise = rng.normal(0, 1, (series, count))
    noise[:, 1:] *= math.sqrt(1 - lag**2)
    for number in range(1, count):
        noise[:, number] += lag * noise[:, number - 1]
    return noise


def replay_bound(
    rng: np.random.Generator,
    repetitions: int,
    *,
    case: Rounds,
    percent: float,
    outcome: latency_bound.BoundOutcome,
    judge: Callable[..., latency_bound.BoundJudgement] = latency_bound.judge,
) -> Counted:
    """Count how often a bound that is exactly the percentile is said to be met, or not to be met."""
    limit = math.exp(level_of(case, percent))
    hits = sum(judge(simulated_rounds(case, rng), percent, limit).outcome is outcome for _ in range(repetitions))
    return Counted(hits, repetitions)


# load: VALID


@dataclass(frozen=True)
class Queue:
    """Requests that arrive at random, in one queue.

    Attributes:
        utilisation: of the instances.
        instances: their number.
        spread: standard deviation of the log of a service time, whose median is a second.
    """

    utilisation: float
    instances: int = 1
    spread: float = 0.1


def latencies(queue: Queue, count: int, rng: np.random.Generator) -> Floats:
    """Latencies in seconds, in the order of arrival."""
    services = np.exp(rng.normal(0, queue.spread, count))
    mean = math.exp(queue.spread**2 / 2)
    arrivals = np.cumsum(rng.exponential(mean / queue.utilisation / queue.instances, count))
    if queue.instances == 1:
        return lindley(arrivals, services) + services
    free = [0.0] * queue.instances
    ends = np.empty(count)
    for number, (arrival, service) in enumerate(zip(arrivals.tolist(), services.tolist())):
        ends[number] = max(arrival, free[0]) + service
        heapq.heapreplace(free, ends[number])
    return ends - arrivals


@lru_cache(maxsize=64)
def quantile_of(queue: Queue, percent: float) -> float:
    """The percentile of the latency in the long run."""
    count = 4_000_000 if queue.instances == 1 else 1_000_000
    return float(np.quantile(latencies(queue, count, np.random.default_rng(1)), percent / 100))


def load_run(found: Sequence[float], rate: float = 1.0, repeat: int = 0) -> LoadRun:
    """A run with these latencies, in which nothing else went wrong."""
    return LoadRun(
        repeat=repeat,
        rate=rate,
        seed=0,
        started=WHEN,
        requests=len(found),
        seconds=1.0,
        latencies=tuple(found),
        rejected=0,
        lateness=Lateness(0.0, 0.0, 0.0, 1e-3),
        batches=(),
        padded=0,
        uses=(),
    )


def replay_valid(
    rng: np.random.Generator, repetitions: int, *, queue: Queue, percent: float, count: int, is_search: bool = False
) -> Counted:
    """Count how often a run is VALID although the percentile is exactly the bound."""
    bound = LatencyBound(percent, quantile_of(queue, percent))
    hits = 0
    for _ in range(repetitions):
        run = load_run(latencies(queue, count, rng).tolist())
        hits += not load_results.reasons(run, bound, is_search=is_search)
    return Counted(hits, repetitions)


# load --find


def found_level(searches: Sequence[Sequence[LoadRun]]) -> stats.Interval:
    """The level of a search with these runs of each repeat."""
    plan = LoadPlan(Scenario.SERVER, 1, 1, 1, 0.0, 1000, bound=BOUND, is_search=True, repeats=len(searches))
    runs = tuple(run for each in searches for run in each)
    found = load_results.answer(Load("simulated", "items", machine(), TOPOLOGY, plan, runs=runs, is_complete=True))
    assert found is not None
    return found.level


BOUND = LatencyBound(99.0, 4.0)
"""Seconds, where a request takes about one."""


def searched(first: float, passes: Callable[[float], tuple[InvalidReason, ...]], repeat: int) -> list[LoadRun]:
    """The runs of one repeat of a search."""
    bracket, runs = Bracket(first), list[LoadRun]()
    while (rate := bracket.next()) is not None:
        flaws = passes(rate)
        runs.append(replace(load_run((), rate, repeat), reasons=flaws))
        bracket = bracket.tried(rate, passed=not flaws)
    return runs


def _is_under(limit: float, rate: float) -> tuple[InvalidReason, ...]:
    return () if rate <= limit else (InvalidReason(Flaw.BOUND),)


def replay_find(rng: np.random.Generator, repetitions: int, *, repeats: int, spread: float, is_bias: bool) -> Counted:
    """Count levels that cover, or are over, the rate at which runs cease to pass: 100 requests/s.

    Repeats differ by ``spread`` (standard deviation); the first rate that each tries is off by 3 %.
    """
    hits, widths = 0, 0.0
    for _ in range(repetitions):
        searches = []
        for repeat in range(repeats):
            limit = 100 * math.exp(rng.normal(0, spread))
            first = 100 * math.exp(rng.normal(0, 0.03))
            searches.append(searched(first, partial(_is_under, limit), repeat))
        level = found_level(searches)
        hits += level.value > 100 if is_bias else level.low <= 100 <= level.high
        widths += math.log(level.high / level.low)
    ideal = 2 * TWO_SIDED * spread / math.sqrt(repeats)
    return Counted(hits, repetitions, None if is_bias else widths / repetitions / ideal)


REQUESTS = 1001
INSTANCES_DIFFER = 0.03
"""Standard deviation of the service time between the instances of two repeats."""


def _passes(seed: int, service: float, rate: float) -> tuple[InvalidReason, ...]:
    """Why a run at ``rate`` fails; arrivals are those of the seed, stretched."""
    arrivals = poisson(rate, REQUESTS, 0.0, (seed,))
    run = load_run((lindley(arrivals, np.full(arrivals.size, service)) + service).tolist(), rate)
    return load_results.reasons(run, BOUND, is_search=True)


@lru_cache(maxsize=1)
def end_of_what_passes() -> tuple[float, float]:
    """Mean and standard deviation, over repeats, of the log of the rate at which runs cease to pass."""
    rng, logs = np.random.default_rng(2), []
    for _ in range(2000):
        seed, service = int(rng.integers(2**31)), math.exp(rng.normal(0, INSTANCES_DIFFER))
        low, high = 0.05, 1.5
        while high > 1.002 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if _passes(seed, service, middle) else (middle, high)
        logs.append(math.log(low * high) / 2)
    return float(np.mean(logs)), float(np.std(logs))


def replay_find_in_queue(rng: np.random.Generator, repetitions: int, *, repeats: int) -> Counted:
    """Count levels that cover the rate at which runs cease to pass in the mean of many repeats: M/D/1, p99."""
    truth, spread = end_of_what_passes()
    hits, widths = 0, 0.0
    for _ in range(repetitions):
        searches = []
        for repeat in range(repeats):
            seed, service = int(rng.integers(2**31)), math.exp(rng.normal(0, INSTANCES_DIFFER))
            first = math.exp(truth + rng.normal(0, 0.05)) / service
            searches.append(searched(first, partial(_passes, seed, service), repeat))
        level = found_level(searches)
        hits += level.low <= math.exp(truth) <= level.high
        widths += math.log(level.high / level.low)
    return Counted(hits, repetitions, widths / repetitions / (2 * TWO_SIDED * spread / math.sqrt(repeats)))


# fleet


def replay_hosts(rng: np.random.Generator, repetitions: int, *, hosts: int, settings: int) -> Counted:
    """Count fleets of equal hosts in which one is called odd.

    Hosts differ by 1 % (standard deviation) as a whole, and by 0.5 % in each setting.
    """
    hits = 0
    for _ in range(repetitions):
        levels = (rng.normal(0, 0.01, (hosts, 1)) + rng.normal(0, 0.005, (hosts, settings))).tolist()
        hits += any(
            each is not None and each.verdict.outcome in (stats.Outcome.FASTER, stats.Outcome.SLOWER)
            for row in host_ratios(levels)
            for each in row
        )
    return Counted(hits, repetitions)


def _recommendation(equals: int, rounds: int) -> tuple[Promise, Promise]:
    case = f"{equals} equal configurations, {rounds} rounds" if equals > 1 else f"one configuration, {rounds} rounds"
    replay = partial(replay_recommendation, equals=equals, rounds=rounds)
    return (
        Promise(
            "throughput",
            case,
            "the interval covers the true throughput of the recommended one",
            Bound.AT_LEAST,
            0.95,
            partial(replay, is_bias=False),
        ),
        Promise(
            "throughput",
            case,
            "the figure is over the true throughput",
            Bound.AT_MOST,
            0.5,
            partial(replay, is_bias=True),
        ),
    )


SMALLER = "the degrees of freedom are those of the side that has fewer, so that they hold whatever the variances"


def _alone(case: str, base: Server, other: Server) -> tuple[Promise, Promise]:
    case = f"one hour, equal machines, {case}"
    replay = partial(replay_alone, base=base, other=other)
    calls, covers = partial(replay, is_interval=False), partial(replay, is_interval=True)
    return (
        Promise("compare: sessions alone", case, "FASTER or SLOWER", Bound.AT_MOST, 0.02, calls),
        Promise(
            "compare: sessions alone", case, "the interval of the ratio covers it", Bound.AT_LEAST, 0.95, covers,
            why=SMALLER,
        ),
    )  # fmt: skip


def _bound(name: str, case: Rounds, percent: float) -> tuple[Promise, ...]:
    shown = f"p{percent:g} is the bound; {case.rounds} rounds of {case.instances} × {case.samples} batches, {name}"
    return tuple(
        Promise(
            "throughput --slo",
            shown,
            f"the bound is called {outcome.value}",
            Bound.AT_MOST,
            0.01,
            partial(replay_bound, case=case, percent=percent, outcome=outcome),
        )
        for outcome in (latency_bound.BoundOutcome.MET, latency_bound.BoundOutcome.NOT_MET)
    )


def _valid(utilisation: float, percent: float, count: int, instances: int = 1, repetitions: int = 10_000) -> Promise:
    of = f"{instances} instances" if instances > 1 else "1 instance"
    return Promise(
        "load --rate",
        f"p{percent:g} is the bound; {count:,} requests, {of} at {utilisation:.0%} utilisation",
        "VALID",
        Bound.AT_MOST,
        0.02,
        partial(replay_valid, queue=Queue(utilisation, instances), percent=percent, count=count),
        repetitions,
    )


RESOLVED = "half the distance from the highest rate that passed to the lowest that failed is added to the interval"


def _find(repeats: int, spread: float) -> tuple[Promise, Promise]:
    case = f"{repeats} repeats that differ by {100 * spread:g} %"
    replay = partial(replay_find, repeats=repeats, spread=spread)
    covers = "the interval covers the rate at which runs cease to pass"
    over = "the level is over it"
    return (
        Promise("load --find", case, covers, Bound.AT_LEAST, 0.95, partial(replay, is_bias=False), why=RESOLVED),
        Promise("load --find", case, over, Bound.AT_MOST, 0.5, partial(replay, is_bias=True)),
    )


def _hosts(hosts: int, settings: int) -> Promise:
    many = f"{settings} settings" if settings > 1 else "1 setting"
    return Promise(
        "fleet run",
        f"{hosts} equal hosts, {many}",
        "a host is called odd",
        Bound.AT_MOST,
        0.02,
        partial(replay_hosts, hosts=hosts, settings=settings),
    )


WANDERS = Server(4, 0.02, sessions=3, between=0.03)
SPLIT = Server(4, 0.02, is_split=True)
QUIET = Rounds(4, 1, 300, between=0.0, wander=(0.0, 1.0), noise=0.05)
WANDERING = Rounds(4, 1, 300, between=0.0)
DIFFERING = Rounds(4, 4, 200)
SPIKY = Rounds(4, 1, 300, between=0.02, spikes=0.03)

PROMISES: tuple[Promise, ...] = (
    *_recommendation(1, 4),
    *_recommendation(4, 4),
    *_recommendation(8, 3),
    *_alone("4 rounds a side that differ by 2 %", Server(4, 0.02), Server(4, 0.02)),
    *_alone("8 rounds a side that differ by 2 %", Server(8, 0.02), Server(8, 0.02)),
    *_alone("4 rounds that differ by 4 % and 8 by 2 %", Server(4, 0.04), Server(8, 0.02)),
    *_alone("4 rounds that differ by 2 % and 16 by 4 %", Server(4, 0.02), Server(16, 0.04)),
    *_alone("3 sessions of 4 rounds a side; sessions differ by 3 %, rounds by 2 %", WANDERS, WANDERS),
    *_alone("3 and 5 such sessions", WANDERS, replace(WANDERS, sessions=5)),
    _alone("4 rounds a side at one of two levels, 4 % apart", SPLIT, SPLIT)[0],
    *_bound("independent", QUIET, 99),
    *_bound("the machine's speed wanders", WANDERING, 90),
    *_bound("the machine's speed wanders", WANDERING, 99),
    *_bound("rounds differ, too", DIFFERING, 90),
    *_bound("rounds differ, too", DIFFERING, 99),
    *_bound("with spikes", SPIKY, 90),
    *_bound("with spikes", SPIKY, 99),
    *_bound("the machine's speed wanders", replace(WANDERING, rounds=8), 99),
    _valid(0.3, 99, 3000),
    _valid(0.5, 90, 1000),
    _valid(0.5, 99, 3000),
    _valid(0.7, 90, 1000),
    _valid(0.7, 99, 3000),
    _valid(0.7, 99, 20_000, repetitions=EXPENSIVE),
    _valid(0.85, 90, 1000),
    _valid(0.85, 90, 4000),
    _valid(0.85, 99, 20_000, repetitions=EXPENSIVE),
    _valid(0.8, 99, 4000, instances=4, repetitions=EXPENSIVE),
    *_find(3, 0.005),
    *_find(3, 0.02),
    *_find(3, 0.05),
    *_find(5, 0.02),
    Promise(
        "load --find",
        f"M/D/1, {REQUESTS:,} requests, 3 repeats whose instances differ by 3 %",
        "the interval covers the rate at which runs cease to pass",
        Bound.AT_LEAST,
        0.95,
        partial(replay_find_in_queue, repeats=3),
        EXPENSIVE,
        RESOLVED,
    ),
    _hosts(3, 1),
    _hosts(5, 4),
    _hosts(10, 1),
    _hosts(10, 4),
    _hosts(3, 2),
)
