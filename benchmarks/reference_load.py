"""Does the reference load disturb what it serves? Turns of a worker after a turn of the load, and without one.

    .venv/bin/python benchmarks/reference_load.py [--workloads resnet50,bert] [--rounds 20] [--seconds 10]

In each round one new worker samples as it does in a run. Its turns go with, without, without, with a turn of the
reference load before them; without it, one turn follows the other at once, so nothing has used the caches in between.
The median of the samples with it over that of those without it is one value per process.

The claim: the ratio, with its whole 95 % interval, is 1 ± 0.01.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Optional

import common  # noqa: F401 - puts the checkout on the path
from claims import Claim, conclude

from modelzoo import stats
from modelzoo.machine.cpu import usable_threads
from modelzoo.measure.jobs import Request, prepare
from modelzoo.measure.rounds import Reference, WorkerRun
from modelzoo.plan import Plan
from modelzoo.records.protocol import Preparation
from modelzoo.records.run import Run
from modelzoo.setting import Setting
from modelzoo.workload import discovery

PATTERN = (True, False, False, True)
"""Whether the load comes before a turn; a linear drift affects both kinds alike."""
WITHIN = 0.01

Sides = tuple[list[list[float]], list[list[float]]]
"""Samples with and without the load, by process."""


def sampled(request: Request, prepared: Preparation, number: int, before: Callable[[], object]) -> Run:
    """Let one new worker sample; ``before`` is called before those of its turns that follow a turn of the load."""
    with ExitStack() as stack:
        worker = WorkerRun(request, 0, number, lambda event: None)
        worker.start(prepared, False, False, stack)
        turn = -1  # the first pause follows the imports
        while worker.advance():
            if turn >= 0 and PATTERN[turn % len(PATTERN)]:
                before()
            worker.process.resume()
            turn += 1
        return worker.finish()


def divided(run: Run) -> tuple[list[float], list[float]]:
    """Divide the samples of a run by whether the load came before their turn.

    Raises:
        SystemExit: the worker failed, or had turns of one kind only.
    """
    if run.report is None or run.report.turns is None:
        raise SystemExit(f"a worker failed: {run.error}")
    sides: tuple[list[float], list[float]] = ([], [])
    start = 0
    for number, turn in enumerate(run.report.turns):
        count = turn.samples or 0
        sides[0 if PATTERN[number % len(PATTERN)] else 1].extend(run.steady[start : start + count])
        start += count
    if not all(sides):
        raise SystemExit("a worker took too few turns: give more --seconds")
    return sides


def compare(workload: str, rounds: int, seconds: float, setting: Optional[Setting] = None) -> Claim:
    """Measure one workload; return the claim."""
    setting = setting or Setting(weights="random")
    work = discovery.load_workload(discovery.find_workload(workload))
    request = Request(work, (setting,), Plan(max_seconds=seconds), audit=False)
    (prepared,) = prepare(request, lambda event: None)
    sides: Sides = ([], [])
    with Reference(setting.threads or usable_threads().count) as reference:
        for number in range(rounds):
            found = divided(sampled(request, prepared, number, reference.turn))
            if reference.problem is not None:
                raise SystemExit(f"the reference load ended: {reference.problem}")
            for side, samples in zip(sides, found):
                side.append(samples)
    return judged(work.name, sides)


def judged(name: str, sides: Sides) -> Claim:
    """The claim about one workload."""
    ratio = stats.ratio_interval(*sides, paired=True)
    shown = f"{ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}]"
    what = f"{name}: with the reference load ÷ without it = {shown} from {len(sides[0])} processes, 1 ± {WITHIN}"
    if abs(ratio.value - 1) > WITHIN:
        return Claim(what, False)
    if ratio.low < 1 - WITHIN or ratio.high > 1 + WITHIN:
        return Claim(f"{what}; the interval is too wide, give more --rounds", None)
    return Claim(what, True)


def main() -> int:
    """Print the ratios; the exit code is 1 if a claim does not hold or cannot be shown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="resnet50,bert", help="names or directories; random weights, fp32")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each process samples")
    args = parser.parse_args()
    return conclude([compare(name, args.rounds, args.seconds) for name in args.workloads.split(",")])


if __name__ == "__main__":
    sys.exit(main())
