"""How often is `modelzoo check` red although nothing changed, and how often does it find a slowdown of 3 %?

    .venv/bin/python benchmarks/build_checks.py [RECORDING ...] [--checks 1000] [--rounds 16]

A replayed check has one row for each pair of settings that a recording (tests/data/timings) measured in the same
rounds. The log ratio of such a round, less the mean of its pair, is what a round shows of two equal sides: each check
draws its rounds from them, with replacement, and goes through the comparison and the gate of the command, with looks
planned as in a call of that many rounds. The recorded machine is a virtual one on a shared server, whose rounds differ
by 8 to 9 %; for quieter machines the same deviations are made smaller.

The claims: at most 2 of 100 checks of equal sides are red, by the 99.9 % Clopper-Pearson bound; and at least 95 of 100
checks find one row that takes 3 % longer, where rounds differ by 1 % or less. Nothing is measured.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, stdev

from binomial import clopper_pearson
from claims import Claim, conclude, percent, table
from precision import LEAST_POOL, RATIO, pools
from recordings import kept, read
from simulated_sessions import TEMPLATE

from modelzoo.comparison.compare import FailOn, compare_interleaved, gate
from modelzoo.comparison.model import StoredResult
from modelzoo.errors import ModelzooError
from modelzoo.frozen import replace
from modelzoo.records.run import Latency, Result, Run, RunReport, SettingRequest
from modelzoo.records.timing import Design, StopReason
from modelzoo.results import store
from modelzoo.stats import planned_looks

MINIMUM = 8
SLOWER = 0.03
SPREADS = (0.02, 0.01, 0.005)
"""Standard deviations of the log ratio of a round on quieter machines."""
QUIET = 0.01
"""The largest of them at which a slowdown must be found."""
CONFIDENCE = 0.998
"""Of the two-sided interval whose lower end decides."""
MOST_RED, LEAST_FOUND = 0.02, 0.95
CONDITIONS = (FailOn("slower", 0.0), FailOn("invalid"))
"""The default of ``--fail-on``."""
Pool = Sequence[float]


@dataclass(frozen=True)
class Row:
    """One row of a replayed check.

    Attributes:
        pool: log ratios of rounds of equal sides, of which it draws.
        slower: the true time of head over that of base.
    """

    pool: Pool
    slower: float = 1.0


class Replay:
    """Makes results of checks, in which only the times are drawn."""

    def __init__(self, rounds: int) -> None:
        self._rounds, self._looks = rounds, planned_looks(MINIMUM, rounds)
        self._template = next(run for run in store.read(TEMPLATE).runs if run.report is not None and run.steady)
        assert self._template.report is not None
        self._report: RunReport = self._template.report

    def is_red(self, rows: Sequence[Row], generator: Random) -> bool:
        """Whether the check of these rows fails."""
        found = compare_interleaved(StoredResult("", self._result(rows, generator)), ("base", "head"))
        assert all(row.ratio is not None for row in found.rows)
        return any(gate(found, CONDITIONS).failures)

    def _result(self, rows: Sequence[Row], generator: Random) -> Result:
        runs: list[Run] = []
        for number, row in enumerate(rows):
            for index in range(self._rounds):
                ratio = row.slower * math.exp(-generator.choice(row.pool))
                runs += self._round(f"workload-{number}", 2 * number, index, ratio)
        names = [f"workload-{number}" for number in range(len(rows))]
        designs = (
            Design(name, 0.05, 300.0, looks=self._looks, maximum=self._rounds, stop_reason=StopReason.BUDGET)
            for name in names
        )
        requested = tuple(SettingRequest(name, self._template.requested) for name in names for _ in range(2))
        payload = Latency(designs=tuple(designs))
        return Result((), self._template.started, requested, tuple(runs), payload=payload)

    def _round(self, workload: str, group: int, index: int, ratio: float) -> Iterator[Run]:
        """One process of each side."""
        timing = self._report.timing
        assert timing is not None
        for side, seconds in enumerate((1.0, ratio)):
            series = tuple(
                replace(each, values=(seconds,)) if each.name == timing.watched else each for each in timing.series
            )
            report = replace(self._report, workload=workload, timing=replace(timing, series=series))
            yield replace(self._template, workload=workload, group=group + side, round=index, report=report)


def recorded(paths: Sequence[Path]) -> dict[str, list[Pool]]:
    """The pools of each recording, of as many rounds as tell how they differ."""
    found: dict[str, list[Pool]] = {}
    for path in paths:
        ratios = pools(RATIO, read(path).processes)
        values = [each for each in ratios.values() if len(each) >= LEAST_POOL]
        centred = [[value - fmean(each) for value in each] for each in values]
        if centred:
            found[path.name] = [list(each) for each in centred]
    return found


def scaled(pool: Pool, spread: float) -> Pool:
    """The same deviations, with this standard deviation."""
    factor = spread / stdev(pool)
    return [factor * each for each in pool]


def replayed(
    name: str, own: Sequence[Pool], args: argparse.Namespace, generator: Random
) -> tuple[list[list[str]], list[Claim]]:
    """The lines of the table and the claims of one recording."""
    replay = Replay(args.rounds)
    lines, claims = [], []
    for spread in (None, *SPREADS):
        rows = [Row(pool if spread is None else scaled(pool, spread)) for pool in own]
        slow = [slowed(rows[0]), *rows[1:]]
        red, found = (sum(replay.is_red(each, generator) for _ in range(args.checks)) for each in (rows, slow))
        shown = "as recorded" if spread is None else percent(spread)
        lines.append([f"{name}, rounds differ: {shown}", percent(red / args.checks), percent(found / args.checks)])
        lowest, _ = clopper_pearson(red, args.checks, CONFIDENCE)
        claims.append(Claim(f"{name}, {shown}: at most {percent(MOST_RED)} of equal sides are red", lowest <= MOST_RED))
        if spread is not None and spread <= QUIET:
            is_found = found / args.checks >= LEAST_FOUND
            claims.append(Claim(f"{name}, {shown}: {percent(SLOWER)} are found in {percent(LEAST_FOUND)}", is_found))
    return lines, claims


def slowed(row: Row) -> Row:
    """The row with a slowdown."""
    return Row(row.pool, 1 + SLOWER)


def main(words: Sequence[str] | None = None) -> int:
    """Print what the replayed checks found; return 1 unless every claim holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", type=Path, metavar="RECORDING", help="default: those of tests/data")
    parser.add_argument("--checks", type=int, default=1000, metavar="N", help="checks of each kind (default 1000)")
    parser.add_argument("--rounds", type=int, default=16, metavar="N", help="rounds of a check (default 16)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws (default 0)")
    args = parser.parse_args(words)
    try:
        found = recorded(args.recordings or kept())
    except ModelzooError as error:
        print(f"build_checks.py: error: {error}", file=sys.stderr)
        return 2
    if not found:
        print(f"build_checks.py: error: no recording has {LEAST_POOL} rounds of a pair of settings", file=sys.stderr)
        return 2
    generator = Random(args.seed)
    results = [replayed(name, own, args, generator) for name, own in found.items()]
    print(table(("recording", "equal sides: red", "3 % slower: red"), [line for lines, _ in results for line in lines]))
    return conclude([claim for _, claims in results for claim in claims])


if __name__ == "__main__":
    sys.exit(main())
