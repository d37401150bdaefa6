"""Does the measurement of many instances hold what it says?

Three claims, on this machine, each round with new processes:

* start spread: the first and the last instance begin within 5 ms of each other;
* counted window: at least 80 % of the run, from the barrier to the end of the last batch, counts;
* agreement: one instance on all cores of a node has the items per second that ``modelzoo run`` prints with as many
  threads. Their processes are alive at the same time and run in alternating turns of half a second or more; the ratio
  over the rounds must be 1.00 ± 0.02. malloc is told to keep what is freed. By default, glibc decides by what a
  process has freed so far how much it returns to the kernel: processes of SSD have 0 to 58,000 page faults per batch,
  and the latter take a quarter longer, which would hide what is compared here.

    .venv/bin/python benchmarks/throughput.py [resnet50 bert …] [--rows window,agreement] [--rounds 8]

Exit code 1 unless all claims hold.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

from common import Claim, bounds, conclude, parser_of, some_of

from modelzoo import stats
from modelzoo.frozen import replace
from modelzoo.machine.facts import read_topology
from modelzoo.measure.jobs import Request, prepare, start_instance
from modelzoo.measure.rounds import WorkerRun
from modelzoo.plan import Plan
from modelzoo.records.race import Configuration, ConfigurationRun, Smt
from modelzoo.records.run import Result, Run, SettingRequest
from modelzoo.records.serving import Ready, Window
from modelzoo.results import summary
from modelzoo.results.counting import count
from modelzoo.serve.configurations import Task
from modelzoo.serve.places import most_cores, plan
from modelzoo.setting import Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import find_workload, load_workload

SPREAD_SECONDS = 0.005
WINDOW_SHARE = 0.8
AGREEMENT = 0.02
TURNS, TURN_SECONDS, LEAST_BATCHES = 24, 0.5, 2
KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 33),
    "MALLOC_TOP_PAD_": str(1 << 28),
}
ROWS = ("window", "agreement")


def measured(request: Request, instances: int, cores: int, number: int) -> ConfigurationRun:
    """One round of one configuration, with the request's setting for that number of cores."""
    index = [setting.threads for setting in request.settings].index(cores)
    batch = request.settings[index].batch or request.workload.batch
    places = plan(read_topology(), instances, cores)
    configuration = Configuration(index, instances, cores, batch, Smt.OFF, places)
    task = Task(request, prepare(request, lambda event: None), configuration, 0, number, None, extras=False)
    found = task.run(lambda event: None)[0]
    for each in found.instances:
        if each.error is not None:
            raise SystemExit(each.error)
    return found


def agreement(request: Request, cores: int, number: int) -> float:
    """Items per second of an instance ÷ those that ``modelzoo run`` prints of its process; their turns alternate."""
    prepared = prepare(request, lambda event: None)
    (place,) = plan(read_topology(), 1, cores)
    batches, seconds = 0, 0.0
    with ExitStack() as stack:
        instance = stack.enter_context(start_instance(request, 0, prepared[0], place, lambda event: None))
        turn = max(TURN_SECONDS, LEAST_BATCHES * max(instance.wait(Ready).times.values()))
        alone = replace(request, plan=Plan(max_seconds=TURNS * TURN_SECONDS))
        run = WorkerRun(alone, 0, number, lambda event: None)
        run.start(prepared[0], False, False, stack)
        run.load()
        run.warm_up()
        while run.turn():
            start = monotonic()
            window = instance.call("window", start, start + turn, result=Window)
            length, (latencies,) = count([window])
            batches, seconds = batches + len(latencies), seconds + (length or 0.0)
        ended = run.finish()
    if ended.report is None or not seconds:
        raise SystemExit(ended.error or "a batch takes longer than a turn")
    return batches * ended.report.setting.batch / seconds / printed(ended)


def printed(run: Run) -> float:
    """Return the items per second that ``modelzoo run`` prints for a process."""
    (row,) = summary.rows(
        Result(("throughput.py",), run.started, (SettingRequest(run.workload, run.requested),), (run,))
    )
    assert row.throughput is not None
    return row.throughput.value


def main(argv: list[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = parser_of(__doc__)
    parser.add_argument("workloads", nargs="*", default=["resnet50"], metavar="workload")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--rows", type=some_of(ROWS), default=ROWS, help="default: all")
    args = parser.parse_args(argv)
    return max([check(load_workload(find_workload(name)), args) for name in args.workloads])


def check(work: Workload, args: argparse.Namespace) -> int:
    """Measure one workload and print the claims; return the exit code."""
    topology = read_topology()
    cores = most_cores(topology, 1)
    several = 2 if len(topology.cores) > 1 else 1
    each_cores = most_cores(topology, several)
    weights = args.weights if args.weights in ("auto", "random", "pretrained") else str(Path(args.weights).absolute())
    settings = tuple(Setting(threads=count, weights=weights) for count in dict.fromkeys((cores, each_cores)))
    request = Request(work, settings, Plan(), audit=False)
    spreads, shares, ratios = [], [], []
    if "agreement" in args.rows:
        os.environ.update(KEEP_FREED_MEMORY)  # of both processes
    for number in range(args.rounds):
        found = [f"{work.name}, round {number + 1}"]
        if "window" in args.rows:
            for run in (measured(request, 1, cores, number), measured(request, several, each_cores, number)):
                starts = [each.start for each in run.instances if each.start is not None] or [0.0]
                spreads.append(max(starts) - min(starts))
                shares.append((run.window or 0.0) / (run.seconds or 1.0))
            found.append(f"spread {1e3 * spreads[-1]:.3f} ms, window {shares[-2]:.1%} and {shares[-1]:.1%}")
        if "agreement" in args.rows:
            ratios.append(agreement(request, cores, number))
            found.append(f"1 × {cores} cores ÷ run {ratios[-1]:.4f}")
        print(": ".join((found[0], ", ".join(found[1:]))), flush=True)
    claims = []
    if spreads:
        spread = f"{1e3 * max(spreads):.3f} ms at most, {1e3 * statistics.median(spreads[1::2]):.3f} ms in the median"
        window = f"counted window at least 80 % of the run: {min(shares):.1%} at least"
        claims.append(Claim(f"start spread of {several} instances under 5 ms: {spread}", max(spreads) < SPREAD_SECONDS))
        claims.append(Claim(window, min(shares) >= WINDOW_SHARE))
    if ratios:
        ratio = stats.level_interval(ratios)
        text = f"1 × {cores} cores ÷ run is 1.00 ± 0.02: {bounds(ratio)} over {len(ratios)} rounds"
        # The rounds show nothing if they are too few for one or the other.
        may_be_near = ratio.low <= 1 + AGREEMENT and ratio.high >= 1 - AGREEMENT
        claims.append(Claim(text, True if abs(ratio.value - 1) <= AGREEMENT else None if may_be_near else False))
    return conclude(claims)


if __name__ == "__main__":
    sys.exit(main())
