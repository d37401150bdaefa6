"""Simulated calls of ``modelzoo run``, searches of ``modelzoo tune`` and sides of ``modelzoo compare``.

Their truth is known, and the suite's own functions judge them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from promises import Counted, share

from modelzoo import stats
from modelzoo.comparison.estimate import ratio
from modelzoo.frozen import replace
from modelzoo.measure.schedule import MINIMUM
from modelzoo.records.run import Latency, Result, Run
from modelzoo.records.timing import LATENCY, Design, Series, StopReason, Timing
from modelzoo.results import store
from modelzoo.results.refusals import Metric, Pair, SideSetting
from modelzoo.results.speed import looks
from modelzoo.stats import Looks, Outcome, Ratio, Verdict, race
from modelzoo.tuning import decisions
from modelzoo.tuning.search import BLOCK
from modelzoo.workload.discovery import CHECKOUT

Array = NDArray[np.float64]

# Calls of ``modelzoo run``. A call compares settings with a baseline in rounds. Times are log-normal: what differs
# between processes is drawn for each process, and what the machine does in a round is shared by all of its processes.
# The call looks at the data as the scheduler plans it, and ends because everything is decided, because its time is up,
# or by Ctrl-C.

MAXIMUM = 32
"""Rounds at the last planned look."""
SHARED = 0.02
"""Standard deviation of what the machine does in a round."""
SAMPLES = 20
"""Samples of a process, where they are simulated one by one."""
ALPHA = 1 - stats.VERDICT_CONFIDENCE


class End(Enum):
    """How a call ends that is not decided before."""

    LAST_LOOK = "at its last planned look"
    TIME = "when its time is up, after any number of rounds"
    FIRST_DIFFERENCE = "by Ctrl-C, at the first round in which one test would call a row different"
    FIRST_SAME = "by Ctrl-C, at the first round in which one interval lies within ±2 %"


@dataclass(frozen=True)
class Call:
    """What a call compares.

    Attributes:
        truth: of each row, the true time of the baseline over that of the setting.
        spread: standard deviation of the log ratio of a round.
        end: how it ends if it is not decided before.
        rounds: how many rounds it may have.
    """

    truth: tuple[float, ...] = (1.0,)
    spread: float = 0.03
    end: End = End.LAST_LOOK
    rounds: int = MAXIMUM


@dataclass(frozen=True)
class Ended:
    """What a call found, and its log times (settings × rounds), the baseline first."""

    found: tuple[Ratio, ...]
    verdicts: tuple[Verdict, ...]
    times: Array
    by_precision: bool


def calls(generator: np.random.Generator, call: Call, count: int) -> Iterator[Ended]:
    """Simulate ``count`` calls."""
    planned = stats.planned_looks(MINIMUM, call.rounds)
    for _ in range(count):
        times = _times(generator, call)
        yield _ended(call, planned, times, _stop(generator, call, times))


def _times(generator: np.random.Generator, call: Call) -> Array:
    own = call.spread / math.sqrt(2) * generator.standard_normal((1 + len(call.truth), call.rounds))
    shared = SHARED * generator.standard_normal(call.rounds)
    return own + shared - np.log([[1.0], *([each] for each in call.truth)])


def _stop(generator: np.random.Generator, call: Call, times: Array) -> int:
    """The number of rounds after which the call ends in any case."""
    if call.end is End.LAST_LOOK:
        return call.rounds
    if call.end is End.TIME:
        return int(generator.integers(MINIMUM, call.rounds + 1))
    counts = np.arange(2, call.rounds + 1)
    ratios = times[0] - times[1:]
    means = np.cumsum(ratios, axis=1)[:, 1:] / counts
    variances = (np.cumsum(ratios**2, axis=1)[:, 1:] - counts * means**2) / (counts - 1)
    errors = np.sqrt(variances / counts)
    if call.end is End.FIRST_DIFFERENCE:
        seen = np.abs(means) > _quantiles(1 - ALPHA / 2, call.rounds) * errors
    else:
        widths = _quantiles((1 + stats.CONFIDENCE) / 2, call.rounds) * errors
        seen = (means - widths >= stats.SAME_WITHIN[0]) & (means + widths <= stats.SAME_WITHIN[1])
    first = np.flatnonzero(seen.any(axis=0))
    return int(counts[first[0]]) if first.size else call.rounds


@lru_cache
def _quantiles(probability: float, rounds: int) -> Array:
    """Student's t for 2 rounds, 3 rounds …"""
    return np.array([stats.student_t(probability, count - 1) for count in range(2, rounds + 1)])


def _ended(call: Call, planned: tuple[int, ...], times: Array, stop: int) -> Ended:
    """Look as planned, and a last time if the call ended by itself."""
    for number in planned:
        if number > stop:
            break
        found, verdicts = judged(times[:, :number], _looks(planned, None))
        if all(each.outcome is not Outcome.AMBIGUOUS for each in verdicts):
            return Ended(found, verdicts, times[:, :number], by_precision=True)
    is_interrupted = call.end in (End.FIRST_DIFFERENCE, End.FIRST_SAME) and stop < planned[-1]
    stop_reason = StopReason.INTERRUPTED if is_interrupted else StopReason.BUDGET
    return Ended(*judged(times[:, :stop], _looks(planned, stop_reason)), times[:, :stop], by_precision=False)


@lru_cache
def _looks(planned: tuple[int, ...], stop_reason: StopReason | None) -> Looks:
    """The looks of a call that ended in this way, or that still runs."""
    design = Design("simulated", 0.05, looks=planned, maximum=planned[-1], stop_reason=stop_reason)
    found = looks(Result((), "", payload=Latency((design,))), design.workload)
    assert found is not None
    return found


def judged(times: Array, planned: Looks) -> tuple[tuple[Ratio, ...], tuple[Verdict, ...]]:
    """The comparisons of each setting with the first one, and their verdicts, corrected together."""
    base, *others = ([[value] for value in row] for row in np.exp(times).tolist())
    found = tuple(stats.ratio_test(base, other, looks=planned) for other in others)
    return found, tuple(stats.verdicts(found))


# Processes of one setting, sample by sample


@dataclass(frozen=True)
class Processes:
    """How the samples of a process are drawn.

    Attributes:
        between: draws the log levels of processes, with a mean of 0 and a standard deviation of 1.
        skewed: whether samples have an exponential tail.
        correlation: of neighbouring samples.
        drift: how much slower the machine gets from the first round to the last.
    """

    between: Callable[[np.random.Generator, tuple[int, ...]], Array]
    skewed: bool = False
    correlation: float = 0.0
    drift: float = 0.0


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Standard normal values."""
    return generator.standard_normal(shape)


def skewed(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Gamma values with a skewness of 1, shifted to the mean 0; their standard deviation is 1."""
    return (generator.gamma(4.0, 1.0, shape) - 4) / 2


BETWEEN, WITHIN = 0.03, 0.05
"""Standard deviations between processes and of the samples of a process."""


def samples(generator: np.random.Generator, kind: Processes, shape: tuple[int, int]) -> Array:
    """Log samples of shape repetitions × processes × samples, whose process levels have the mean 0, drift aside."""
    noise = generator.exponential(1.0, (*shape, SAMPLES)) - 1 if kind.skewed else normal(generator, (*shape, SAMPLES))
    if kind.correlation:
        scale = math.sqrt(1 - kind.correlation**2)
        for step in range(1, SAMPLES):
            noise[..., step] = kind.correlation * noise[..., step - 1] + scale * noise[..., step]
    levels = BETWEEN * kind.between(generator, shape) + kind.drift * np.linspace(-0.5, 0.5, shape[1])
    return np.asarray(levels[..., None] + WITHIN * noise - WITHIN * _centre(kind))


@lru_cache
def _centre(kind: Processes) -> float:
    """The mean of the median of a process's samples, in units of ``WITHIN``."""
    if not kind.skewed:
        return 0.0
    drawn = np.random.default_rng(0).exponential(1.0, (100_000, SAMPLES)) - 1
    return float(np.median(drawn, axis=1).mean())


def nested(values: Array) -> list[list[float]]:
    """Times of processes (processes × samples) from their logs."""
    found: list[list[float]] = np.exp(values).tolist()
    return found


# Searches of ``modelzoo tune`` among candidates that are all as fast as the default. They run as the command does: the
# same stages, the same choice, and a confirmation with new processes.

CANDIDATES = 15
"""Besides the default."""
BUDGET, COST = 900.0, 6.0
"""Seconds of a search, and of one process."""
SPREAD = 0.03
"""Standard deviation of the logarithm of the time of a process."""


def false_winner(generator: np.random.Generator, count: int) -> Counted:
    """Searches among equals that confirm a winner."""
    source = random.Random(int(generator.integers(2**32)))
    pool = (SPREAD * generator.standard_normal(5000)).tolist()
    return share(has_winner(pool, source) for _ in range(count))


def has_winner(pool: Sequence[float], generator: random.Random) -> bool:
    """Search once, with the logarithms of times drawn from ``pool``; return whether a winner is confirmed."""
    logs: dict[int, dict[int, float]] = {group: {} for group in range(1, CANDIDATES + 1)}
    spent, number, kept = COST, 0, list(logs)
    sizes = race.sizes(CANDIDATES)
    for stage, size in enumerate(sizes):
        kept = race.ranked({group: logs[group] for group in kept})[:size] if stage else kept
        blocks = -(-len(kept) // BLOCK)
        costs = [COST] * (len(kept) + blocks)
        left = decisions.SEARCH_SHARE * BUDGET - spent
        rounds = decisions.stage_rounds(costs, len(sizes) - stage, left) if stage else 1
        for _ in range(rounds):
            for start in range(0, len(kept), BLOCK):
                default = generator.choice(pool)
                for group in kept[start : start + BLOCK]:
                    logs[group][number] = default - generator.choice(pool)
                number += 1
        spent += rounds * sum(costs)
    finalists = {group: logs[group] for group in kept}
    # Candidates in the order of the list change one or two options.
    picked = decisions.pick(finalists, {group: 1 + group % 2 for group in finalists})
    count = decisions.confirmation_rounds([COST] * 3, BUDGET - spent) if picked.winner else 0
    if not count:
        return False
    a, b = ([[math.exp(generator.choice(pool))] for _ in range(count)] for _ in range(2))
    return stats.verdicts([stats.ratio_test(a, b)])[0].outcome is Outcome.FASTER


# Sides of ``modelzoo compare``, judged through the records of runs. The log level of a session is the sum of what its
# day, the session and its processes contribute, all of them normal. All rows of a table share days and sessions.

TEMPLATE = CHECKOUT / "tests" / "data" / "results" / "mlp.json"
"""A stored result whose first process lends the simulated ones everything but their times."""
PROCESSES = 8
PROCESS, SESSION = 0.01, 0.01
"""Standard deviations between the processes of a session and between the sessions of a day: a block of sessions is
known to about 1 %."""
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Sides:
    """What is compared.

    Attributes:
        sessions: of the baseline, and of the other side.
        day: standard deviation between days.
        apart: whether each session of a side is of another day; otherwise one call runs them, ten minutes apart.
        rows: of the table.
        slower: the true time of the other side over that of the baseline.
    """

    sessions: tuple[int, int] = (3, 3)
    day: float = 0.03
    apart: bool = False
    rows: int = 1
    slower: float = 1.0

    @property
    def ideal_error(self) -> float:
        """The standard error of the log ratio, for who knows all variances."""
        within = SESSION**2 + PROCESS**2 / PROCESSES
        return math.sqrt(sum(self.day**2 / (each if self.apart else 1) + within / each for each in self.sessions))


@cache
def template() -> Run:
    """The run that lends the simulated ones everything but their times."""
    return next(run for run in store.read(TEMPLATE).runs if run.report is not None)


def timed(seconds: float) -> Run:
    """A run of one sample."""
    run = template()
    assert run.report is not None
    series = Series(LATENCY, (seconds,))
    timing = Timing(1.0, (), (series,), LATENCY, "settled", "iterations")
    return replace(run, report=replace(run.report, timing=timing))


def tables(generator: np.random.Generator, sides: Sides, count: int) -> Iterator[list[Ratio]]:
    """The ratios of the rows of ``count`` tables, as the suite makes them of measured ones."""
    for _ in range(count):
        base, other = (_levels(generator, sides, number) for number in sides.sessions)
        other = other + math.log(sides.slower)
        rows = []
        for row in range(sides.rows):
            found = ratio(Pair(_side(base[row], sides, 0), _side(other[row], sides, 1)), Metric.LATENCY)
            assert isinstance(found, Ratio)
            rows.append(found)
        yield rows


def _levels(generator: np.random.Generator, sides: Sides, count: int) -> Array:
    """Log times of a side of ``count`` sessions, of shape rows × sessions × processes."""
    days = sides.day * generator.standard_normal((1, count if sides.apart else 1, 1))
    sessions = SESSION * generator.standard_normal((1, count, 1))
    processes = PROCESS * generator.standard_normal((sides.rows, count, PROCESSES))
    return np.asarray(days + sessions + processes)


def _side(levels: Array, sides: Sides, number: int) -> SideSetting:
    runs = tuple(tuple(map(timed, session)) for session in np.exp(levels).tolist())
    pause = timedelta(days=1) if sides.apart else timedelta(minutes=10)
    first = START + timedelta(days=100 * (1 + number))
    created = [(first + index * pause).isoformat() for index in range(len(runs))]
    results = tuple(Result((), begun, runs=each) for begun, each in zip(created, runs))
    return SideSetting(template().workload, template().requested, "", runs, results)
