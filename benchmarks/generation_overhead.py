"""Does the suite time the tokens of a language model as a plain loop does?

    .venv/bin/python benchmarks/generation_overhead.py [--pairs 40] [--weights DIRECTORY]

The plain loop calls transformers' model itself: the prompt, then token after token, greedily, with a cache that grows.
Both run in one process on the same model and prompt, and take turns: A B, B A …, so that drift of the machine affects
both. The claims: the ratio of the whole generation is 1.00 ± 0.01, those of the time to the first token (TTFT) and of
the time per output token (TPOT) are 1.00 ± 0.02, and TTFT + (tokens − 1) × TPOT is the time of the call by another
clock to within 0.1 %, in the median.
"""

from __future__ import annotations

import argparse
import gc
import sys
from functools import partial
from statistics import median
from time import perf_counter_ns
from typing import Any

from common import compare_alternating, ready_model, report

from modelzoo.engines.protocol import ComposableModel
from modelzoo.measure.generation import Generating, GenerationClock
from modelzoo.records.timing import FIRST_TOKEN, LATENCY, PER_TOKEN
from modelzoo.workload import discovery

WITHIN = 0.01
PARTS_WITHIN = 0.02
MOST_UNEXPLAINED = 1e-3


def plain_generation(model: Any, ids: Any, new_tokens: int) -> tuple[float, float, float]:
    """Generate as one would by hand; return the seconds of the whole, to the first token, and of each further one."""
    from transformers import DynamicCache

    gc.collect()
    gc.disable()
    start = perf_counter_ns()
    cache = DynamicCache()
    token = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].argmax(-1)
    first = perf_counter_ns()
    for _ in range(new_tokens - 1):
        logits = model(input_ids=token[:, None], past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        token = logits[:, -1].argmax(-1)
    end = perf_counter_ns()
    gc.enable()
    return (end - start) * 1e-9, (first - start) * 1e-9, (end - first) * 1e-9 / (new_tokens - 1)


def suite_generation(generating: Generating) -> tuple[float, float, float, float]:
    """The same, timed by the suite; and the seconds of its call by a clock around it."""
    gc.collect()
    gc.disable()
    start = perf_counter_ns()
    sample = GenerationClock(generating).time(lambda: None)
    end = perf_counter_ns()
    gc.enable()
    return sample[LATENCY], sample[FIRST_TOKEN], sample[PER_TOKEN], (end - start) * 1e-9


def main() -> int:
    """Print the ratios; the exit code is 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--weights", default="random")
    given = parser.parse_args()
    workload = discovery.load_workload(discovery.find_workload("llm"))
    assert workload.generate is not None
    generation = workload.generate(workload.option_values({}))
    with ready_model("llm", weights=given.weights) as (model, args):
        assert isinstance(model, ComposableModel)
        generating = Generating(generation, model, args)
        sides: tuple[list[tuple[float, ...]], ...] = ([], [])

        def suite() -> list[float]:
            sides[0].append(suite_generation(generating))
            return [sides[0][-1][0]]

        def plain() -> list[float]:
            sides[1].append(plain_generation(model.module.model, args[0], generation.new_tokens))
            return [sides[1][-1][0]]

        suite(), plain()
        found = compare_alternating(given.pairs, suite, plain)
    holds = [report("llm", "suite / plain loop, whole generation", found, given.pairs, WITHIN)]
    for place, name in ((1, "TTFT"), (2, "TPOT")):
        mine, theirs = (iter([[each[place]] for each in side[1:]]) for side in sides)
        ratio = compare_alternating(given.pairs, partial(next, mine), partial(next, theirs))
        holds.append(report("llm", f"suite / plain loop, {name}", ratio, given.pairs, PARTS_WITHIN))
    left = median(abs(call - b - (generation.new_tokens - 1) * c) / call for _, b, c, call in sides[0])
    holds.append(left <= MOST_UNEXPLAINED)
    print(
        f"|call − TTFT − (tokens − 1) × TPOT| ÷ call, median: {left:.1e}: {'holds' if holds[-1] else 'DOES NOT HOLD'}"
    )
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
