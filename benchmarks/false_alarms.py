"""How often is a verdict wrong? A is compared with A, and with A slowed down by 3 %.

    .venv/bin/python benchmarks/false_alarms.py [--comparisons 100] [--processes 8] [--maximum 16] [--seconds 0.5]
    .venv/bin/python benchmarks/false_alarms.py --rounds FILE    # store the rounds, and resume after an interruption
    .venv/bin/python benchmarks/false_alarms.py --rounds FILE --comparisons 0    # judge stored rounds only

Everything is measured as the suite does it: new processes, rounds A A B B in an order that changes, sampling in
alternating turns, the planned looks, the verdict. A has 100 equal layers; B has 103. A round has two processes of
each, so it takes part in two comparisons of equals (A with A, B with B) and two of A with B. A comparison is looked at
after ``--processes`` rounds and at the later planned looks up to ``--maximum``; the next one begins with the round
after the one at which it was decided. Comparisons never overlap. In every other comparison a drift is simulated as
well: times grow by 2 % from its first process to its last possible one.

The claims: at most 2 % of the verdicts on equals are FASTER or SLOWER. At least 95 % of the slowdowns are found, in at
most half of the wall time that 15 processes of 1 s take. One thread is used, so that a small machine need not have all
of its cores free.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from time import perf_counter

import msgspec
from binomial import clopper_pearson
from claims import Claim, conclude, percent
from common import MLP

from modelzoo import stats
from modelzoo.files import write_atomically
from modelzoo.measure.jobs import Request
from modelzoo.measure.rounds import Rounds
from modelzoo.plan import Plan
from modelzoo.setting import Setting
from modelzoo.workload import discovery

DEPTH, SLOWER, WIDTH, BATCH = 100, 103, 64, 64
EQUAL, SLOWED = ((0, 1), (2, 3)), ((0, 2), (1, 3))
"""The comparisons that a round takes part in, by the positions of its processes: A, A, B, B."""
DRIFT = 0.02
OLD_PROCESSES, OLD_SECONDS = 15, 1.0
FALSE, FOUND, WALL = 0.02, 0.95, 0.5
"""The goals: share of false alarms, share of slowdowns found, and wall time ÷ that of the old design."""
STORED_EVERY = 10
"""``--rounds FILE`` is written whenever this many rounds have been measured."""


class Round(msgspec.Struct, frozen=True):
    """Median seconds of the processes of one round (A, A, B, B), its wall time, and how long each process sampled."""

    medians: tuple[float, float, float, float]
    wall: float
    seconds: float


@dataclass(frozen=True)
class Decided:
    """One comparison: its verdict, the number of rounds that it took, and the wall time of its processes."""

    outcome: stats.Outcome
    rounds: int
    wall: float


def measured(seconds: float) -> Iterator[Round]:
    """Measure rounds for ever.

    Raises:
        SystemExit: a worker failed.
    """
    work = discovery.load_workload(discovery.find_workload(MLP))
    same = Setting(threads=1, batch=BATCH, weights="random", options={"depth": DEPTH, "width": WIDTH})
    slow = same.replace(options={"depth": SLOWER, "width": WIDTH})
    request = Request(work, (same, same, slow, slow), Plan(max_seconds=seconds), audit=False)
    rounds = Rounds(request, lambda event: None)
    while True:
        started = perf_counter()
        runs = list(rounds.sweep(seconds))
        wall = perf_counter() - started
        if failed := [run.error for run in runs if run.error]:
            raise SystemExit(f"a worker failed: {failed[0]}")
        # The first sweep is divided into blocks of two, because the memory that a worker needs is not known yet.
        if len(runs) > 4 and rounds.sweeps > 1:
            raise SystemExit("there is not enough memory for four workers at the same time")
        if len(runs) == 4:
            a, b, c, d = (median(run.steady) for run in sorted(runs, key=lambda run: run.group))
            yield Round((a, b, c, d), wall, seconds)


def comparisons(rounds: Sequence[Round], pair: tuple[int, int], planned: tuple[int, ...]) -> list[Decided]:
    """Compare the two sides of ``pair`` again and again, each time with the rounds after those used before."""
    found: list[Decided] = []
    maximum, start = planned[-1], 0
    while start + maximum <= len(rounds):
        window = drifting(rounds[start : start + maximum], pair, DRIFT if len(found) % 2 else 0.0)
        outcome, used = decide(*window, planned)
        wall = sum(each.wall for each in rounds[start : start + used]) * 2 / 4
        found.append(Decided(outcome, used, wall))
        start += used
    return found


def drifting(rounds: Sequence[Round], pair: tuple[int, int], drift: float) -> tuple[list[float], list[float]]:
    """The medians of both sides, slowed down more and more in the order in which the processes started."""
    sides: tuple[list[float], list[float]] = ([], [])
    last = 2 * len(rounds) - 1
    for number, each in enumerate(rounds):
        for side in (0, 1):
            place = 2 * number + (side if number % 2 == 0 else 1 - side)
            sides[side].append(each.medians[pair[side]] * (1 + drift * place / last))
    return sides


def decide(first: list[float], second: list[float], planned: tuple[int, ...]) -> tuple[stats.Outcome, int]:
    """Look at the planned numbers of rounds until there is a verdict; return it, and the number of rounds."""
    for count in planned:
        looks = stats.Looks(planned, planned[-1], final=count == planned[-1])
        sides = [[value] for value in first[:count]], [[value] for value in second[:count]]
        verdict = stats.verdicts([stats.ratio_test(*sides, looks)])[0]
        if verdict.outcome is not stats.Outcome.AMBIGUOUS:
            break
    return verdict.outcome, count


def read_rounds(file: Path | None) -> list[Round]:
    """The rounds that are stored in ``file``."""
    return msgspec.json.decode(file.read_bytes(), type=list[Round]) if file and file.exists() else []


def gathered(args: argparse.Namespace, planned: tuple[int, ...]) -> list[Round]:
    """The stored rounds, and as many more as ``args.comparisons`` of both kinds need."""
    rounds, more = read_rounds(args.rounds), measured(args.seconds)
    while min(sum(len(comparisons(rounds, pair, planned)) for pair in pairs) for pairs in (EQUAL, SLOWED)) < (
        args.comparisons
    ):
        rounds += [next(more) for _ in range(STORED_EVERY)]
        if args.rounds:
            write_atomically(args.rounds, msgspec.json.encode(rounds))
        print(f"{len(rounds)} rounds", file=sys.stderr, flush=True)
    return rounds


def judge(rounds: Sequence[Round], planned: tuple[int, ...]) -> list[Claim]:
    """Print how often each verdict was given; return the claims."""
    equal, slowed = ([d for pair in pairs for d in comparisons(rounds, pair, planned)] for pairs in (EQUAL, SLOWED))
    if not equal:
        return [Claim(f"verdicts: {len(rounds)} rounds are fewer than a comparison may need ({planned[-1]})", None)]
    for name, decided in (("A with A", equal), ("3 % slower", slowed)):
        counts = Counter(each.outcome for each in decided)
        shown = ", ".join(f"{outcome} {count}" for outcome, count in counts.most_common())
        print(f"{name}: {shown}; {fmean(each.rounds for each in decided):.1f} rounds per comparison")
    false = [each.outcome in (stats.Outcome.FASTER, stats.Outcome.SLOWER) for each in equal]
    found = [each.outcome is stats.Outcome.SLOWER for each in slowed]
    cost = fmean(each.wall / 4 - each.seconds for each in rounds)
    share = fmean(each.wall for each in slowed) / (2 * OLD_PROCESSES * (cost + OLD_SECONDS))
    return [
        Claim(f"equals called FASTER or SLOWER: {_counted(false)}, at most {percent(FALSE)}", _share(false) <= FALSE),
        Claim(f"slowdowns of 3 % found: {_counted(found)}, at least {percent(FOUND)}", _share(found) >= FOUND),
        Claim(f"wall time ÷ that of 15 processes of 1 s: {share:.2f}, at most {WALL}", share <= WALL),
    ]


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits)


def _counted(hits: Sequence[bool]) -> str:
    low, high = clopper_pearson(sum(hits), len(hits))
    return f"{sum(hits)} of {len(hits)} (95 % interval {100 * low:.1f} to {percent(high)})"


def main() -> int:
    """Print the verdicts and the claims; the exit code is 1 if one does not hold or cannot be shown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=100, help="measure until there are so many of each kind")
    parser.add_argument("--processes", type=int, default=8, help="rounds at the first look")
    parser.add_argument("--maximum", type=int, default=16, help="rounds at the last look")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each process samples")
    parser.add_argument("--rounds", type=Path, metavar="FILE", help="JSON file of rounds to resume from and to write")
    args = parser.parse_args()
    planned = stats.planned_looks(args.processes, args.maximum)
    return conclude(judge(gathered(args, planned), planned))


if __name__ == "__main__":
    sys.exit(main())
