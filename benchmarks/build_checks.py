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
from pathlib import Path
from random import Random
from statistics import fmean, stdev

from common import Claim, conclude, parser_of, percent, table
from promises import CONFIDENCE, clopper_pearson
from recordings import TIMINGS, Process, read
from simulations import template, timed

from modelzoo.comparison.compare import FailOn, compare_interleaved, gate
from modelzoo.comparison.estimate import StoredResult
from modelzoo.errors import ModelzooError
from modelzoo.frozen import replace
from modelzoo.records.run import Latency, Result, Run, SettingRequest
from modelzoo.records.timing import Design, StopReason
from modelzoo.stats import planned_looks

MINIMUM = 8
LEAST_POOL = 40
"""Smaller pools are left out: draws would often contain a round twice, and then vary too little."""
SLOWER = 0.03
SPREADS = (0.02, 0.01, 0.005)
"""Standard deviations of the log ratio of a round on quieter machines."""
QUIET = 0.01
"""The largest of them at which a slowdown must be found."""
MOST_RED, LEAST_FOUND = 0.02, 0.95
CONDITIONS = (FailOn("slower", 0.0), FailOn("invalid"))
"""The default of ``--fail-on``."""
Pool = Sequence[float]
"""Log ratios of rounds of equal sides."""


def is_red(pools: Sequence[Pool], slower: float, rounds: int, generator: Random) -> bool:
    """Whether a check fails that has a row for each pool; the head of the first one takes ``slower`` times as long."""
    runs: list[Run] = []
    names = [f"workload-{number}" for number in range(len(pools))]
    for number, (name, pool) in enumerate(zip(names, pools)):
        for index in range(rounds):
            ratio = (slower if number == 0 else 1.0) * math.exp(-generator.choice(pool))
            runs += _round(name, 2 * number, index, ratio)
    looks = planned_looks(MINIMUM, rounds)
    designs = (Design(name, 0.05, 300.0, looks=looks, maximum=rounds, stop_reason=StopReason.BUDGET) for name in names)
    requested = tuple(SettingRequest(name, template().requested) for name in names for _ in range(2))
    result = Result((), template().started, requested, tuple(runs), payload=Latency(designs=tuple(designs)))
    found = compare_interleaved(StoredResult("", result), ("base", "head"))
    assert all(row.ratio is not None for row in found.rows)
    return any(gate(found, CONDITIONS).failures)


def _round(workload: str, group: int, index: int, ratio: float) -> Iterator[Run]:
    """One process of each side."""
    for side, seconds in enumerate((1.0, ratio)):
        run = timed(seconds)
        assert run.report is not None
        report = replace(run.report, workload=workload)
        yield replace(run, workload=workload, group=group + side, round=index, report=report)


def recorded(paths: Sequence[Path]) -> dict[str, list[Pool]]:
    """The pools of each recording, of as many rounds as tell how they differ: less their mean."""
    found: dict[str, list[Pool]] = {}
    for path in paths:
        values = [each for each in ratios(read(path).processes) if len(each) >= LEAST_POOL]
        if values:
            found[path.name] = [[value - fmean(each) for value in each] for each in values]
    return found


def ratios(processes: Sequence[Process]) -> list[list[float]]:
    """By workload and setting, the log ratios of its rounds to those of the workload's first setting."""
    baseline: dict[str, str] = {}
    for each in processes:
        baseline.setdefault(each.workload, each.label)
    base = {(p.workload, p.session, p.round): p.level for p in processes if p.label == baseline[p.workload]}
    found: dict[tuple[str, str], list[float]] = {}
    for each in processes:
        place = (each.workload, each.session, each.round)
        if each.label != baseline[each.workload] and place in base:
            found.setdefault((each.workload, each.label), []).append(base[place] - each.level)
    return list(found.values())


def scaled(pool: Pool, spread: float) -> Pool:
    """The same deviations, with this standard deviation."""
    factor = spread / stdev(pool)
    return [factor * each for each in pool]


def replayed(
    name: str, own: Sequence[Pool], args: argparse.Namespace, generator: Random
) -> tuple[list[list[str]], list[Claim]]:
    """The lines of the table and the claims of one recording."""
    lines, claims = [], []
    for spread in (None, *SPREADS):
        pools = own if spread is None else [scaled(pool, spread) for pool in own]
        red, found = (
            sum(is_red(pools, slower, args.rounds, generator) for _ in range(args.checks))
            for slower in (1.0, 1 + SLOWER)
        )
        shown = "as recorded" if spread is None else percent(spread)
        lines.append([f"{name}, rounds differ: {shown}", percent(red / args.checks), percent(found / args.checks)])
        lowest, _ = clopper_pearson(red, args.checks, CONFIDENCE)
        claims.append(Claim(f"{name}, {shown}: at most {percent(MOST_RED)} of equal sides are red", lowest <= MOST_RED))
        if spread is not None and spread <= QUIET:
            is_found = found / args.checks >= LEAST_FOUND
            claims.append(Claim(f"{name}, {shown}: {percent(SLOWER)} are found in {percent(LEAST_FOUND)}", is_found))
    return lines, claims


def main(words: Sequence[str] | None = None) -> int:
    """Print what the replayed checks found; return 1 unless every claim holds."""
    parser = parser_of(__doc__)
    parser.add_argument("recordings", nargs="*", type=Path, metavar="RECORDING", help="default: those of tests/data")
    parser.add_argument("--checks", type=int, default=1000, metavar="N", help="checks of each kind (default 1000)")
    parser.add_argument("--rounds", type=int, default=16, metavar="N", help="rounds of a check (default 16)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws (default 0)")
    args = parser.parse_args(words)
    try:
        found = recorded(args.recordings or sorted(TIMINGS.glob("*.json.gz")))
    except ModelzooError as error:
        parser.error(str(error))
    if not found:
        parser.error(f"no recording has {LEAST_POOL} rounds of a pair of settings")
    generator = Random(args.seed)
    results = [replayed(name, own, args, generator) for name, own in found.items()]
    print(table(("recording", "equal sides: red", "3 % slower: red"), [line for lines, _ in results for line in lines]))
    return conclude([claim for _, claims in results for claim in claims])


if __name__ == "__main__":
    sys.exit(main())
