"""How long does ±5 % take? The suite and optimum-benchmark's protocol, in fresh processes in turn.

    .venv/bin/python benchmarks/peer.py [--processes 16] [--peer INSTALLED]

Both time BERT-base with random weights, one question of 384 tokens, fp32. The protocol: one process, 10 warm-up calls,
10 s of calls; it is repeated in fresh processes. The suite's processes sample as long as it chooses, with its audit.
Both sides get the same formula: Student's t on the log medians of the
processes. From the spread of the medians and the wall time per process follows the time that ±5 % takes, the first
process as long as it took.

``--peer`` runs optimum-benchmark itself, installed beside this environment; without it the protocol is followed in
plain code:

    .venv/bin/pip install --target INSTALLED --no-deps optimum-benchmark==0.6.0 accelerate
    .venv/bin/pip install --target INSTALLED hydra-core colorlog datasets flatten-dict pandas
    sed -i s/SpecialTokensMixin/PreTrainedTokenizerBase/ INSTALLED/optimum_benchmark/backends/transformers_utils.py

(transformers 5 has no SpecialTokensMixin.)

A burst of other load that lasts for seconds decides what a process of either side sees. Pairs in which one of the two
met such a burst are left out, and counted; the table of all pairs is printed, too. The claim: the suite takes no
longer than the protocol.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median, stdev
from time import perf_counter

from common import Claim, conclude, parser_of, percent, table, turns

from modelzoo import stats
from modelzoo.machine.facts import usable_threads
from modelzoo.measure.jobs import Request, job_environment, prepare
from modelzoo.measure.rounds import Rounds
from modelzoo.measure.schedule import FIRST_SECONDS, PRIOR, SECONDS
from modelzoo.plan import Plan
from modelzoo.records.machine import OPENMP_AND_BLAS_THREADS
from modelzoo.setting import Setting
from modelzoo.workload import discovery

PROCESS = Path(__file__).with_name("peer_process.py")
PEER_SECONDS = 10
MARGIN = 0.05
"""Half width wanted."""
LONGEST = 1.0
"""The suite's time relative to the protocol's."""
RESAMPLES = 1000
SLOW, MOST_SLOW = 1.6, 0.1
"""A process met a burst of other load if more than a tenth of its samples took 1.6 times the typical time of its side.
In 31 processes without any such sample, 99 % of the samples stay below 1.52 times (two vCPUs of an AMD EPYC)."""
LEAST = 8
"""Fewest pairs that are judged on their own."""


@dataclass(frozen=True)
class Timed:
    """One process: its samples and its wall time, in seconds."""

    samples: Sequence[float]
    wall: float

    @property
    def level(self) -> float:
        """The log of the median of its samples."""
        return math.log(median(self.samples))


# The two sides


def suite(request: Request) -> Iterator[Timed]:
    """Measure processes of the suite for ever, with its audit.

    Raises:
        SystemExit: a worker failed.
    """
    prepare(request, lambda event: None)  # random weights are made once per machine; that is not timed
    taken: list[Timed] = []
    rounds = Rounds(request, lambda event: None)
    while True:
        started = perf_counter()
        (run,) = rounds.sweep(chosen_seconds(taken))
        wall = perf_counter() - started
        if run.error:
            raise SystemExit(f"a worker failed: {run.error}")
        taken.append(Timed(run.steady, wall))
        yield taken[-1]


def chosen_seconds(taken: Sequence[Timed]) -> float:
    """How long the next process of the suite samples: as in ``modelzoo.measure.schedule``."""
    if not taken:
        return FIRST_SECONDS
    cost = fmean(each.wall for each in taken[1:] or taken) - fmean(sum(each.samples) for each in taken)
    sample, found = max(median(each.samples) for each in taken), [each.samples for each in taken]
    return stats.seconds_per_process(max(0.0, cost), sample, stats.components(found, PRIOR), SECONDS)


def peer(model: Path, seconds: int, installed: Path | None) -> Iterator[Timed]:
    """Measure processes of the protocol for ever, in the environment of the suite's workers.

    Raises:
        SystemExit: a process failed.
    """
    variables, _ = job_environment(dict.fromkeys(OPENMP_AND_BLAS_THREADS, str(usable_threads().count)))
    command = [sys.executable, str(PROCESS), "--model", str(model), "--seconds", str(seconds)]
    command += ["--peer", str(installed)] if installed else []
    while True:
        started = perf_counter()
        done = subprocess.run(command, env={**variables, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True)
        wall = perf_counter() - started
        if done.returncode:
            raise SystemExit(f"the protocol's process failed:\n{done.stderr[-2000:]}")
        yield Timed(json.loads(done.stdout.splitlines()[-1]), wall)


def in_turn(ours: Iterator[Timed], theirs: Iterator[Timed], processes: int) -> tuple[list[Timed], list[Timed]]:
    """Take processes of both sides, A B, B A …"""
    sides: tuple[list[Timed], list[Timed]] = ([], [])
    for number, side in turns(processes):
        sides[side].append(next((ours, theirs)[side]))
        if len(sides[0]) == len(sides[1]):
            print(f"{number + 1} of {processes} processes of each", file=sys.stderr, flush=True)
    return sides


# The time to ±5 %


def time_to_margin(levels: Sequence[float], walls: Sequence[float]) -> tuple[int, float]:
    """The number of processes whose interval is expected to be this narrow, and the seconds that they take.

    Args:
        levels: log medians of the processes.
        walls: their wall seconds; the first one may include what is done once.
    """
    spread, needed = stdev(levels), 2
    while math.expm1(stats.student_t((1 + stats.CONFIDENCE) / 2, needed - 1) * spread / math.sqrt(needed)) > MARGIN:
        needed += 1
    return needed, walls[0] + (needed - 1) * fmean(walls[1:])


def ratio_interval(
    ours: tuple[Sequence[float], Sequence[float]], theirs: tuple[Sequence[float], Sequence[float]]
) -> tuple[float, float]:
    """The 95 % bootstrap interval of our time to ±5 % over theirs; each side gives levels and wall seconds."""
    generator, ratios = Random(0), []
    for _ in range(RESAMPLES):
        times = []
        for levels, walls in (ours, theirs):
            drawn = generator.choices(levels, k=len(levels))
            times.append(time_to_margin(drawn, walls)[1])
        ratios.append(times[0] / times[1])
    ratios.sort()
    return ratios[round(0.025 * RESAMPLES)], ratios[round(0.975 * RESAMPLES) - 1]


def is_disturbed(process: Timed, typical: float) -> bool:
    """Whether other load slowed down more than ``MOST_SLOW`` of the samples; ``typical``: seconds of a sample."""
    return sum(1 for each in process.samples if each > SLOW * typical) > MOST_SLOW * len(process.samples)


def undisturbed(ours: Sequence[Timed], theirs: Sequence[Timed]) -> tuple[list[Timed], list[Timed]]:
    """The pairs in which neither process met a burst of other load."""
    typical = [median(median(each.samples) for each in side) for side in (ours, theirs)]
    pairs = [pair for pair in zip(ours, theirs) if not any(is_disturbed(*each) for each in zip(pair, typical))]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def compare(ours: Sequence[Timed], theirs: Sequence[Timed], protocol: str) -> float:
    """Print both sides; return the suite's time relative to the protocol's."""
    sides = [([each.level for each in side], [each.wall for each in side]) for side in (ours, theirs)]
    ratio = time_to_margin(*sides[0])[1] / time_to_margin(*sides[1])[1]
    low, high = ratio_interval(*sides)
    shown_ratio, rows = f"{ratio:.2f} [{low:.2f}, {high:.2f}]", []
    for name, timed, (levels, walls), shown in zip(("the suite", protocol), (ours, theirs), sides, (shown_ratio, "")):
        needed, seconds = time_to_margin(levels, walls)
        spread, wall = percent(stdev(levels)), f"{fmean(walls[1:]):.1f} s"
        latency = f"{1000 * math.exp(fmean(levels)):.1f} ms"
        rows.append((name, str(len(timed)), latency, spread, wall, str(needed), f"{seconds:.0f} s", shown))
    print(table(("side", "processes", "latency", "spread", "each", "for ±5 %", "time", "÷ protocol"), rows))
    return ratio


def judge(ours: Sequence[Timed], theirs: Sequence[Timed], protocol: str) -> list[Claim]:
    """Print all pairs, and those that were not disturbed if others were; return the claim about the latter."""
    ratio = compare(ours, theirs, protocol)
    quiet = undisturbed(ours, theirs)
    left_out = len(ours) - len(quiet[0])
    if left_out and len(quiet[0]) >= LEAST:
        print(f"\nwithout the {left_out} of {len(ours)} pairs that met a burst of other load:")
        ratio = compare(*quiet, protocol)
    elif left_out:
        print(f"\n{left_out} of {len(ours)} pairs met a burst of other load, too many to leave them out")
    what = f"wall time to ±5 %, the suite ÷ the protocol: {ratio:.2f}, at most {LONGEST}"
    return [Claim(what, ratio <= LONGEST)]


def main() -> int:
    """Print both sides; the exit code is 1 if the claim does not hold."""
    parser = parser_of(__doc__)
    parser.add_argument("--processes", type=int, default=16, help="of each side")
    parser.add_argument("--peer", type=Path, metavar="INSTALLED", help="where optimum-benchmark is installed")
    args = parser.parse_args()
    if args.processes < 3:
        parser.error("--processes must be at least 3")
    protocol = "optimum-benchmark" if args.peer else "its protocol in plain code"
    bert = discovery.load_workload(discovery.find_workload("bert"))
    request = Request(bert, (Setting(weights="random"),), Plan())
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.executable, str(PROCESS), "--save", name], check=True, capture_output=True)
        sides = suite(request), peer(Path(name), PEER_SECONDS, args.peer)
        ours, theirs = in_turn(*sides, args.processes)
    return conclude(judge(ours, theirs, protocol))


if __name__ == "__main__":
    sys.exit(main())
