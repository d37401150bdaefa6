"""Whether the audit leaves a trace in the timed samples: blocks timed after an audit against blocks without.

    .venv/bin/python benchmarks/audit_overhead.py

A run audits only after its last sample. Here the order is made worse on purpose, with audits between the
blocks of one process, so that anything an audit left switched on would show. The claim: 1.00 ± 0.005.
"""

from __future__ import annotations

import argparse
import sys

from common import BLOCK, alternating, ready, report, suite

from modelzoo.evidence.audit import run_audit


def compare(name: str, count: int, blocks: int) -> bool:
    """Alternate blocks after an audit with blocks without; True where the claim holds."""
    with ready(name) as (executable, args):

        def timed() -> list[float]:
            suite(lambda: executable.call(*args), count)  # the same way back to steady state for both sides
            return suite(lambda: executable.call(*args), count)

        def audited() -> list[float]:
            run_audit(lambda: executable.call(*args), 1)
            return timed()

        timed()
        found = alternating(blocks, audited, timed)
    return report(name, "after an audit / without", found, blocks)


def main() -> int:
    """Print the figures; exit code 1 where the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=200)
    blocks = parser.parse_args().blocks
    claims = [compare(name, count, blocks) for name, count in BLOCK.items()]
    return 0 if all(claims) else 1


if __name__ == "__main__":
    sys.exit(main())
