"""Do the tests notice a wrong rule? Hand-made mutants of the parts that decide, and the tests that kill them.

    .venv/bin/python benchmarks/oracle_mutants.py [--only TEXT] [--check] [--deselect TEST …]

A mutant changes one line of a copy of the tree: a sign, a bound, a missing case. The test that killed it in
``BASELINE``, the outcome for ``before-halving``, runs on the copy; if it passes, those that import its module, those of
its room, and those of the other ``ROOMS``, until the first that fails: it kills the mutant. Each runs in a fork of this
process, which has imported torch. The tests that killed must pass without a mutant, and that is seen last. A mutant
whose line has gone is reported as such: its rule has moved, and the mutant with it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
BASELINE = ROOT / "benchmarks/oracle/mutants-before.txt"
ROOMS = ("stats", "comparison", "evidence", "results", "validity", "views")
"""Whose tests run, in this order."""


class Mutant(NamedTuple):
    """One changed line: what the rule says wrongly, its file in modelzoo/, and the text before and after."""

    says: str
    file: str
    before: str
    after: str


# fmt: off
MUTANTS = (
    Mutant("errors of 1e-3 show fp32", "evidence/canary.py", "FP32_BELOW = 3e-5", "FP32_BELOW = 1e-3"),
    Mutant("errors of bf16 show 11 bits", "evidence/canary.py", "BF16_FROM = 6e-4", "BF16_FROM = 3e-3"),
    Mutant("errors of 1e-2 show bf16", "evidence/canary.py", "BF16_BELOW = 4.5e-3", "BF16_BELOW = 1.5e-2"),
    Mutant("bf16 tensors prove only what the error shows", "evidence/precision.py",
           "if product.operands != \"fp32\":",
           "if not product.operands:"),
    Mutant("fp16 is not narrower than fp32", "evidence/precision.py",
           "> _RANK.get(requested",
           "> 1 + _RANK.get(requested"),
    Mutant("another precision does not speak against fp32", "evidence/verdict.py",
           "    if other:\n        return ProofVerdict.NOT_FP32",
           "    if False:\n        return ProofVerdict.NOT_FP32"),
    Mutant("a disagreement is no reason for UNKNOWN in bf16", "evidence/verdict.py",
           "    if findings.disagreement is not None:\n        return ProofVerdict.UNKNOWN, findings.disagreement\n    name",  # noqa: E501
           "    name"),
    Mutant("ACTIVE without coverage", "evidence/verdict.py", "if not findings.coverage.is_enough:", "if False:"),
    Mutant("ACTIVE beside a narrower product", "evidence/verdict.py",
           ">= ACTIVE_SHARE and other is None",
           ">= ACTIVE_SHARE"),
    Mutant("the share of time alone decides", "evidence/verdict.py", "else min(share, of_arithmetic)", "else share"),
    Mutant("fp32 needs no error", "evidence/verdict.py",
           "is_proven = findings.coverage.is_enough and classes and is_confirmed",
           "is_proven = findings.coverage.is_enough and classes"),
    Mutant("unknown time counts as known", "evidence/coverage.py",
           "is_unknown = part.precision in (UNKNOWN, UNKNOWN_KERNEL) or",
           "is_unknown ="),
    Mutant("convolutions make up for matmuls", "evidence/coverage.py",
           "sums[kind is OperatorClass.CONV] += flop",
           "sums[True] += flop"),
    Mutant("an operator without a formula hides nothing", "evidence/coverage.py",
           "if name not in seen or name in unknown",
           "if name in unknown"),
    Mutant("allowed fast math is bf16", "evidence/logs.py",
           "return \"bf16\" if _BF16_ISA.search(primitive.implementation) else BF16_ALLOWED",
           "return \"bf16\""),
    Mutant("a line that cannot be read is passed over", "evidence/logs.py",
           "            if primitive is None:\n                unread.append(line[start.start() :].strip())",
           "            if primitive is None:\n                pass"),
    Mutant("the FLOPs of a grouped convolution", "evidence/logs.py", "// sizes.get(\"g\", 1)", "// 1"),
    Mutant("a replay counts whatever it logged", "evidence/replay.py", "!= distinct.logged:", "is False:"),
    Mutant("only the first of several outputs differ", "evidence/probes.py",
           "len(first) != len(second) or any(map",
           "all(map"),
    Mutant("one sample in twenty is no outlier", "stats/intervals.py", "OUTLIER = 1.5", "OUTLIER = 15.0"),
    Mutant("p99 of fifty samples", "stats/intervals.py", "* (100 - percent) <= 100", "* (100 - percent) <= 50"),
    Mutant("one process has an interval", "stats/intervals.py",
           "if count == 1:\n        return Interval(centre, 0.0, math.inf)",
           "if count == 1:\n        return Interval(centre, centre, centre)"),
    Mutant("no widening for a stopping rule", "stats/intervals.py",
           "1 + STOPPED / count if by_precision",
           "1.0 if by_precision"),
    Mutant("t with a degree of freedom too many", "stats/intervals.py",
           "(1 + CONFIDENCE) / 2, count - 1)",
           "(1 + CONFIDENCE) / 2, count)"),
    Mutant("verdicts at 95 %", "stats/comparison.py", "VERDICT_CONFIDENCE = 0.98", "VERDICT_CONFIDENCE = 0.95"),
    Mutant("SAME within 4 %", "stats/comparison.py", "EQUIVALENCE = 0.02", "EQUIVALENCE = 0.04"),
    Mutant("no correction for a table", "stats/comparison.py",
           "parts, largest = float(len(found)), 0.0",
           "parts, largest = 1.0, 0.0"),
    Mutant("looks cost nothing", "stats/comparison.py",
           "best, decisive = look.ratio.p_value / look.share",
           "best, decisive = look.ratio.p_value"),
    Mutant("a reversed difference stands", "stats/comparison.py",
           "elif found.decisive * math.log(ratio.value) <= 0:",
           "elif False:"),
    Mutant("FASTER and SLOWER swapped", "stats/comparison.py",
           "Outcome.FASTER if found.decisive > 0",
           "Outcome.FASTER if found.decisive < 0"),
    Mutant("SAME although the interval is wide", "stats/comparison.py", "and ratio.high <= 1 + EQUIVALENCE", ""),
    Mutant("Holm's factor", "stats/comparison.py", "(len(p_values) - rank) * p_values[index]", "p_values[index]"),
    Mutant("an interruption is a planned stop", "results/speed.py",
           "StopReason.BUDGET, StopReason.FAILED)",
           "StopReason.BUDGET, StopReason.FAILED, StopReason.INTERRUPTED)"),
    Mutant("other work is comparable", "results/refusals.py", "> WORK_DIFFERENCE * max", "> 1e9 * max"),
    Mutant("other weights are comparable", "results/refusals.py",
           "one.prepared.weights.sha256 != two.prepared.weights.sha256",
           "False"),
    Mutant("other outputs than torch's are comparable", "results/refusals.py",
           "if agreement is None or agreement.is_same is not False:",
           "if True:"),
    Mutant("latency of a batch, not of an item", "results/speed.py",
           "[sample / batch for sample in run.steady]",
           "list(run.steady)"),
    Mutant("unproven bf16 is comparable", "results/refusals.py",
           "return None if is_proven else Unproven(precision, proof)", "return None"),
    Mutant("wrong results are comparable", "results/refusals.py", "if wrong is not None:", "if False:"),
    Mutant("wrong results are no verdict", "evidence/verdict.py",
           "if any(each.wrong is not None for each in audit.products):", "if False:"),
    Mutant("an error is wrong only beyond 16 times its bound", "evidence/wrong.py",
           "explained = (found - exact).abs(), limits.bound * size",
           "explained = (found - exact).abs(), 16 * limits.bound * size"),
    Mutant("unrecorded weights are equal", "results/refusals.py",
           "if not (mine[0].prepared.weights.sha256 and theirs[0].prepared.weights.sha256):",
           "if False:"),
    Mutant("unrecorded inputs are equal", "results/refusals.py", "if None in inputs[0] | inputs[1]:", "if False:"),
    Mutant("times under an emulator are comparable", "results/refusals.py",
           "if emulator is not None:",
           "if False:"),
    Mutant("NOT VALID is comparable", "results/refusals.py",
           "judged.verdict is ValidityVerdict.NOT_VALID",
           "False"),
    Mutant("one day is enough to see how days differ", "comparison/estimate.py",
           "if count >= LEAST_DAYS:\n        spread",
           "if count >= 1:\n        spread"),
    Mutant("no assumption is needed", "comparison/estimate.py",
           "(guess.times(1 / count), within)",
           "(guess.times(0.0), within)"),
    Mutant("NaN may pass", "validity/verdict.py",
           "Relation.AT_MOST, 0.0, not count, None, about=about)",
           "Relation.AT_MOST, 0.0, True, None, about=about)"),
    Mutant("nothing in common may pass", "validity/verdict.py",
           "Relation.AT_LEAST, 1.0, in_common, None)",
           "Relation.AT_LEAST, 1.0, True, None)"),
    Mutant("one picture may pass", "validity/verdict.py", "MINIMUM_ITEMS = 2", "MINIMUM_ITEMS = 1"),
    Mutant("few clusters decide", "validity/verdict.py",
           "sampled if numbers or groups >= MINIMUM_CLUSTERS else",
           "sampled if True else"),
    Mutant("undecided is VALID", "validity/verdict.py",
           "undecided = [check for check in checks if check.undecided]\n",
           "undecided = [check for check in checks if False]\n"),
    Mutant("a broken reference judges", "validity/verdict.py",
           "    if problem is not None:",
           "    if False:"),
    Mutant("the rule of three", "validity/bounds.py", "RULE_OF_THREE = 3.0", "RULE_OF_THREE = 0.3"),
    Mutant("no worst cluster is added", "validity/bounds.py",
           "numerators = self.numerators + self.added * extreme.numerator",
           "numerators = self.numerators"),
    Mutant("McNemar's test is one-sided", "validity/bounds.py",
           "min(1.0, 2 * binomial_tail(",
           "min(1.0, 1 * binomial_tail("),
    Mutant("articles count in answers", "validity/squad.py", "r\"\\b(a|an|the)\\b\"", "r\"\\b(zzz)\\b\""),
    Mutant("the worst gold answer counts", "validity/squad.py",
           "max(f1(prediction, gold, rules)",
           "min(f1(prediction, gold, rules)"),
)
# fmt: on


class Failures:
    """A plugin of pytest that remembers the tests that failed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test ended."""
        if report.failed:
            self.names.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file was read."""
        if report.failed:
            self.names.append(report.nodeid)


def failures(tree: Path, tests: Sequence[str], *options: str) -> list[str]:
    """Run ``tests`` in ``tree``, in this process; return those that fail."""
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    os.environ.update({"PYTHONPATH": str(tree), "MODELZOO_TEST_DATA": str(ROOT.parent / "shared")})
    found = Failures()
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        code = pytest.main(["-n", "0", "-p", "no:cacheprovider", *options, *tests], plugins=[found])
    nothing = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.USAGE_ERROR)  # a test has gone
    return found.names or ([] if code in nothing else [f"pytest ended with {code}"])


def stages(tree: Path, mutant: Mutant) -> Iterator[list[str]]:
    """The tests that may see a mutant: its known killer, then the nearest, those without torch first."""
    known = BASELINE.read_text() if BASELINE.exists() else ""
    yield re.findall(rf"^killed +{re.escape(mutant.says)} \(.*\): (.+)", known, re.MULTILINE)
    room, stem = mutant.file.split("/")[0], Path(mutant.file).stem
    imports = re.compile(rf"modelzoo\.{room}(\.{stem}| import .*\b{stem})\b")
    own = f"tests/{room}/test_{stem}.py"
    paths = [path for each in ROOMS for path in (tree / "tests" / each).rglob("test_*.py")]
    texts = {path.relative_to(tree).as_posix(): path.read_text() for path in paths}
    near = [name for name, text in texts.items() if name == own or imports.search(text)]
    yield sorted(near, key=lambda name: (name != own, "import torch" in texts[name], name))
    yield [f"tests/{room}"]
    yield [f"tests/{each}" for each in ROOMS if each != room]


def main() -> int:
    """Print a line for each mutant; the exit code is 1 if one survives or cannot be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="some of the mutants, by a part of what they say")
    parser.add_argument("--check", action="store_true", help="only see whether each can be made")
    parser.add_argument("--deselect", action="append", default=[], metavar="TEST", help="that fails without a mutant")
    args = parser.parse_args()
    import torch  # noqa: F401  (once, before the forks)

    options = [f"--deselect={test}" for test in args.deselect]
    chosen = [each for each in MUTANTS if not args.only or args.only in each.says]
    kept, killers = 0, set()
    with tempfile.TemporaryDirectory() as scratch, get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        tree = Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache"))
        for mutant in chosen:
            path = tree / "modelzoo" / mutant.file
            text = path.read_text() if path.exists() else ""
            if text.count(mutant.before) != 1:
                print(f"GONE      {mutant.says} ({mutant.file})", flush=True)
                kept += 1
                continue
            if args.check:
                continue
            path.write_text(text.replace(mutant.before, mutant.after))
            runs = (pool.apply(failures, (tree, tests, "-x", *options)) for tests in stages(tree, mutant) if tests)
            found = next((names[0] for names in runs if names), "")
            path.write_text(text)
            kept += not found
            killers.add(found)
            print(
                f"{'killed' if found else 'SURVIVED':9} {mutant.says} ({mutant.file}){f': {found}' if found else ''}",
                flush=True,
            )
        for name in pool.apply(failures, (tree, sorted(killers - {""}))) if killers - {""} else []:
            print(f"FAILS without a mutant: {name}")
            kept += 1
    print(f"{len(chosen) - kept} of {len(chosen)} mutants {'can be made' if args.check else 'are killed'}")
    return int(kept > 0)


if __name__ == "__main__":
    raise SystemExit(main())
