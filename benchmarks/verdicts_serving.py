"""What throughput, load, the fleet and comparisons within an hour promise, replayed on simulated data.

``PROMISES`` are replayed by benchmarks/verdicts.py. The verdicts come from the functions that the commands call. The
simulations lie where a verdict has to be careful: a percentile on its bound, hosts that are equal.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from load_generator import lindley
from numpy.typing import NDArray
from promises import COVERAGE, Counted, Promise, coverage, ideal_width, is_called, share

from modelzoo import stats
from modelzoo.comparison.estimate import ratio
from modelzoo.fleet.hosts import host_ratios
from modelzoo.frozen import replace
from modelzoo.machine.facts import read_machine
from modelzoo.records.machine import Core, Machine, Topology
from modelzoo.records.race import (
    Configuration,
    ConfigurationRun,
    InstancePlace,
    InstanceRun,
    Smt,
    Stage,
    StageKind,
    Throughput,
)
from modelzoo.records.run import Result, SettingRequest
from modelzoo.records.serving import Flaw, InvalidReason, LatencyBound, Lateness, Load, LoadPlan, LoadRun, Scenario
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
WHEN = "2026-01-01T00:00:00+00:00"
PLACE = InstancePlace((0,), 0)
TOPOLOGY = Topology((Core((0,), (0,), 0, 0),))
Levels = Callable[[np.random.Generator, int], Iterator[stats.Interval]]


@lru_cache(maxsize=1)
def machine() -> Machine:
    """Any machine: no verdict depends on it."""
    return read_machine()


def of_level(
    command: str, case: str, events: tuple[str, str], simulated: Levels, truth: float, error: float, why: str = ""
) -> tuple[Promise, Promise]:
    """The interval of a figure covers the truth, and the figure is over it in at most half of all cases.

    Args:
        command: that prints the figure.
        case: what is simulated.
        events: what the two promises count.
        simulated: yields intervals.
        truth: what they are intervals of.
        error: the standard error of the logarithm, for who knows all variances.
        why: the reason why an interval is wide.
    """

    def covered(rng: np.random.Generator, repetitions: int) -> Counted:
        return coverage((found, truth, ideal_width(error)) for found in simulated(rng, repetitions))

    def over(rng: np.random.Generator, repetitions: int) -> Counted:
        return share(found.value > truth for found in simulated(rng, repetitions))

    return (
        Promise(command, case, events[0], COVERAGE, covered, is_least=True, why=why),
        Promise(command, case, events[1], 0.5, over),
    )


# throughput: the best of several

OWN, SHARED = 0.03, 0.04
"""Standard deviations of rounds for each configuration, and for all of them together."""


def recommended(logs: Floats, again: Floats) -> stats.Interval:
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
    assert recommendation is not None and recommendation.row.throughput is not None
    return recommendation.row.throughput


def _round(index: int, number: int, log: float) -> ConfigurationRun:
    batches = 1000
    instance = InstanceRun(PLACE, batches=batches, counted=batches)
    return ConfigurationRun(index, number, WHEN, WHEN, (instance,), window=batches / math.exp(log))


def recommendations(equals: int, rounds: int, rng: np.random.Generator, repetitions: int) -> Iterator[stats.Interval]:
    """Throughput of the recommended one of equal configurations."""
    for _ in range(repetitions):
        logs = rng.normal(0, OWN, (equals, rounds)) + rng.normal(0, SHARED, rounds)
        again = rng.normal(0, OWN, rounds) + rng.normal(0, SHARED, rounds)
        yield recommended(logs, again)


def _recommendation(equals: int, rounds: int) -> tuple[Promise, Promise]:
    case = f"{equals} equal configurations, {rounds} rounds" if equals > 1 else f"one configuration, {rounds} rounds"
    events = (
        "the interval covers the true throughput of the recommended one",
        "the figure is over the true throughput",
    )
    error = math.hypot(OWN, SHARED) / math.sqrt(rounds)
    return of_level("throughput", case, events, partial(recommendations, equals, rounds), 1.0, error)


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
    return SideSetting("simulated", Setting(), "", ((),) * count, (Result((), WHEN),) * count, served=found)


def compared(base: Server, other: Server, rng: np.random.Generator, repetitions: int) -> Iterator[stats.Ratio]:
    """Ratios of the sessions alone."""
    for _ in range(repetitions):
        found = ratio(Pair(measured(base, rng), measured(other, rng)), Metric.THROUGHPUT, is_alone=True)
        assert isinstance(found, stats.Ratio)
        yield found


SMALLER = "the degrees of freedom are those of the side that has fewer, so that they hold whatever the variances"


def _alone(case: str, base: Server, other: Server) -> tuple[Promise, Promise]:
    error = math.sqrt(sum((each.between**2 + each.spread**2 / each.rounds) / each.sessions for each in (base, other)))

    def called(rng: np.random.Generator, repetitions: int) -> Counted:
        return share(is_called(stats.verdicts([found])) for found in compared(base, other, rng, repetitions))

    def covered(rng: np.random.Generator, repetitions: int) -> Counted:
        return coverage((found.interval, 1.0, ideal_width(error)) for found in compared(base, other, rng, repetitions))

    command, case = "compare: sessions alone", f"one hour, equal machines, {case}"
    covers = "the interval of the ratio covers it"
    return (
        Promise(command, case, "FASTER or SLOWER", 0.02, called),
        Promise(command, case, covers, COVERAGE, covered, is_least=True, why=SMALLER),
    )


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
    case: Rounds, percent: float, outcome: latency_bound.BoundOutcome, rng: np.random.Generator, repetitions: int
) -> Counted:
    """Count how often a bound that is exactly the percentile is said to be met, or not to be met."""
    limit = math.exp(level_of(case, percent))
    return share(
        latency_bound.judge(simulated_rounds(case, rng), percent, limit).outcome == outcome for _ in range(repetitions)
    )


def _bound(name: str, case: Rounds, percent: float) -> Iterator[Promise]:
    shown = f"p{percent:g} is the bound; {case.rounds} rounds of {case.instances} × {case.samples} batches, {name}"
    outcomes: tuple[latency_bound.BoundOutcome, ...] = ("met", "not met")
    for outcome in outcomes:
        replay = partial(replay_bound, case, percent, outcome)
        yield Promise("throughput --slo", shown, f"the bound is called {outcome}", 0.01, replay)


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


def replay_valid(queue: Queue, percent: float, count: int, rng: np.random.Generator, repetitions: int) -> Counted:
    """Count how often a run is VALID although the percentile is exactly the bound."""
    bound = LatencyBound(percent, quantile_of(queue, percent))
    runs = (load_run(latencies(queue, count, rng).tolist()) for _ in range(repetitions))
    return share(not load_results.reasons(run, bound, is_search=False) for run in runs)


def _valid(utilisation: float, percent: float, count: int, instances: int = 1, repetitions: int = 10_000) -> Promise:
    of = f"{instances} instances" if instances > 1 else "1 instance"
    case = f"p{percent:g} is the bound; {count:,} requests, {of} at {utilisation:.0%} utilisation"
    replay = partial(replay_valid, Queue(utilisation, instances), percent, count)
    return Promise("load --rate", case, "VALID", 0.02, replay, repetitions=repetitions)


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


def found_levels(repeats: int, spread: float, rng: np.random.Generator, repetitions: int) -> Iterator[stats.Interval]:
    """Levels of searches for the rate at which runs cease to pass, 100 requests/s.

    Repeats differ by ``spread`` (standard deviation); the first rate that each tries is off by 3 %.
    """
    for _ in range(repetitions):
        searches = []
        for repeat in range(repeats):
            limit = 100 * math.exp(rng.normal(0, spread))
            first = 100 * math.exp(rng.normal(0, 0.03))
            searches.append(searched(first, partial(_is_under, limit), repeat))
        yield found_level(searches)


CEASE = "the interval covers the rate at which runs cease to pass"
RESOLVED = "half the distance from the highest rate that passed to the lowest that failed is added to the interval"


def _find(repeats: int, spread: float) -> tuple[Promise, Promise]:
    case, events = f"{repeats} repeats that differ by {100 * spread:g} %", (CEASE, "the level is over it")
    error = spread / math.sqrt(repeats)
    return of_level("load --find", case, events, partial(found_levels, repeats, spread), 100, error, RESOLVED)


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


def replay_find_in_queue(repeats: int, rng: np.random.Generator, repetitions: int) -> Counted:
    """Count levels that cover the rate at which runs cease to pass in the mean of many repeats: M/D/1, p99."""
    truth, spread = end_of_what_passes()

    def levels() -> Iterator[stats.Interval]:
        for _ in range(repetitions):
            searches = []
            for repeat in range(repeats):
                seed, service = int(rng.integers(2**31)), math.exp(rng.normal(0, INSTANCES_DIFFER))
                first = math.exp(truth + rng.normal(0, 0.05)) / service
                searches.append(searched(first, partial(_passes, seed, service), repeat))
            yield found_level(searches)

    return coverage((level, math.exp(truth), ideal_width(spread / math.sqrt(repeats))) for level in levels())


# fleet


def replay_hosts(hosts: int, settings: int, rng: np.random.Generator, repetitions: int) -> Counted:
    """Count fleets of equal hosts in which one is called odd.

    Hosts differ by 1 % (standard deviation) as a whole, and by 0.5 % in each setting.
    """

    def verdicts() -> Iterator[stats.Verdict]:
        levels = (rng.normal(0, 0.01, (hosts, 1)) + rng.normal(0, 0.005, (hosts, settings))).tolist()
        return (each.verdict for row in host_ratios(levels) for each in row if each is not None)

    return share(is_called(verdicts()) for _ in range(repetitions))


def _hosts(hosts: int, settings: int) -> Promise:
    many = f"{settings} settings" if settings > 1 else "1 setting"
    replay = partial(replay_hosts, hosts, settings)
    return Promise("fleet run", f"{hosts} equal hosts, {many}", "a host is called odd", 0.02, replay)


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
        CEASE,
        COVERAGE,
        partial(replay_find_in_queue, 3),
        is_least=True,
        repetitions=EXPENSIVE,
        why=RESOLVED,
    ),
    *(_hosts(hosts, settings) for hosts, settings in ((3, 1), (5, 4), (10, 1), (10, 4), (3, 2))),
)
