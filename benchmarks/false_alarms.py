"""How often is a verdict wrong? A is compared with A, and with A slowed down by 3 %.

    .venv/bin/python benchmarks/false_alarms.py [--comparisons 100] [--processes 15] [--stride 1]
    .venv/bin/python benchmarks/false_alarms.py --rounds FILE    # store the rounds, and resume after an interruption

Everything is measured as the suite does it: new processes, rounds A A B, B A A …, sampling in alternating turns, the
interval of the ratio, the verdict. A has 100 equal layers; it is compared with itself, and with a model of 103 layers.
A comparison uses ``--processes`` consecutive rounds, and the next one starts ``--stride`` rounds later. If the stride
equals the number of processes, comparisons are independent; if it is 1, they overlap, and 100 of them take a quarter
of an hour. In every other comparison a drift is simulated as well: times grow by 2 % from its first process to its
last.

The claim: at most 5 of 100 verdicts on A against A are FASTER or SLOWER, and at least 95 of 100 slowdowns are
detected. One thread is used, so that a small machine need not have all of its cores free.
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
from modelzoo.measure import schedule
from modelzoo.measure.blocks import blocks
from modelzoo.measure.request import Request
from modelzoo.records.run import Run
from modelzoo.setting import Effort, Plan, Setting
from modelzoo.workload import discovery

DEPTH, SLOWER, WIDTH, BATCH = 100, 103, 64, 64
DRIFT = 0.02
STORED_EVERY = 10
"""``--rounds FILE`` is written whenever this many rounds have been measured."""


def rounds(settings: tuple[Setting, ...], count: int, seconds: float) -> list[list[list[float]]]:
    """Measure ``count`` interleaved rounds; return the steady-state samples by setting and round."""
    work = discovery.load_workload(discovery.find_workload(MLP))
    request = Request(work, settings, Plan(max_seconds=seconds), audit=False)
    sides: list[list[list[float]]] = [[[] for _ in range(count)] for _ in settings]
    outcomes = schedule.measure([request], Effort(processes=count), lambda event: None)
    for run in (each for each in outcomes if isinstance(each, Run)):
        if run.error:
            raise SystemExit(f"a worker failed: {run.error}")
        sides[run.group][run.round] = list(run.steady)
    return sides


def drifting(sides: list[list[list[float]]], drift: float) -> list[list[list[float]]]:
    """Slow down the samples of one comparison, more and more in the order in which they ran."""
    count = len(sides[0])
    rounds = ((number, index) for number in range(count) for index in blocks(range(len(sides)), len(sides), number)[0])
    places = {place: number for number, place in enumerate(rounds)}
    last = len(places) - 1
    return [
        [[x * (1 + drift * places[r, index] / last) for x in side[r]] for r in range(count)]
        for index, side in enumerate(sides)
    ]


def all_rounds(settings: tuple[Setting, ...], count: int, seconds: float, file: Path | None) -> list[list[list[float]]]:
    """Measure ``count`` rounds, except those that are stored in ``file``."""
    sides: list[list[list[float]]] = [[] for _ in settings]
    if file and file.exists():
        sides = json.loads(file.read_text())
    while len(sides[0]) < count:
        more = rounds(settings, min(STORED_EVERY, count - len(sides[0])), seconds)
        sides = [side + new for side, new in zip(sides, more)]
        if file:
            file.write_text(json.dumps(sides))
        print(f"{len(sides[0])} of {count} rounds", file=sys.stderr, flush=True)
    return sides


def main() -> int:
    """Print how often each verdict was given; the exit code is 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=100)
    parser.add_argument("--processes", type=int, default=15)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=Path, metavar="FILE", help="JSON file of rounds to resume from and to write")
    args = parser.parse_args()
    started = perf_counter()
    same = Setting(threads=1, batch=BATCH, weights="random", options={"depth": DEPTH, "width": WIDTH})
    slow = same.replace(options={"depth": SLOWER, "width": WIDTH})
    count = (args.comparisons - 1) * args.stride + args.processes
    sides = all_rounds((same, same, slow), count, args.seconds, args.rounds)
    equal: Counter[stats.SpeedVerdict] = Counter()
    slower: Counter[stats.SpeedVerdict] = Counter()
    for number in range(args.comparisons):
        start = number * args.stride
        chosen = [side[start : start + args.processes] for side in sides]
        first, second, third = drifting(chosen, DRIFT if number % 2 else 0.0)
        equal[stats.compare(first, second, paired=True)[1].outcome] += 1
        slower[stats.compare(first, third, paired=True)[1].outcome] += 1
    false = equal[stats.SpeedVerdict.FASTER] + equal[stats.SpeedVerdict.SLOWER]
    found = slower[stats.SpeedVerdict.SLOWER]
    for name, verdicts in (("A against A", equal), ("3 % slower", slower)):
        print(f"{name}: " + ", ".join(f"{verdict} {times}" for verdict, times in verdicts.most_common()))
    print(
        f"{false} false alarms and {found} detected slowdowns in {args.comparisons} comparisons; {args.processes} "
        f"processes per side, stride {args.stride}, {count} rounds, {perf_counter() - started:.0f} s"
    )
    return 0 if false <= 0.05 * args.comparisons and found >= 0.95 * args.comparisons else 1


if __name__ == "__main__":
    sys.exit(main())
