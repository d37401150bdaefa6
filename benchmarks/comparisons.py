"""How often are verdicts wrong, and how often are differences found, on simulated data whose truth is known?

    .venv/bin/python benchmarks/comparisons.py [--tables 500]

A table has 8 rows. The medians of a setting's processes differ by 2 % (standard deviation), and so do the samples of a
process. The differences between processes are normal, skewed (exponential) or bimodal (two bands). Each kind of
comparison has its own disturbance, which all rows of a table share:

- interleaved: 8 rounds, as ``modelzoo run`` measures settings side by side. Half of the variance between processes is
  the round's and is shared by both sides (the reference load explains 17 to 85 % of it, benchmarks/precision.py), and
  the machine slows down by 3 % from the first round to the last;
- own sessions: 4 stored sessions of 8 processes on each side, which differ by 2 %;
- history: one session of 8 processes on each side; these and 30 earlier sessions of the machine differ by 2 %;
- history, 3 processes: the same with sessions of 3 processes;
- assumed: one session of 8 processes on each side; sessions differ by 5 %, and nothing is known of the machine.

The claims, for each kind of comparison over the three distributions together: of tables of equals, at most 2 % contain
a FASTER or SLOWER. In a comparison by itself, a true 5 % is found in at least 95 %, if processes differ by 2 % and
sessions by no more than their processes explain; with 3 processes this is not claimed. If the difference between
sessions is assumed, a factor of two is found in a table, and a true 5 % is not called.

Beside it stand the usual tests, at the same level and with the same correction for 8 rows, on the same samples: Welch's
t-test and Mann and Whitney's test of all samples of a side, the latter also of the processes' medians, and the smaller
minimum if they differ by more than 2 %.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Optional

import common  # noqa: F401 - puts the checkout on the path
import numpy as np
from binomial import clopper_pearson
from claims import Claim, conclude, percent, table
from numpy.typing import NDArray

from modelzoo import stats
from modelzoo.comparison import basis
from modelzoo.comparison.estimate import Context, estimate, outcomes
from modelzoo.comparison.model import Metric, Outcome, SideSetting
from modelzoo.frozen import replace
from modelzoo.machine.fingerprint import fingerprint
from modelzoo.records.history import SessionLevel
from modelzoo.records.run import Result, Run, RunReport
from modelzoo.records.timing import LATENCY, SECONDS, Role, Series, StopReason, Timing, WarmUpEnd
from modelzoo.results import store
from modelzoo.results.session_levels import work_key
from modelzoo.workload.discovery import CHECKOUT

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
"""Draws values of a distribution with the mean 0 and the standard deviation 1."""
TEMPLATE = CHECKOUT / "tests" / "data" / "results" / "format2" / "mlp.json"
"""A stored result whose first process lends the simulated ones everything but their times."""
ROWS, PROCESSES, SAMPLES = 8, 8, 20
NOISE = 0.02
"""Standard deviation between the medians of processes, and between the samples of a process."""
OF_SAMPLES = math.pi / 2 / SAMPLES
"""Share of the variance between medians that comes from the samples: the variance of a median of normal values."""
OF_ROUNDS, DRIFT = 0.5, 0.03
"""Share of the variance between processes that their round explains, and how much slower the machine gets."""
BETWEEN, MUCH_BETWEEN = 0.02, 0.05
"""Standard deviations between sessions; the second where they are assumed to differ by 10 %."""
EARLIER = 30
ALPHA = 1 - stats.VERDICT_CONFIDENCE
FALSE, FOUND = 0.02, 0.95
"""The goals: share of tables with a false verdict, share of true differences that are found."""
DIFFERENCE = 1.05
CALLED = (Outcome.FASTER, Outcome.SLOWER)


@dataclass(frozen=True)
class Kind:
    """A kind of comparison.

    Attributes:
        name: as the table shows it.
        sessions: number of sessions of each side.
        processes: of each session.
        between: standard deviation between sessions.
        known: whether the machine has a history.
        interleaved: whether both sides ran in the same rounds.
    """

    name: str
    sessions: int
    processes: int
    between: float
    known: bool = False
    interleaved: bool = False


INTERLEAVED = Kind("interleaved", 1, PROCESSES, 0.0, interleaved=True)
ASSUMED = Kind("assumed", 1, PROCESSES, MUCH_BETWEEN)
KINDS = (
    INTERLEAVED,
    Kind("own sessions", 4, PROCESSES, BETWEEN),
    Kind("history", 1, PROCESSES, BETWEEN, known=True),
    Kind("history, 3 processes", 1, 3, BETWEEN, known=True),
    ASSUMED,
)


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Standard normal values."""
    return generator.standard_normal(shape)


def skewed(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Exponential values, shifted to the mean 0; their standard deviation is 1 and their skewness 2."""
    return generator.exponential(1.0, shape) - 1


def bimodal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Values of two narrow bands, the slower one with a probability of 0.3; mean 0 and standard deviation 1."""
    share, within = 0.3, 0.2
    distance = math.sqrt((1 - within**2) / (share * (1 - share)))
    slow = generator.random(shape) < share
    return np.where(slow, 1 - share, -share) * distance + within * generator.standard_normal(shape)


DISTRIBUTIONS: tuple[Draw, ...] = (normal, skewed, bimodal)


@dataclass(frozen=True)
class Row:
    """Samples of both sides (sessions × processes × samples, in seconds), and log levels of earlier sessions."""

    base: Array
    other: Array
    earlier: Array


def simulate(
    generator: np.random.Generator,
    kind: Kind,
    draw: Draw,
    count: int,
) -> list[Row]:
    """Simulate the ``count`` rows of a table of equals."""
    shape = (count, kind.sessions, kind.processes)
    shared = _rounds(generator, kind, draw)
    own = NOISE * math.sqrt(1 - OF_SAMPLES - (OF_ROUNDS if kind.interleaved else 0))
    sides = []
    for _ in range(2):
        sessions = kind.between * generator.standard_normal((1, kind.sessions, 1))
        levels = own * draw(generator, shape) + sessions + shared
        samples = levels[..., None] + NOISE * generator.standard_normal((*shape, SAMPLES))
        sides.append(0.1 * np.exp(samples))
    processes = NOISE * draw(generator, (count, EARLIER, kind.processes)).mean(axis=2)
    earlier = processes + kind.between * generator.standard_normal((1, EARLIER))
    return [Row(*each) for each in zip(*sides, earlier)]


def _rounds(generator: np.random.Generator, kind: Kind, draw: Draw) -> Array:
    """What both sides of a round share: the speed of the machine, which varies and gets slower."""
    if not kind.interleaved:
        return np.zeros(1)
    shared = NOISE * math.sqrt(OF_ROUNDS) * draw(generator, (kind.processes,))
    return shared + DRIFT * np.linspace(0, 1, kind.processes)


class Judge:
    """Judges simulated rows as the suite judges measured ones: through the records of runs."""

    def __init__(self) -> None:
        self.template = next(run for run in store.read(TEMPLATE).runs if run.report is not None)
        assert self.template.report is not None
        self.report: RunReport = self.template.report
        self.key, self.machine = work_key(self.report), fingerprint(self.report.machine)

    def table(self, kind: Kind, rows: Sequence[Row]) -> list[Outcome]:
        """The verdicts of a table."""
        if kind.interleaved:
            found = [stats.ratio_test(row.base[0].tolist(), row.other[0].tolist(), paired=True) for row in rows]
            return [Outcome(verdict.outcome.value) for verdict in stats.verdicts(found)]
        estimates = [estimate(*self._sides(row), Metric.LATENCY, self._context(kind, row)) for row in rows]
        return [outcome for outcome, _ in outcomes([each for each in estimates if each is not None], Metric.LATENCY)]

    def _sides(self, row: Row) -> tuple[SideSetting, SideSetting]:
        return self._side(row.base), self._side(row.other)

    def _side(self, sessions: Array) -> SideSetting:
        runs = tuple(tuple(self._run(samples) for samples in session) for session in sessions)
        results = tuple(Result((), "", runs=each) for each in runs)
        return SideSetting(self.report.workload, self.template.asked, "", runs, results, (0,) * len(runs))

    def _run(self, samples: Array) -> Run:
        series = Series(LATENCY, SECONDS, Role.LATENCY, tuple(samples.tolist()))
        timing = Timing(1.0, (), (series,), LATENCY, WarmUpEnd.SETTLED, StopReason.ITERATIONS)
        return replace(self.template, report=replace(self.report, timing=timing))

    def _context(self, kind: Kind, row: Row) -> Context:
        levels = [self._kept(day, level, row) for day, level in enumerate(row.earlier)] if kind.known else []
        histories = basis.Histories({self.machine: levels})
        return Context(True, None, histories, frozenset(), basis.ASSUMED_SPREAD)

    def _kept(self, day: int, log_level: float, row: Row) -> SessionLevel:
        """An earlier session as the machine keeps it; its variances are the true ones."""
        return SessionLevel(
            created=str(day),
            workload=self.report.workload,
            label="",
            key=self.key,
            level=0.1 * math.exp(log_level),
            processes=row.base.shape[1],
            sampled=0.1 * SAMPLES,
            between=NOISE**2,
            tau2=0.1 * NOISE**2,
            cost=1.0,
        )


def faster_by(row: Row, factor: float) -> Row:
    """The row with an other side that is ``factor`` times as fast."""
    return replace(row, other=row.other / factor)


# The usual tests


def welch(row: Row) -> float:
    """P-value of Welch's t-test of all samples, which takes them for independent."""
    a, b = np.log(row.base).ravel(), np.log(row.other).ravel()
    parts = [stats.Variance(float(x.var(ddof=1)) / x.size, x.size - 1) for x in (a, b)]
    error = stats.total(parts)
    return stats.LogRatio(float(a.mean() - b.mean()), math.sqrt(error.value), error.freedom).p_value


def mann_whitney(row: Row) -> float:
    """P-value of Mann and Whitney's test of all samples."""
    return rank_test(row.base.ravel(), row.other.ravel())


def mann_whitney_of_medians(row: Row) -> float:
    """P-value of Mann and Whitney's test of the processes' medians."""
    return rank_test(np.median(row.base, axis=2).ravel(), np.median(row.other, axis=2).ravel())


def rank_test(a: Array, b: Array) -> float:
    """Two-sided p-value of Mann and Whitney's test of values without ties, by its normal approximation.

    Mann and Whitney, "On a test of whether one of two random variables is stochastically larger than the other",
    Annals of Mathematical Statistics 18, 1947; with a correction of 1/2 for continuity.
    """
    ranks = np.concatenate([a, b]).argsort().argsort()[: a.size] + 1
    mean, variance = a.size * b.size / 2, a.size * b.size * (a.size + b.size + 1) / 12
    distance = abs(float(ranks.sum()) - a.size * (a.size + 1) / 2 - mean) - 0.5
    return min(1.0, 2 * NormalDist().cdf(-distance / math.sqrt(variance)))


def minima_differ(row: Row) -> float:
    """0 if the minima differ by more than what counts as the same, else 1: this is no test and has no level."""
    return 0.0 if abs(math.log(row.base.min() / row.other.min())) > stats.EQUIVALENCE else 1.0


USUAL: dict[str, Callable[[Row], float]] = {
    "Welch": welch,
    "Mann-Whitney": mann_whitney,
    "… of medians": mann_whitney_of_medians,
    "min-of-N": minima_differ,
}


def called(test: Callable[[Row], float], rows: Sequence[Row]) -> list[bool]:
    """Which rows of a table a usual test calls different."""
    return [p <= ALPHA for p in stats.holm([test(row) for row in rows])]


# Counting


@dataclass
class Counts:
    """How many tables of equals had a false verdict, and how many true differences were found; of ``tables`` each.

    ``twice`` is how many factors of two were found in a table; 0 for kinds of which that is not asked.
    """

    tables: int
    false: dict[str, int]
    found: dict[str, int]
    twice: int = 0


def count(judge: Judge, kind: Kind, draw: Draw, tables: int, generator: np.random.Generator) -> Counts:
    """Judge ``tables`` tables of equals, and as many single comparisons with a true difference."""
    counts = Counts(tables, dict.fromkeys(("modelzoo", *USUAL), 0), dict.fromkeys(("modelzoo", *USUAL), 0))
    quiet = replace(kind, between=0.0)
    for _ in range(tables):
        equals = simulate(generator, kind, draw, ROWS)
        counts.false["modelzoo"] += any(each in CALLED for each in judge.table(kind, equals))
        (row,) = simulate(generator, quiet, draw, 1)
        faster = faster_by(row, DIFFERENCE)
        counts.found["modelzoo"] += judge.table(kind, [faster])[0] is Outcome.FASTER
        for name, test in USUAL.items():
            counts.false[name] += any(called(test, equals))
            counts.found[name] += any(called(test, [faster]))
        counts.twice += kind is ASSUMED and _factor_of_two(judge, draw, generator)
    return counts


def _factor_of_two(judge: Judge, draw: Draw, generator: np.random.Generator) -> bool:
    """Whether a row of a table is FASTER that is twice as fast, if the spread of sessions is assumed."""
    rows = simulate(generator, ASSUMED, draw, ROWS)
    return judge.table(ASSUMED, [faster_by(rows[0], 2.0), *rows[1:]])[0] is Outcome.FASTER


def shown(hits: int, trials: int) -> str:
    """A share with its exact 95 % interval."""
    low, high = clopper_pearson(hits, trials)
    return f"{percent(hits / trials)} [{100 * low:.1f}, {100 * high:.1f}]"


def claims(kind: Kind, several: Sequence[Counts]) -> list[Claim]:
    """What is claimed of a kind of comparison, from the counts of all distributions."""
    tables = sum(counts.tables for counts in several)
    false, found = (sum(values) for values in zip(*((c.false["modelzoo"], c.found["modelzoo"]) for c in several)))
    what = f"{kind.name}: tables of equals with a false verdict: {shown(false, tables)}, at most {percent(FALSE)}"
    made = [Claim(what, false <= FALSE * tables)]
    if kind is ASSUMED:
        twice = sum(counts.twice for counts in several)
        what = f"{kind.name}: a true 5 % is called in {shown(found, tables)}, at most {percent(FALSE)}"
        made.append(Claim(what, found <= FALSE * tables))
        what = f"{kind.name}: a factor of two is found in {shown(twice, tables)}, at least {percent(FOUND)}"
        made.append(Claim(what, twice >= FOUND * tables))
    elif kind.processes == PROCESSES:
        what = f"{kind.name}: a true 5 % is found in {shown(found, tables)}, at least {percent(FOUND)}"
        made.append(Claim(what, found >= FOUND * tables))
    return made


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Print how often each method was wrong and right; the exit code is 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=500, help="simulated tables per row of the output")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    judge, made = Judge(), []
    false: list[list[str]] = []
    found: list[list[str]] = []
    for number, kind in enumerate(KINDS):
        several = []
        for index, draw in enumerate(DISTRIBUTIONS):
            generator = np.random.default_rng([args.seed, number, index])
            counts = count(judge, kind, draw, args.tables, generator)
            name = f"{kind.name}, {draw.__name__}"
            false.append([name, *(shown(each, args.tables) for each in counts.false.values())])
            found.append([name, *(shown(each, args.tables) for each in counts.found.values())])
            several.append(counts)
        made += claims(kind, several)
    header = ("", "modelzoo", *USUAL)
    print(f"Tables of {ROWS} equal rows with a FASTER or SLOWER ({args.tables:,} tables, 95 % intervals)")
    print(table(header, false))
    print("\nSingle comparisons that found a true 5 %; sessions are not disturbed")
    print(table(header, found))
    print()
    return conclude(made)


if __name__ == "__main__":
    sys.exit(main())
