"""What the harness costs: its median against a plain loop's, and the time it adds to an iteration.

    .venv/bin/python benchmarks/harness_overhead.py

Both loops run in one process on the same model and inputs, in blocks that alternate A B, B A, so that the
machine's drift and the process's placement hit both. The claim: ratio 1.00 ± 0.005, under 20 µs added.
"""

from __future__ import annotations

import argparse
import gc
import sys
from time import perf_counter, perf_counter_ns
from typing import Any

from common import BLOCK, alternating, ready, report, suite


def plain_loop(model: Any, args: tuple[Any, ...], iterations: int) -> list[float]:
    """What a careful engineer writes by hand; returns seconds."""
    times = []
    gc.collect()
    gc.disable()
    for _ in range(iterations):
        start = perf_counter_ns()
        output = model(*args)
        times.append((perf_counter_ns() - start) * 1e-9)
        del output
    gc.enable()
    return times


def compare(name: str, count: int, blocks: int) -> bool:
    """Alternate the suite's sampling with the plain loop; True where the claim holds."""
    with ready(name) as (executable, args):
        plain_loop(executable.model, args, count)
        found = alternating(
            blocks,
            lambda: suite(lambda: executable.call(*args), count),
            lambda: plain_loop(executable.model, args, count),
        )
    return report(name, "suite / plain loop", found, blocks)


def main() -> int:
    """Print the figures; exit code 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=200)
    blocks = parser.parse_args().blocks
    claims = [compare(name, count, blocks) for name, count in BLOCK.items()]
    iterations = 20000
    start = perf_counter()
    suite(lambda: None, iterations)
    added = (perf_counter() - start) / iterations * 1e6
    print(f"added to an iteration: {added:.2f} µs: {'holds' if added < 20 else 'DOES NOT HOLD'}")
    return 0 if all(claims) and added < 20 else 1


if __name__ == "__main__":
    sys.exit(main())
