"""Does an audit affect the samples that are timed after it? Blocks after an audit are compared with blocks without.

    .venv/bin/python benchmarks/audit_overhead.py

A run audits only after its last sample. Here audits take place between the blocks of one process, so that anything
an audit left switched on would show. The claim: a ratio of 1.00 ± 0.005.
"""

from __future__ import annotations

import argparse
import sys

from common import BLOCK, compare_alternating, ready_model, report, sampled

from modelzoo.evidence.audit import run_audit


def compare(name: str, count: int, blocks: int) -> bool:
    """Alternate blocks after an audit with blocks without one; return whether the claim holds."""
    with ready_model(name) as (model, args):

        def timed() -> list[float]:
            sampled(lambda: model.call(*args), count)  # both sides return to the steady state the same way
            return sampled(lambda: model.call(*args), count)

        def audited() -> list[float]:
            run_audit(lambda: model.call(*args), 1)
            return timed()

        timed()
        found = compare_alternating(blocks, audited, timed)
    return report(name, "after an audit / without", found, blocks)


def main() -> int:
    """Print the ratios; the exit code is 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=200)
    blocks = parser.parse_args().blocks
    claims = [compare(name, count, blocks) for name, count in BLOCK.items()]
    return 0 if all(claims) else 1


if __name__ == "__main__":
    sys.exit(main())
