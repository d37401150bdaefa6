"""What does the harness cost? Its median is compared with a plain loop's, and its cost per iteration is timed.

    .venv/bin/python benchmarks/harness_overhead.py

Both loops run in one process on the same model and inputs, in blocks that alternate A B, B A, so that drift of the
machine and placement of the process affect both. The claim: a ratio of 1.00 ± 0.005, and under 20 µs per iteration.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from time import perf_counter, perf_counter_ns
from typing import Any

from common import BLOCK, Claim, compare_alternating, compared, conclude, ready_model, sampled

LIMIT_MICROSECONDS = 20
EMPTY_ITERATIONS = 20_000


def plain_loop(call: Callable[..., Any], args: tuple[Any, ...], iterations: int) -> list[float]:
    """Time calls the way a careful engineer would by hand; return seconds."""
    times = []
    gc.collect()
    gc.disable()
    for _ in range(iterations):
        start = perf_counter_ns()
        output = call(*args)
        times.append((perf_counter_ns() - start) * 1e-9)
        del output
    gc.enable()
    return times


def compare(name: str, count: int, blocks: int) -> Claim:
    """Alternate the suite's sampling with the plain loop."""
    with ready_model(name) as (model, args):
        plain_loop(model.module, args, count)
        found = compare_alternating(
            blocks,
            lambda: sampled(lambda: model.call(*args), count),
            lambda: plain_loop(model.module, args, count),
        )
    return compared(name, "suite / plain loop", found, blocks)


def main() -> int:
    """Print the figures; the exit code is 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=200)
    blocks = parser.parse_args().blocks
    claims = [compare(name, count, blocks) for name, count in BLOCK.items()]
    start = perf_counter()
    sampled(lambda: None, EMPTY_ITERATIONS)
    added = (perf_counter() - start) / EMPTY_ITERATIONS * 1e6
    cost = f"added per iteration: {added:.2f} µs, under {LIMIT_MICROSECONDS} µs"
    return conclude([*claims, Claim(cost, added < LIMIT_MICROSECONDS)])


if __name__ == "__main__":
    sys.exit(main())
