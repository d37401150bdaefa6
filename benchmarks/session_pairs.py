"""How often does `modelzoo compare` call sessions of the same settings FASTER or SLOWER?

    .venv/bin/python benchmarks/session_pairs.py RESULT RESULT ... [--same-inputs]

All results must come from the same command on one machine. They are compared with each other as `modelzoo compare`
does, by both of its ways to know how much sessions differ:

- assumed: every pair of sessions;
- own sessions: three sessions against three others, in every way to choose them; it needs 6 results of different days.

``--same-inputs`` is for sessions that were recorded when BERT with random weights had other token ids in each process.
It takes all inputs of a workload for the same; BERT's time does not depend on the values of the ids.

The claim: nothing is called FASTER or SLOWER. A comparison is a table, and its verdicts are corrected for its rows.
Comparisons share sessions, so their number says little about how often a verdict is wrong.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median

import common  # noqa: F401 - puts the checkout on the path
from claims import Claim, conclude, table

from modelzoo.comparison.compare import Comparison, Question, compare
from modelzoo.comparison.estimate import LEAST_DAYS
from modelzoo.comparison.model import Row, StoredResult
from modelzoo.comparison.pairing import make_side
from modelzoo.errors import ModelzooError
from modelzoo.frozen import replace
from modelzoo.results import store
from modelzoo.results.refusals import Metric
from modelzoo.stats import Basis, Outcome

CALLED = (Outcome.FASTER, Outcome.SLOWER, Outcome.LESS, Outcome.MORE)
Sessions = Sequence[StoredResult]


@dataclass(frozen=True)
class Way:
    """One of the ways, and the pairs of sides that it compares.

    Attributes:
        basis: what the ratios must be based on.
        pairs: the sides of each comparison.
        missing: why there are no pairs; empty if there are.
    """

    basis: Basis
    pairs: tuple[tuple[Sessions, Sessions], ...]
    missing: str = ""


def ways(results: Sessions) -> list[Way]:
    """The comparisons that these sessions allow."""
    single = tuple(((a,), (b,)) for a, b in combinations(results, 2))
    halves = tuple(_halves(results))
    return [
        Way(Basis.ASSUMED, single, "" if single else "one session cannot be compared"),
        Way(Basis.SESSIONS, halves, "" if halves else f"{len(results)} results, {2 * LEAST_DAYS} are needed"),
    ]


def _halves(results: Sessions) -> Iterator[tuple[Sessions, Sessions]]:
    """All unordered pairs of ``LEAST_DAYS`` sessions and as many others."""
    for chosen in combinations(range(len(results)), 2 * LEAST_DAYS):
        for first in combinations(chosen, LEAST_DAYS):
            # Of a pair and its mirror image, the one whose first half has the oldest session.
            if first[0] == chosen[0]:
                yield [results[i] for i in first], [results[i] for i in chosen if i not in first]


def comparisons(way: Way, metric: Metric = Metric.LATENCY) -> list[Comparison]:
    """Compare all pairs of sides of a way."""
    sides = [(make_side("base", base), make_side("other", other)) for base, other in way.pairs]
    return [compare(base, other, Question(metric=metric)) for base, other in sides]


def with_same_inputs(stored: StoredResult) -> StoredResult:
    """The result as if the inputs of its processes had one and the same digest."""
    runs = tuple(
        replace(run, report=replace(run.report, inputs_digest="taken for the same")) if run.report is not None else run
        for run in stored.result.runs
    )
    return replace(stored, result=replace(stored.result, runs=runs))


def rows_of(found: Sequence[Comparison]) -> dict[str, list[Row]]:
    """The rows of all comparisons by workload and setting."""
    rows: dict[str, list[Row]] = {}
    for comparison in found:
        for row in comparison.rows:
            rows.setdefault(f"{row.workload} {row.label}", []).append(row)
    return rows


def cells(way: Way, name: str, rows: Sequence[Row]) -> list[str]:
    """A line of the table: outcomes, the largest difference and the median half width of the intervals."""
    counts = Counter(row.outcome for row in rows)
    known = [row.speed.found for row in rows if row.speed.found is not None]
    bases = Counter(each.basis for each in known)
    differences = [math.expm1(abs(math.log(each.interval.value))) for each in known]
    widths = [math.expm1(math.log(each.interval.high / each.interval.value)) for each in known]
    return [
        f"{way.basis}: {name}",
        str(len(rows)),
        str(sum(counts[each] for each in CALLED)),
        str(counts[Outcome.SAME]),
        str(counts[Outcome.AMBIGUOUS]),
        str(counts[Outcome.NOT_COMPARABLE]),
        str(bases[way.basis]),
        f"{100 * max(differences):.1f} %" if known else "–",
        f"±{100 * median(widths):.1f} %" if known else "–",
    ]


HEADER = (
    "", "rows", "called", "SAME", "AMBIGUOUS", "not comparable", "on this basis", "largest difference", "interval",
)  # fmt: skip


def claim(way: Way, found: Sequence[Comparison]) -> Claim:
    """Nothing is called; not shown if there was nothing to compare, or if a ratio had another basis."""
    rows = [row for comparison in found for row in comparison.rows]
    if not rows:
        return Claim(f"{way.basis}: {way.missing}", None)
    called = sum(row.outcome in CALLED for row in rows)
    tables = sum(any(row.outcome in CALLED for row in comparison.rows) for comparison in found)
    what = f"{way.basis}: {called} of {len(rows)} rows in {tables} of {len(found)} comparisons are called"
    others = sum(row.speed.found is None or row.speed.found.basis is not way.basis for row in rows)
    if others:
        return Claim(f"{what}; {others} rows have another basis or none", None if not called else False)
    return Claim(what, not called)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the outcomes; the exit code is 1 if a claim does not hold or cannot be shown, 2 if a file is unusable."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT")
    parser.add_argument("--same-inputs", action="store_true", help="do not compare the digests of the inputs")
    parser.add_argument("--metric", type=Metric, choices=list(Metric), default=Metric.LATENCY)
    args = parser.parse_args(arguments)
    try:
        results = [StoredResult(str(path), store.read(path)) for path in args.results]
        results = [with_same_inputs(each) for each in results] if args.same_inputs else results
        results.sort(key=lambda stored: stored.result.created)
        lines, made = [], []
        for way in ways(results):
            found = comparisons(way, args.metric)
            lines += [cells(way, name, rows) for name, rows in rows_of(found).items()]
            made.append(claim(way, found))
    except ModelzooError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(table(HEADER, lines) + "\n")
    return conclude(made)


if __name__ == "__main__":
    sys.exit(main())
