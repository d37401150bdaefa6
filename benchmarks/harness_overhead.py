"""What does the harness cost? What it measures is compared with a plain loop, and its cost per iteration is timed.

    .venv/bin/python benchmarks/harness_overhead.py
    .venv/bin/python benchmarks/harness_overhead.py --generation [--weights DIRECTORY] [--blocks 40]

Both loops run in one process on the same model and inputs, in blocks that alternate A B, B A, so that drift of the
machine and placement of the process affect both. The claim: a ratio of 1.00 ± 0.005, and under 20 µs per iteration.

With --generation, a block is one generation of a language model. The plain loop calls transformers' model itself: the
prompt, then token after token, greedily, with a cache that grows. The claim: the ratio of the whole generation is
1.00 ± 0.01.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter, perf_counter_ns
from typing import Any

from common import BLOCK, Claim, compare_alternating, compared, conclude, parser_of, ready_model, sampled

from modelzoo.engines.protocol import ComposableModel
from modelzoo.measure.pipeline import Generating, GenerationClock
from modelzoo.records.timing import LATENCY
from modelzoo.workload import discovery

LIMIT_MICROSECONDS = 20
EMPTY_ITERATIONS = 20_000
WITHIN_OF_GENERATIONS = 0.01


@contextmanager
def without_collection() -> Iterator[None]:
    """Collect garbage before, not during."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def plain_loop(call: Callable[..., Any], args: tuple[Any, ...], iterations: int) -> list[float]:
    """Time calls the way a careful engineer would by hand; return seconds."""
    times = []
    with without_collection():
        for _ in range(iterations):
            start = perf_counter_ns()
            output = call(*args)
            times.append((perf_counter_ns() - start) * 1e-9)
            del output
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


def plain_generation(model: Any, ids: Any, new_tokens: int) -> list[float]:
    """Generate as one would by hand; return the seconds that it took."""
    from transformers import DynamicCache

    with without_collection():
        start = perf_counter_ns()
        cache, given = DynamicCache(), ids
        for _ in range(new_tokens):
            logits = model(input_ids=given, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            given = logits[:, -1].argmax(-1)[:, None]
        end = perf_counter_ns()
    return [(end - start) * 1e-9]


def suite_generation(generating: Generating) -> list[float]:
    """The same, timed by the suite."""
    with without_collection():
        return [GenerationClock(generating).time(lambda: None)[LATENCY]]


def compare_generations(blocks: int, weights: str) -> Claim:
    """Alternate generations of the suite with those of the plain loop."""
    workload = discovery.load_workload(discovery.find_workload("llm"))
    assert workload.generate is not None
    generation = workload.generate(workload.option_values({}))
    with ready_model("llm", weights=weights) as (model, args):
        assert isinstance(model, ComposableModel)
        plain = partial(plain_generation, model.module.model, args[0], generation.new_tokens)
        suite = partial(suite_generation, Generating(generation, model, args))
        suite(), plain()
        found = compare_alternating(blocks, suite, plain)
    return compared("llm", "suite / plain loop, whole generation", found, blocks, WITHIN_OF_GENERATIONS)


def main() -> int:
    """Print the figures; the exit code is 1 if a claim does not hold."""
    parser = parser_of(__doc__)
    parser.add_argument("--blocks", type=int, default=200, help="pairs of blocks (default: %(default)s)")
    parser.add_argument("--generation", action="store_true", help="compare generations of a language model instead")
    parser.add_argument("--weights", default="random", help="of the language model (default: %(default)s)")
    args = parser.parse_args()
    if args.generation:
        return conclude([compare_generations(args.blocks, args.weights)])
    claims = [compare(name, count, args.blocks) for name, count in BLOCK.items()]
    start = perf_counter()
    sampled(lambda: None, EMPTY_ITERATIONS)
    added = (perf_counter() - start) / EMPTY_ITERATIONS * 1e6
    cost = f"added per iteration: {added:.2f} µs, under {LIMIT_MICROSECONDS} µs"
    return conclude([*claims, Claim(cost, added < LIMIT_MICROSECONDS)])


if __name__ == "__main__":
    sys.exit(main())
