"""Does this tree still say what it said before it was halved?

    .venv/bin/python benchmarks/oracle.py [--rows facts,stored,live] [--cases TEXT] [--to DIRECTORY] [--show 40]

Runs the tree of ``BEFORE`` (in a worktree below the cache directory) and this one on the same inputs, and lists the
differences, case by case; the exit code is 1 if there are any.

facts: the proof of each recording in tests/data, and the CPU of each recorded machine (oracle_probe.py).

stored: ``report`` (also with --details, as CSV, JSON and as a page) of a result of every command, and ``compare`` of
two sides in every format. Each tree reads the results that its own tests make, since the format of results may change.

live: what four workloads prove in fp32 and bf16, and what is judged of a detector, a classifier and a
question-answering model with trained weights (MODELZOO_TEST_DATA, default ../shared), measured here in both trees, one
after the other.

benchmarks/oracle/ has what was recorded of BEFORE: branch coverage, mutants and the tests that kill them, the
statements of the views, and what normalization and history were worth to ``compare``; and differences.txt, which
explains what differs. Nothing is timed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from claims import some_of

from modelzoo.directories import cache_directory

BEFORE = "dd4ef798dfcb2d15c1ed1f0067ce50b106c738e5"
"""``before-halving``: the commit at which the halving began, with the probe in it."""
ROOT = Path(__file__).resolve().parent.parent
ROWS = ("facts", "stored", "live")
PROBE = "benchmarks/oracle_probe.py"
PAGE = "page.html"
REPORTS = {
    "terminal": [],
    "details": ["--details"],
    "csv": ["--format", "csv"],
    "json": ["--format", "json"],
    "page": ["-o", PAGE],
}
SIDES = ("old=old", "new=new")
COMPARISONS = {
    "terminal": [],
    "details": ["--details"],
    **{name: ["--format", name] for name in ("markdown", "csv", "json", "junit")},
}
SHARED = Path(os.environ.get("MODELZOO_TEST_DATA", ROOT.parent / "shared"))
WEIGHTS = SHARED / "weights"
LIVE = {
    **{
        f"{precision} {name}": f"run {name} --weights random --precision {precision} --processes 1 --max-seconds 1"
        for precision in ("fp32", "bf16")
        for name in ("resnet50", "ssd", "maskrcnn", "bert")
    },
    "classifier": f"validate tests/workloads/efficientnet_lite0 --bf16 --data {SHARED}/data/imagenet --limit 40"
    f" --weights {WEIGHTS}/classification/efficientnet-lite0-57934424.pth",
    "detector": f"validate tests/workloads/ssdlite --bf16 --data {SHARED}/data/coco --limit 20"
    f" --weights {WEIGHTS}/ssd/ssdlite300_mnv2_coco.safetensors",
    "answers": f"validate bert --bf16 --data {SHARED}/data/squad/xquad.en.json --limit 40"
    f" --weights {WEIGHTS}/bert/minilm-l6-squad",
}


def tree_before() -> Path:
    """The worktree of ``BEFORE``, made at the first call."""
    tree = cache_directory() / f"oracle-{BEFORE[:12]}"
    if not tree.exists():
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", tree, BEFORE], check=True, stdout=sys.stderr)
    return tree


def called(tree: Path, place: Path, *command: str) -> str:
    """Output, errors and exit code of a Python command of ``tree`` in ``place``, without what names either or a moment.

    JSON on one line is spread over many, so that differences are short.
    """
    environment = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "100", "NO_COLOR": "1"}
    environment["MODELZOO_TEST_DATA"] = str(SHARED)
    found = subprocess.run([sys.executable, *command], cwd=place, env=environment, capture_output=True, text=True)
    text = f"{found.stdout}\n{found.stderr}\nexit code {found.returncode}\n"
    for path in (place, tree):
        text = text.replace(f"{path}/", "")
    text = re.sub(r"^\{.*\}$", lambda one: json.dumps(json.loads(one[0]), indent=1), text, flags=re.MULTILINE)
    return re.sub(r"\d+ ms ago", "", text)


def cases(row: str, tree: Path, directory: Path, part: str) -> Iterator[tuple[str, str]]:
    """Name and answer of each case of a row in ``tree`` whose name has ``part``; ``directory`` is for its files."""
    results = directory / "results"
    results.mkdir(parents=True, exist_ok=True)
    if row == "live":
        for name, arguments in LIVE.items():
            result = results / f"{name.replace(' ', '-')}.json"
            if part in name:
                said = called(tree, tree, "-m", "modelzoo", *arguments.split(), "--json", str(result))
                yield name, called(tree, tree, PROBE, str(result)) if result.exists() else said
        return
    called(tree, tree, PROBE, str(directory))
    if row == "facts":
        yield "facts", (directory / "facts.json").read_text()
        return
    names = sorted(path.name for path in results.glob("*.json"))
    calls = {f"report {name} {kind}": ["report", name, *end] for name in names for kind, end in REPORTS.items()}
    calls["report series page"] = ["report", "old", *REPORTS["page"]]
    calls["report sides page"] = ["report", "old/1.json", "new/1.json", *REPORTS["page"]]
    calls.update({f"compare {kind}": ["compare", *SIDES, *end] for kind, end in COMPARISONS.items()})
    for name, command in calls.items():
        if part in name:
            answer = called(tree, results, "-m", "modelzoo", *command)
            page = results / PAGE
            yield name, answer + (readable(page.read_text()) if PAGE in command and page.exists() else "")
            page.unlink(missing_ok=True)


def readable(page: str) -> str:
    """The text of an HTML page, a line for each element; drawings, styles and scripts are left out."""
    page = re.sub(r"<(svg|style|script).*?</\1>", "", page, flags=re.DOTALL)
    return "\n".join(line.strip() for line in re.sub(r"<[^>]+>", "\n", page).splitlines() if line.strip())


def main() -> int:
    """Print the differences of each row; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=some_of(ROWS), default=ROWS, help="some of facts, stored and live (default: all)"
    )
    parser.add_argument("--cases", default="", metavar="TEXT", help="only those whose name has this text")
    parser.add_argument("--to", type=Path, help="keep the answers of both trees in this directory")
    parser.add_argument("--show", type=int, default=40, help="lines of each difference to print (default: 40)")
    args = parser.parse_args()
    differ = 0
    with tempfile.TemporaryDirectory(prefix="oracle-") as scratch:
        directory = args.to or Path(scratch)
        trees = {"before": tree_before(), "after": ROOT}
        for row in args.rows:
            answers = {side: dict(cases(row, tree, directory / side / row, args.cases)) for side, tree in trees.items()}
            for name in sorted({*answers["before"], *answers["after"]}):
                sides = [answers[side].get(name, "") for side in trees]
                for side, text in zip(trees, sides):
                    path = directory / side / row / "answers" / f"{name.replace(' ', '-')}.txt"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
                old, new = (text.splitlines() for text in sides)
                lines = list(difflib.unified_diff(old, new, "before", "after", lineterm="", n=1))
                differ += bool(lines)
                print(f"{row}: {name}: {f'{len(lines)} lines of difference' if lines else 'the same'}")
                print("".join(f"    {line}\n" for line in lines[: args.show]), end="", flush=True)
    print(f"{differ} cases differ" if differ else "no difference")
    return int(differ > 0)


if __name__ == "__main__":
    raise SystemExit(main())
