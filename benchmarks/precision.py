"""How precise are the intervals, and can they be trusted? Answered by replaying recorded sessions.

    .venv/bin/python benchmarks/precision.py [--rows coverage,time] [FILE ...]

coverage: how many of 2,000 replays of independently drawn processes have an interval that covers the level of all
recorded ones. The claim: 94 to 96 %.

time: half width at equal wall time, median of 1,000 replays, of the design that the suite chooses and of 3 processes
of 10 s with the interval that the suite used to print. The claim: at most 1/3 for latencies, and 2/3 for ratios.

The recordings are those in tests/data/timings unless FILEs are given; benchmarks/recordings.py makes them. Nothing is
measured, so the machine need not be quiet.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import recordings
from claims import Claim, conclude, some_of
from equal_time import show_equal_time
from interval_coverage import show_coverage

from modelzoo.errors import ModelzooError

ROWS = ("coverage", "time")


def show(path: Path, args: argparse.Namespace) -> dict[str, list[Claim]]:
    """Print the rows that were asked for of one recording; return the claims of each."""
    recording = recordings.read(path)
    print(f"{path.name}: {recordings.describe(recording)}\n")
    shown = {
        "coverage": lambda: show_coverage(recording, args.replays, args.seed),
        "time": lambda: show_equal_time(recording, args.time_replays, args.seed, dict(args.old_cost)),
    }
    claims: dict[str, list[Claim]] = {}
    for row in args.rows:
        claims[row] = shown[row]()
        print(flush=True)
    return claims


def gathered(found: Sequence[Mapping[str, Sequence[Claim]]]) -> list[Claim]:
    """All claims; a recording that shows nothing of a row is left out of it if another one does.

    Recordings are made for different rows: many sessions for one, processes of 10 s for another.
    """
    claims: list[Claim] = []
    for row in dict.fromkeys(row for each in found for row in each):
        sides = [each[row] for each in found if row in each]
        shown = [side for side in sides if any(claim.holds is not None for claim in side)]
        claims += [claim for side in shown or sides for claim in side]
    return claims


def _old_cost(text: str) -> tuple[str, float]:
    workload, _, seconds = text.partition("=")
    return workload, float(seconds)


def main() -> int:
    """Print tables and claims; the exit code is 1 if a claim does not hold or cannot be shown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--rows", type=some_of(ROWS), default=ROWS, help="default: all")
    parser.add_argument("--replays", type=int, default=2000, help="replays per setting for the coverage")
    parser.add_argument("--time-replays", type=int, default=1000, help="replays per setting at equal wall time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--old-cost",
        type=_old_cost,
        action="append",
        default=[],
        metavar="WORKLOAD=SECONDS",
        help="wall time of an old process besides its samples (default: that of today's processes)",
    )
    args = parser.parse_args()
    files = args.files or recordings.kept()
    if not files:
        parser.error(f"there are no recordings in {recordings.TIMINGS}; make one with benchmarks/recordings.py")
    try:
        return conclude(gathered([show(path, args) for path in files]))
    except ModelzooError as problem:
        print(problem, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
