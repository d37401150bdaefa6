"""How often the verdict is wrong: A against A, and A against A slowed down by 3 %.

    .venv/bin/python benchmarks/false_alarms.py [--comparisons 100] [--processes 15] [--stride 1]
    .venv/bin/python benchmarks/false_alarms.py --rounds FILE    # keep the rounds; go on where it was interrupted

Everything goes through the suite's own interleaved path: fresh processes, rounds A A B, B A A …, sampling by
turns, ratio interval, verdict word. A has 100 equal layers; its rival is A itself, or A with 103. A comparison
takes ``--processes`` neighbouring rounds and the next one starts ``--stride`` rounds later: with a stride of the
same size comparisons are independent, with 1 they overlap and 100 of them take a quarter of an hour. In
every other comparison a drift is simulated on top: times grow by 2 % from its first process to its last.

The claim: at most 5 of 100 A-against-A verdicts are FASTER or SLOWER, and at least 95 of 100 slowdowns are
found. One thread, so that a small machine need not have all its cores free.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter

from common import MLP

from modelzoo import stats
from modelzoo.measure import schedule as runner
from modelzoo.setting import Plan, Setting
from modelzoo.workload import discovery

DEPTH, SLOWER, WIDTH, BATCH = 100, 103, 64, 64
DRIFT = 0.02
STORED_EVERY = 10
"""Rounds between two writes of ``--rounds FILE``."""


def rounds(settings: tuple[Setting, ...], count: int, seconds: float) -> list[list[list[float]]]:
    """Steady samples by setting and round, of ``count`` interleaved rounds."""
    work = discovery.load_workload(discovery.find_workload(MLP))
    request = runner.Request(work, settings, Plan(max_seconds=seconds), count, audit=False)
    sides: list[list[list[float]]] = [[[] for _ in range(count)] for _ in settings]
    runs = runner.run(request, lambda message: None)
    for run, (round_number, index) in zip(runs, runner.order(len(settings), count)):
        if run.error:
            raise SystemExit(f"a worker failed: {run.error}")
        sides[index][round_number] = run.steady
    return sides


def drifting(sides: list[list[list[float]]], drift: float) -> list[list[list[float]]]:
    """The samples of one comparison, slowed down more and more in the order in which they ran."""
    count = len(sides[0])
    places = {place: number for number, place in enumerate(runner.order(len(sides), count))}
    last = len(places) - 1
    return [
        [[x * (1 + drift * places[r, index] / last) for x in side[r]] for r in range(count)]
        for index, side in enumerate(sides)
    ]


def main() -> int:
    """Print how the verdicts fell; exit code 1 where the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=100)
    parser.add_argument("--processes", type=int, default=15)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=Path, metavar="FILE", help="rounds in this JSON file are not measured again")
    args = parser.parse_args()
    started = perf_counter()
    same = Setting(threads=1, batch=BATCH, weights="random", options={"depth": DEPTH, "width": WIDTH})
    slow = same.replace(options={"depth": SLOWER, "width": WIDTH})
    count = (args.comparisons - 1) * args.stride + args.processes
    sides: list[list[list[float]]] = [[], [], []]
    if args.rounds and args.rounds.exists():
        sides = json.loads(args.rounds.read_text())
    kept = len(sides[0])
    while len(sides[0]) < count:
        more = rounds((same, same, slow), min(STORED_EVERY, count - len(sides[0])), args.seconds)
        sides = [side + new for side, new in zip(sides, more)]
        if args.rounds:
            args.rounds.write_text(json.dumps(sides))
        print(f"{len(sides[0])} of {count} rounds", file=sys.stderr, flush=True)
    verdicts: dict[str, Counter[str]] = {"A against A": Counter(), "3 % slower": Counter()}
    for number in range(args.comparisons):
        start = number * args.stride
        chosen = [side[start : start + args.processes] for side in sides]
        first, second, third = drifting(chosen, DRIFT if number % 2 else 0.0)
        for name, other in (("A against A", second), ("3 % slower", third)):
            verdicts[name][stats.compare(first, other, paired=True)[1].outcome.value] += 1
    false = sum(verdicts["A against A"][word] for word in ("FASTER", "SLOWER"))
    found = verdicts["3 % slower"]["SLOWER"]
    print(f"A against A: {dict(verdicts['A against A'])}: {false} false of {args.comparisons}")
    print(f"3 % slower:  {dict(verdicts['3 % slower'])}: {found} found of {args.comparisons}")
    print(
        f"{args.processes} processes a side, stride {args.stride}, {count} rounds ({kept} of them from {args.rounds}), "
        f"{perf_counter() - started:.0f} s"
    )
    return 0 if false <= 0.05 * args.comparisons and found >= 0.95 * args.comparisons else 1


if __name__ == "__main__":
    sys.exit(main())
