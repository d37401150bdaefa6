"""How often the 95 % intervals cover what they are intervals of, in replays of recorded processes.

    .venv/bin/python benchmarks/precision.py [FILE ...]

The processes of a setting, of all sessions, are a pool. A replay draws some of them independently, with replacement,
and its interval must cover the level of the pool: the geometric mean of the medians. Neighbouring rounds are not
independent, so windows of consecutive rounds, which do not overlap, are shown beside it. The claim: 94 to 96 %.

The recordings are those in tests/data/timings unless FILEs are given; benchmarks/recordings.py makes them. Nothing is
measured, so the machine need not be quiet.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean

import recordings
from binomial import clopper_pearson
from claims import Claim, conclude, percent, table
from recordings import Process, Recording, baselines, settings

from modelzoo import stats
from modelzoo.errors import ModelzooError

COUNTS = (3, 8, 12)
"""Processes per replay."""
LEAST_POOL = 40
"""Smaller pools are left out: draws of 3 would often contain a process twice, and then vary too little. Intervals of 3
processes that are drawn from normal pools cover 93.0 % if the pools hold 20 values, 94.2 % with 40, 94.6 % with 100."""
GOAL = (0.94, 0.96)
RAW, RATIO = "latency", "ratio"
Key = tuple[str, str]
"""Workload and label."""
Groups = Mapping[Key, Sequence[float]]
"""Log levels of processes, or log ratios of rounds."""


def pools(kind: str, processes: Sequence[Process]) -> Groups:
    """What replays of one kind draw from."""
    if kind == RAW:
        return {key: [each.level for each in group] for key, group in settings(processes).items()}
    first = baselines(processes)
    base = {(p.workload, p.session, p.round): p.level for p in processes if p.label == first[p.workload]}
    ratios: dict[Key, list[float]] = {}
    for each in processes:
        place = (each.workload, each.session, each.round)
        if each.label != first[each.workload] and place in base:
            ratios.setdefault(each.key, []).append(base[place] - each.level)
    return ratios


def intervals(kind: str, drawn: Groups) -> dict[Key, stats.Interval]:
    """The intervals that the suite would print of what was drawn."""
    found = {key: [math.exp(level) for level in group] for key, group in drawn.items()}
    if kind == RATIO:
        alone = {key: [[value] for value in values] for key, values in found.items()}
        return {key: stats.ratio_test(a, [[1.0]] * len(a)).interval for key, a in alone.items()}
    return {key: stats.level_interval(values) for key, values in found.items()}


def covered(kind: str, drawn: Groups, truth: Groups) -> dict[Key, bool]:
    """Whether each interval covers the level of ``truth``."""
    found = intervals(kind, drawn)
    return {key: each.low <= math.exp(fmean(truth[key])) <= each.high for key, each in found.items()}


def replayed(kind: str, found: Groups, count: int, replays: int, generator: Random) -> dict[Key, list[bool]]:
    """Whether each replay covers the level of the pool, by setting."""
    hits: dict[Key, list[bool]] = {key: [] for key in found}
    for _ in range(replays):
        drawn = {key: generator.choices(group, k=count) for key, group in found.items()}
        for key, hit in covered(kind, drawn, found).items():
            hits[key].append(hit)
    return hits


def windows(kind: str, recording: Recording, count: int) -> tuple[int, int, int]:
    """Count windows of ``count`` consecutive rounds, those that cover their session's level, and all sessions' level.

    Only sessions with at least two windows count: one window that is the whole session covers itself.
    """
    everything = pools(kind, recording.processes)
    number, own, all_sessions = 0, 0, 0
    for session in range(len(recording.sessions)):
        own_pools = pools(kind, [each for each in recording.processes if each.session == session])
        within = {key: group for key, group in own_pools.items() if len(group) >= 2 * count}
        longest = max((len(group) for group in within.values()), default=0)
        for start in range(0, longest - count + 1, count):
            drawn = {key: group[start : start + count] for key, group in within.items() if len(group) >= start + count}
            hits = covered(kind, drawn, within)
            number += len(hits)
            own += sum(hits.values())
            all_sessions += sum(covered(kind, drawn, everything).values())
    return number, own, all_sessions


def show_coverage(recording: Recording, replays: int, seed: int) -> list[Claim]:
    """Print the coverage of latencies and ratios; return the claims."""
    rows, claims, generator = [], [], Random(seed)
    for kind in (RAW, RATIO):
        found = {key: group for key, group in pools(kind, recording.processes).items() if len(group) >= LEAST_POOL}
        if not found:
            claims.append(Claim(f"coverage of the {kind}: no setting has {LEAST_POOL} recorded processes", None))
            continue
        for count in COUNTS:
            hits = replayed(kind, found, count, replays, generator)
            every = [hit for each in hits.values() for hit in each]
            share, (low, high) = sum(every) / len(every), clopper_pearson(sum(every), len(every))
            shares = [sum(each) / len(each) for each in hits.values()]
            number, own, overall = windows(kind, recording, count)
            rows.append(
                (
                    kind,
                    str(count),
                    str(len(shares)),
                    f"{len(every):,}",
                    f"{percent(share)} [{100 * low:.1f}, {100 * high:.1f}]",
                    f"{100 * min(shares):.1f} to {percent(max(shares))}",
                    f"{own} of {number}",
                    f"{overall} of {number}",
                )
            )
            holds = GOAL[0] <= share <= GOAL[1]
            claims.append(Claim(f"95 % interval of the {kind} of {count} processes covers {percent(share)}", holds))
    if not rows:
        return claims
    print("Coverage of 95 % intervals; independent draws, by setting, and windows of consecutive rounds beside them,")
    print("which are intervals of their own session only")
    header = ("of", "processes", "settings", "replays", "covered", "by setting", "windows: session", "all sessions")
    print(table(header, rows))
    return claims


def main() -> int:
    """Print tables and claims; the exit code is 1 if a claim does not hold or cannot be shown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--replays", type=int, default=2000, help="replays per setting")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    found: list[list[Claim]] = []
    try:
        for path in args.files or recordings.kept():
            recording = recordings.read(path)
            print(f"{path.name}: {recordings.describe(recording)}\n")
            found.append(show_coverage(recording, args.replays, args.seed))
            print(flush=True)
    except ModelzooError as problem:
        print(problem, file=sys.stderr)
        return 2
    # A recording that shows nothing, because it was made for something else, does not count if another one does.
    shown = [claims for claims in found if any(claim.holds is not None for claim in claims)]
    return conclude([claim for claims in shown or found for claim in claims])


if __name__ == "__main__":
    sys.exit(main())
