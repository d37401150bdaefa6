"""Does the quick start of a worker change what it measures? Workers that start the old way and the new way, in turn.

    .venv/bin/python benchmarks/process_start.py [--workloads resnet50,bert] [--processes 20] [--seconds 5]

The old way: garbage is collected during imports, every tensor of the model gets random values before the weights are
copied into it, the process is audited in full, and the interpreter is taken apart at the end. The order is old, new,
new, old …, one process at a time.

What must not change is how much the medians of processes differ, which depends on where their memory lies. The claim:
the 95 % interval of the ratio of the two standard deviations contains 1. An interval that reaches beyond a factor of 2
shows nothing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from math import exp, log, sqrt
from time import perf_counter
from types import SimpleNamespace
from typing import Any

from common import Claim, bounds, conclude, parser_of, percent, turns

from modelzoo import stats
from modelzoo.measure.jobs import Request, prepare
from modelzoo.measure.launcher import LocalLauncher
from modelzoo.measure.rounds import WorkerRun
from modelzoo.plan import Plan
from modelzoo.records.protocol import Preparation
from modelzoo.records.workload import Weights
from modelzoo.setting import Setting
from modelzoo.stats.intervals import student_t
from modelzoo.workload import Workload, discovery
from modelzoo.workload.weights import Loaded

WIDEST = 2.0
"""An interval of the ratio must lie within a factor of this from 1 to show anything."""


def load_normally(workload: Workload, options: Mapping[str, Any], weights: Weights) -> Loaded:
    """Build the model with its initial values, and copy the random weights from their file into it."""
    import torch
    from safetensors.torch import load_file

    with torch.inference_mode(False):
        model = workload.build(options).eval()
        model.load_state_dict(load_file(weights.path))
        return Loaded(model, {}, ())


def run_old_worker() -> int:
    """Be a worker that starts and ends the old way."""
    from modelzoo.engines.torch import engine
    from modelzoo.measure import instance, worker

    engine.load_model = load_normally  # type: ignore[attr-defined]
    instance.without_collection = nullcontext  # type: ignore[assignment, attr-defined]
    instance.gc = SimpleNamespace(freeze=lambda: None)  # type: ignore[assignment, attr-defined]
    return worker.main()


@dataclass(frozen=True)
class Process:
    """The samples of one process, and the seconds that it lived beside taking them."""

    samples: tuple[float, ...]
    other_seconds: float


def measure(request: Request, prepared: Preparation, number: int, *, full_audit: bool) -> Process:
    """Let one new worker sample.

    Raises:
        SystemExit: it failed.
    """
    started = perf_counter()
    with ExitStack() as stack:
        worker = WorkerRun(request, 0, number, lambda event: None)
        worker.start(prepared, False, full_audit, stack)
        worker.load()
        worker.warm_up()
        while worker.turn():
            pass
        ended = worker.finish()
    seconds = perf_counter() - started
    if ended.report is None or ended.report.turns is None:
        raise SystemExit(f"a worker failed: {ended.error}")
    return Process(ended.steady, seconds - sum(turn.end - turn.start for turn in ended.report.turns))


def spread_ratio(old: Sequence[float], new: Sequence[float]) -> stats.Interval:
    """Standard deviation of ``new`` relative to that of ``old``, with its 95 % interval.

    Student's t on the jackknife's pseudo-values of the logarithm of the variance, which unlike the F test does not
    require normal data (Miller, "Jackknifing variances", Annals of Mathematical Statistics 39, 1968).

    Args:
        old: at least three values, of which no two thirds are equal.
        new: likewise.
    """
    pseudo = [_pseudo_values(side) for side in (old, new)]
    difference = statistics.fmean(pseudo[1]) - statistics.fmean(pseudo[0])
    error = sqrt(sum(statistics.variance(side) / len(side) for side in pseudo))
    half_width = student_t(0.975, len(old) + len(new) - 2) * error
    low, value, high = (exp(each / 2) for each in (difference - half_width, difference, difference + half_width))
    return stats.Interval(value, low, high)


def _pseudo_values(values: Sequence[float]) -> list[float]:
    count = len(values)
    whole = count * log(statistics.variance(values))
    rest = ([*values[:left_out], *values[left_out + 1 :]] for left_out in range(count))
    return [whole - (count - 1) * log(statistics.variance(each)) for each in rest]


class OldRequest(Request, frozen=True):
    """Its workers import as they did before."""

    def launcher_of(self, *words: object) -> LocalLauncher:
        return LocalLauncher(worker=(__file__, "--old-worker"))


def compare(workload: str, processes: int, seconds: float) -> Claim:
    """Measure one workload, print the levels, the spreads and the costs, and return the claim about the spreads."""
    work = discovery.load_workload(discovery.find_workload(workload))
    new = Request(work, (Setting(weights="random"),), Plan(max_seconds=seconds))
    old = OldRequest(work, new.settings, new.plan)
    (prepared,) = prepare(new, lambda event: None)
    found: tuple[list[Process], list[Process]] = ([], [])
    for number, side in turns(processes):
        found[side].append(measure((old, new)[side], prepared, number, full_audit=side == 0))
    levels = [[log(statistics.median(each.samples)) for each in side] for side in found]
    spreads = " and ".join(percent(statistics.stdev(side)) for side in levels)
    costs = [statistics.median(each.other_seconds for each in side) for side in found]
    whole = stats.total([stats.Variance(statistics.variance(side) / len(side), len(side) - 1) for side in levels])
    difference = statistics.fmean(levels[1]) - statistics.fmean(levels[0])
    ratio = stats.LogRatio(difference, sqrt(whole.value), whole.freedom).interval()
    print(f"{work.name}, old and new start, {processes} processes each:")
    print(f"  sd of the logarithms of their medians: {spreads}")
    print(f"  time of a call, new ÷ old: {bounds(ratio, 3)}")
    print(f"  seconds of a process beside its samples, median: {costs[0]:.2f} and {costs[1]:.2f}", flush=True)
    spread = spread_ratio(*levels)
    what = f"{work.name}: sd new ÷ sd old = {bounds(spread, 2)} contains 1"
    if not spread.low <= 1 <= spread.high:
        return Claim(what, False)
    if spread.low < 1 / WIDEST or spread.high > WIDEST:
        return Claim(f"{what}; the interval is too wide, give more --processes", None)
    return Claim(what, True)


def main() -> int:
    """Print what was found; the exit code is 1 if a claim does not hold or cannot be shown."""
    parser = parser_of(__doc__)
    parser.add_argument("--workloads", default="resnet50,bert", help="names or directories; random weights, fp32")
    parser.add_argument("--processes", type=int, default=20, help="per way to start, 3 or more")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each process samples")
    parser.add_argument("--old-worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.old_worker:
        return run_old_worker()
    if args.processes < 3:
        parser.error("--processes must be 3 or more")
    return conclude([compare(name, args.processes, args.seconds) for name in args.workloads.split(",")])


if __name__ == "__main__":
    sys.exit(main())
