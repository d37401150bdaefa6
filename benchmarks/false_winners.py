"""How often does a search find a winner where there is none? Answered by replaying recorded rounds.

    .venv/bin/python benchmarks/false_winners.py [--replays 1000] [--candidates 39] [--budget 1200] [FILE ...]

The processes of each recorded round are freed of what their settings and their round have in common. What is left is
what makes one process of a setting differ from the next; it is dealt out again at random, so that all candidates of a
search, and the default, are equally fast. The search then runs as ``modelzoo tune`` does: the same stages, the same
choice, and a confirmation with new processes. A false winner is one that is called FASTER.

The claim: at most 5 % of the searches have a false winner. How often the best candidate of the search seemed to be
more than 2 % faster is printed as well: that is what a search would report that does not measure its winner again.

The recordings are those in tests/data/timings unless FILEs are given; benchmarks/recordings.py makes them. Nothing is
measured, so the machine need not be quiet.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import recordings
from binomial import clopper_pearson
from claims import Claim, conclude, percent, table

from modelzoo import stats
from modelzoo.stats import race
from modelzoo.tuning import choice, halving
from modelzoo.tuning.search import BLOCK

FALSE = 0.05
"""The goal: share of searches with a false winner."""


@dataclass(frozen=True)
class Search:
    """What a search has.

    Attributes:
        candidates: how many, besides the default.
        budget: seconds.
        cost: seconds of wall time of one process.
    """

    candidates: int
    budget: float
    cost: float


@dataclass(frozen=True)
class Replay:
    """One search among equals: how fast its winner seemed in the search, and what the confirmation says.

    Attributes:
        seemed: how many times faster than the default the best candidate seemed.
        winner: the candidate that was chosen, 0 if it was the default.
        outcome: the verdict of the confirmation; ``None`` if the default was chosen.
    """

    seemed: float
    winner: int
    outcome: stats.Outcome | None

    @property
    def is_false(self) -> bool:
        """Whether a winner was reported."""
        return self.outcome is stats.Outcome.FASTER


def deviations(processes: Iterable[recordings.Process]) -> dict[str, list[float]]:
    """By workload: how the log level of each process deviates from its setting's and its round's.

    A mean over n values contains 1 / n of each of them; the deviations are scaled up by what that takes away.
    """
    sessions: dict[tuple[str, int], list[recordings.Process]] = {}
    for process in processes:
        sessions.setdefault((process.workload, process.session), []).append(process)
    found: dict[str, list[float]] = {}
    for (workload, _), members in sessions.items():
        found.setdefault(workload, []).extend(_deviations(members))
    return {workload: values for workload, values in found.items() if values}


def _deviations(members: Sequence[recordings.Process]) -> list[float]:
    by_setting = {key: fmean(each.level for each in own) for key, own in recordings.settings(members).items()}
    counts = {key: len(own) for key, own in recordings.settings(members).items()}
    rounds: dict[int, list[recordings.Process]] = {}
    for process in members:
        rounds.setdefault(process.round, []).append(process)
    found = []
    for own in rounds.values():
        centred = [each.level - by_setting[each.key] for each in own]
        common, size = fmean(centred), len(own)
        for each, value in zip(own, centred):
            kept = (1 - 1 / size) * (1 - 1 / counts[each.key])
            if kept > 0:
                found.append((value - common) / math.sqrt(kept))
    return found


def replay(pool: Sequence[float], search: Search, generator: random.Random) -> Replay:
    """Search once among candidates that are all alike."""
    logs: dict[int, dict[int, float]] = {group: {} for group in range(1, search.candidates + 1)}
    spent, number, kept = search.cost, 0, list(logs)
    sizes = race.sizes(search.candidates)
    for stage, size in enumerate(sizes):
        kept = race.ranked({group: logs[group] for group in kept})[:size] if stage else kept
        blocks = -(-len(kept) // BLOCK)
        costs = [search.cost] * (len(kept) + blocks)
        rounds = (
            halving.stage_rounds(costs, len(sizes) - stage, halving.SEARCH_SHARE * search.budget - spent)
            if stage
            else 1
        )
        for _ in range(rounds):
            for start in range(0, len(kept), BLOCK):
                default = generator.choice(pool)
                for group in kept[start : start + BLOCK]:
                    logs[group][number] = default - generator.choice(pool)
                number += 1
        spent += rounds * sum(costs)
    finalists = {group: logs[group] for group in kept}
    seemed = race.speed(logs[race.ranked(finalists)[0]])
    # Candidates in the order of the list change one or two options.
    picked = choice.pick(finalists, {group: 1 + group % 2 for group in finalists})
    if not picked.winner:
        return Replay(seemed, 0, None)
    count = halving.confirmation_rounds([search.cost] * 3, search.budget - spent)
    a, b = ([[math.exp(generator.choice(pool))] for _ in range(count)] for _ in range(2))
    outcome = stats.verdicts([stats.ratio_test(a, b)])[0].outcome if count else stats.Outcome.AMBIGUOUS
    return Replay(seemed, picked.winner, outcome)


def judge(pools: dict[str, list[float]], search: Search, replays: int, seed: int) -> list[Claim]:
    """Print how many replays of each workload have a false winner; return the claims."""
    rows, claims, generator = [], [], random.Random(seed)
    for name, pool in pools.items():
        found = [replay(pool, search, generator) for _ in range(replays)]
        false = sum(each.is_false for each in found)
        low, high = clopper_pearson(false, replays)
        flattered = sum(each.seemed > 1 + stats.EQUIVALENCE for each in found) / replays
        said = f"{100 * low:.1f} to {percent(high)}"
        rows.append([name, str(len(pool)), percent(flattered), percent(false / replays), said])
        what = f"{name}: {false} false winners in {replays} searches, at most {percent(FALSE)}"
        claims.append(Claim(what, false <= FALSE * replays))
    header = ["workload", "processes", "best seems faster", "false winners", "95 % interval"]
    print(table(header, rows))
    return claims


def main() -> int:
    """Print the table and the claims; the exit code is 1 if one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--replays", type=int, default=1000, help="searches per workload of each recording")
    parser.add_argument("--candidates", type=int, default=39)
    parser.add_argument("--budget", type=float, default=1200.0, metavar="SECONDS")
    parser.add_argument("--cost", type=float, default=6.0, metavar="SECONDS", help="wall time of one process")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    claims: list[Claim] = []
    for path in args.files or recordings.kept():
        recording = recordings.read(path)
        print(f"{path.name}: {recordings.describe(recording)}\n")
        search = Search(args.candidates, args.budget, args.cost)
        claims += judge(deviations(recording.processes), search, args.replays, args.seed)
        print(flush=True)
    return conclude(claims)


if __name__ == "__main__":
    sys.exit(main())
