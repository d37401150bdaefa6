"""How often the verdict is wrong: A against A, and A against A slowed down by 3 %.

    .venv/bin/python benchmarks/false_alarms.py [--comparisons 100] [--processes 5]

Every comparison goes through the suite's own interleaved path: fresh processes, rounds A B, B A …, ratio
interval, verdict word. A has 100 equal layers. Its equal is A itself; the slowed one has 103. In half of
the comparisons a drift is simulated on top: times grow by 2 % from the first process to the last. The
claim: at most 5 of 100 A-against-A verdicts are FASTER or SLOWER, and at least 95 of 100 slowdowns are found.
One thread, so that the two cores of a small machine do not have to be free at once.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from time import perf_counter

from common import MLP

from modelzoo import runner, stats, workload
from modelzoo.setting import Plan, Setting

DEPTH, SLOWER = 100, 103
DRIFT = 0.02


def rounds(settings: tuple[Setting, ...], processes: int, seconds: float, drift: float) -> list[list[list[float]]]:
    """Steady samples by setting and round, with ``drift`` growing over the whole comparison."""
    work = workload.load(workload.find(MLP))
    request = runner.Request(work, settings, Plan(max_seconds=seconds), processes, audit=False)
    runs = list(runner.run(request, lambda message: None))
    places = list(runner.order(len(settings), processes))
    sides: list[list[list[float]]] = [[[] for _ in range(processes)] for _ in settings]
    for number, (run, (round_number, index)) in enumerate(zip(runs, places)):
        if run.error:
            raise SystemExit(f"a worker failed: {run.error}")
        factor = 1 + drift * number / (len(runs) - 1)
        sides[index][round_number] = [sample * factor for sample in run.steady]
    return sides


def main() -> int:
    """Print how the verdicts fell; exit code 1 where the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=100)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    args = parser.parse_args()
    started = perf_counter()
    same = Setting(threads=1, weights="random", options={"depth": DEPTH})
    slow = same.but(options={"depth": SLOWER})
    verdicts: dict[str, Counter[str]] = {"A against A": Counter(), "3 % slower": Counter()}
    for number in range(args.comparisons):
        drift = DRIFT if number % 2 else 0.0
        first, second, third = rounds((same, same, slow), args.processes, args.seconds, drift)
        for name, other in (("A against A", second), ("3 % slower", third)):
            ratio = stats.ratio_interval(first, other)
            verdicts[name][stats.judge(ratio).word] += 1
            print(f"{number + 1:4d} {name:12s} {ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}]", flush=True)
    false = sum(verdicts["A against A"][word] for word in ("FASTER", "SLOWER"))
    found = verdicts["3 % slower"]["SLOWER"]
    print(f"\nA against A: {dict(verdicts['A against A'])}: {false} false of {args.comparisons}")
    print(f"3 % slower:  {dict(verdicts['3 % slower'])}: {found} found of {args.comparisons}")
    print(f"{args.processes} processes a side, {perf_counter() - started:.0f} s in all")
    return 0 if false <= 0.05 * args.comparisons and found >= 0.95 * args.comparisons else 1


if __name__ == "__main__":
    sys.exit(main())
