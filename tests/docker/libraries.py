"""Which library ran each class of operator, in each precision: libraries.py RESULT. Exit code 1 if it is not known."""

import sys
from pathlib import Path

from modelzoo.records.evidence import OperatorClass
from modelzoo.records.run import Result
from modelzoo.results import store

CLASSES = (OperatorClass.CONV, OperatorClass.LINEAR, OperatorClass.MATMUL, OperatorClass.ATTENTION)
PRECISIONS = ("fp32", "bf16")
WORKLOAD = "every_class"
UNLOGGED = "no kernel log"
"""What the suite calls a kernel that no log names."""


def lines(result: Result) -> tuple[list[str], bool]:
    """Return a line for each precision and class of operator, and whether each of them has a kernel."""
    found: dict[tuple[str, OperatorClass], set[str]] = {}
    for run in (each for each in result.runs if each.workload == WORKLOAD):
        evidence = run.report.observed.evidence if run.report is not None else None
        for use in evidence.operators if evidence is not None else ():
            kernel = f"{use.implementation}, {use.precision}"
            found.setdefault((run.requested.precision, use.operator_class), set()).add(kernel)
    shown, is_complete = [], True
    for precision in PRECISIONS:
        for kind in CLASSES:
            kernels = sorted(found.get((precision, kind), ()))
            is_complete &= bool(kernels) and not any(UNLOGGED in kernel for kernel in kernels)
            shown.append(f"{precision} requested, {kind}: {'; '.join(kernels) or 'nothing ran'}")
    return shown, is_complete


def main(path: str) -> int:
    shown, is_complete = lines(store.read(Path(path)))
    print("\n".join(shown))
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
