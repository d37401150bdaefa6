"""Is the winner of a search the best of all candidates? All are measured again, interleaved.

    .venv/bin/modelzoo tune resnet50 --json tuned.json
    .venv/bin/python benchmarks/tune_winner.py tuned.json [--rounds 3] [--final 12] [--speedup 1.9] [-o again.json]

First, every candidate that could run and was proven is measured in a few rounds, whether the search had time for it or
not: the fastest of these is taken for the best of all. Then the default, the winner and this best one are measured
again in the same rounds, in processes that took no part in any choice.

The claims: the winner takes at most 1.03 times as long as the best of all. With --speedup, it is at least that many
times as fast as the default. Run it when nothing else runs.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median

import common  # noqa: F401 - puts the checkout on the path
from claims import Claim, conclude, table

from modelzoo import stats
from modelzoo.errors import ModelzooError
from modelzoo.frozen import replace
from modelzoo.measure.jobs import Request
from modelzoo.measure.rounds import Rounds
from modelzoo.plan import Plan
from modelzoo.records.race import ExclusionKind
from modelzoo.records.run import Result, Run
from modelzoo.results import store, tuning
from modelzoo.setting import Setting
from modelzoo.workload import Workload, discovery

BEHIND = 1.03
"""The goal: time of the winner ÷ time of the best of all."""
SECONDS = 3.0
"""How long each process samples."""
MAY_WIN = (ExclusionKind.SLOWER, ExclusionKind.NOT_MEASURED)
"""Exclusions that are about time only."""


def eligible(result: Result) -> list[int]:
    """The candidates that could win, as far as the search has found out."""
    out = {each.entrant for each in tuning.of(result).excluded if each.kind not in MAY_WIN}
    return [group for group in range(1, tuning.of(result).candidates) if group not in out]


def measured(request: Request, rounds: int, stored: store.ResultFile | None, groups: Sequence[int]) -> list[Run]:
    """Measure every setting of ``request`` in this many rounds; runs are stored as those of ``groups``."""
    found: list[Run] = []
    source = Rounds(request, lambda event: None)
    for number in range(rounds):
        for run in source.sweep(SECONDS):
            found.append(run)
            if run.error:
                print(f"{request.settings[run.group].label}: {run.error}", file=sys.stderr)
            if stored is not None:
                first = max((each.round for each in stored.result.runs), default=-1) + 1
                stored.add_run(replace(run, group=groups[run.group], round=first))
        print(f"round {number + 1} of {rounds}: {len(found)} processes", file=sys.stderr, flush=True)
    return found


def ratios(runs: Iterable[Run], over: int = 0) -> dict[int, list[float]]:
    """By setting: how many times faster than setting ``over`` in each round that both have, per item."""
    times: dict[int, dict[int, float]] = {}
    for run in runs:
        if run.steady and run.report is not None:
            times.setdefault(run.group, {})[run.round] = median(run.steady) / run.report.setting.batch
    base = times.get(over, {})
    return {group: [base[i] / own[i] for i in sorted(set(own) & set(base))] for group, own in times.items()}


def best_of(found: dict[int, list[float]]) -> int:
    """The setting that is fastest, by the geometric mean over its rounds."""
    return max((group for group in found if group and found[group]), key=lambda g: fmean(map(math.log, found[g])))


def claims(
    final: dict[int, list[float]], over_best: list[float], names: Sequence[str], speedup: float | None
) -> list[Claim]:
    """Print the last rounds; return the claims.

    Args:
        final: of the default (0), the winner (1) and the best of all (2, if it is another), the ratios to the default.
        over_best: time of the winner ÷ time of the best, by round.
        names: their labels.
        speedup: the goal over the default, if any.
    """
    rows = []
    for group, values in final.items():
        level = stats.level_interval(values)
        rows.append([names[group], f"{level.value:.3f}", f"[{level.low:.3f}, {level.high:.3f}]", str(len(values))])
    print(table(["setting", "× the default", "95 % interval", "rounds"], rows))
    behind = stats.level_interval(over_best)
    said = f"{behind.value:.3f} [{behind.low:.3f}, {behind.high:.3f}]"
    found = [Claim(f"time of the winner ÷ the best of all: {said}, at most {BEHIND}", behind.value <= BEHIND)]
    if speedup is not None:
        gained = stats.level_interval(final[1]).value
        found.append(Claim(f"speedup over the default: {gained:.2f}, at least {speedup}", gained >= speedup))
    return found


def main() -> int:
    """Measure and print; the exit code is 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path, help="what 'modelzoo tune' stored")
    parser.add_argument("--rounds", type=int, default=3, help="rounds in which every candidate is measured")
    parser.add_argument("--final", type=int, default=12, help="rounds of the winner, the best of all and the default")
    parser.add_argument("--speedup", type=float, help="the goal over the default")
    parser.add_argument("-o", "--output", type=Path, help="store the runs")
    args = parser.parse_args()
    try:
        result = store.read(args.result)
        chosen = tuning.of(result).choice
        if chosen is None or not chosen.winner:
            raise SystemExit(f"{args.result}: the search has no winner")
        groups = [0, *sorted({*eligible(result), chosen.winner})]
        stored = None
        if args.output is not None:
            stored = store.ResultFile(args.output, Result(tuple(sys.argv), result.created, result.requested))
        work = discovery.load_workload(discovery.find_workload(tuning.of(result).workload))
        best = groups[best_of(ratios(measured(_request(work, result, groups), args.rounds, stored, groups)))]
        last = [0, chosen.winner] + ([best] if best != chosen.winner else [])
        runs = measured(_request(work, result, last), args.final, stored, last)
    except (ModelzooError, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 2
    over_best = [1 / each for each in ratios(runs, over=len(last) - 1)[1]]
    return conclude(claims(ratios(runs), over_best, [result.label(group) for group in last], args.speedup))


def _request(work: Workload, result: Result, groups: Sequence[int]) -> Request:
    settings: tuple[Setting, ...] = tuple(result.requested[group].setting for group in groups)
    return Request(work, settings, Plan(), audit=False)


if __name__ == "__main__":
    sys.exit(main())
