"""How often is a verdict wrong? A is compared with A, and with A slowed down by 3 %.

    .venv/bin/python benchmarks/false_alarms.py [--comparisons 100] [--processes 8] [--seconds 0.5] [--results DIR]

Each comparison is a call of ``modelzoo run`` with new processes of A, A and B, which sample in alternating turns. A has
100 equal layers; B has 103. Results are kept in DIR, so that the same command goes on after an interruption.

The claims: at most 2 % of the verdicts on equals are FASTER or SLOWER, and at least 95 % of the slowdowns are found.
One thread is used, so that a small machine need not have all of its cores free.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from common import MLP, Claim, conclude, parser_of, percent
from promises import clopper_pearson

from modelzoo import stats
from modelzoo.results import store
from modelzoo.stats import Outcome
from modelzoo.workload.discovery import CHECKOUT

DEPTHS = (100, 100, 103)
FALSE, FOUND = 0.02, 0.95
"""The goals: share of false alarms, and of slowdowns that are found."""


def measure(path: Path, processes: int, seconds: float) -> None:
    """Measure A, A and B once."""
    settings = (word for depth in DEPTHS for word in ("--setting", f"depth={depth}"))
    command = ["run", MLP, "--threads", "1", "--batch", "64", "--option", "width=64", *settings, "--no-audit"]
    command += ["--processes", str(processes), "--max-seconds", str(seconds), "-o", str(path)]
    subprocess.run([sys.executable, "-m", "modelzoo", *command], cwd=CHECKOUT, stdout=sys.stderr, check=True)


def outcomes(path: Path) -> list[Outcome]:
    """The verdicts on A, the second A and on B, each compared with the first A alone."""
    base, *others = ([run.steady for run in runs] for runs in store.read(path).groups().values())
    return [stats.verdicts([stats.ratio_test(base, other)])[0].outcome for other in others]


def judge(found: Sequence[Sequence[Outcome]]) -> list[Claim]:
    """Print how often each verdict was given; return the claims."""
    equal, slowed = zip(*found)
    for name, given in (("A with A", equal), ("3 % slower", slowed)):
        print(f"{name}: {', '.join(f'{outcome} {count}' for outcome, count in Counter(given).most_common())}")
    false = sum(each in (Outcome.FASTER, Outcome.SLOWER) for each in equal)
    seen = slowed.count(Outcome.SLOWER)
    return [
        Claim(f"equals called FASTER or SLOWER: {_of(false, found)}, at most {percent(FALSE)}",
              false <= FALSE * len(found)),
        Claim(f"slowdowns of 3 % found: {_of(seen, found)}, at least {percent(FOUND)}", seen >= FOUND * len(found)),
    ]  # fmt: skip


def _of(hits: int, found: Sequence[object]) -> str:
    low, high = clopper_pearson(hits, len(found))
    return f"{hits} of {len(found)} (95 % interval {100 * low:.1f} to {percent(high)})"


def main() -> int:
    """Print the verdicts and the claims; the exit code is 1 if one does not hold."""
    parser = parser_of(__doc__)
    parser.add_argument("--comparisons", type=int, default=100)
    parser.add_argument("--processes", type=int, default=8, help="of each setting")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each process samples")
    parser.add_argument("--results", type=Path, default=CHECKOUT / "results" / "false_alarms", metavar="DIR")
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    paths = [args.results / f"{number}.json" for number in range(args.comparisons)]
    for path in paths:
        if not path.exists():
            measure(path, args.processes, args.seconds)
    return conclude(judge([outcomes(path) for path in paths]))


if __name__ == "__main__":
    sys.exit(main())
