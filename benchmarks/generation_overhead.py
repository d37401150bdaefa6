"""Does the suite time the tokens of a language model as a plain loop does?

    .venv/bin/python benchmarks/generation_overhead.py [--pairs 40] [--weights DIRECTORY]

The plain loop calls transformers' model itself: the prompt, then token after token, greedily, with a cache that grows.
Both run in one process on the same model and prompt, and take turns: A B, B A …, so that drift of the machine affects
both. The claim: the ratio of the whole generation is 1.00 ± 0.01.
"""

from __future__ import annotations

import argparse
import gc
import sys
from functools import partial
from time import perf_counter_ns
from typing import Any

from common import compare_alternating, compared, conclude, ready_model

from modelzoo.engines.protocol import ComposableModel
from modelzoo.measure.generation import Generating, GenerationClock
from modelzoo.records.timing import LATENCY
from modelzoo.workload import discovery

WITHIN = 0.01


def plain_generation(model: Any, ids: Any, new_tokens: int) -> list[float]:
    """Generate as one would by hand; return the seconds that it took."""
    from transformers import DynamicCache

    gc.collect()
    gc.disable()
    start = perf_counter_ns()
    cache, given = DynamicCache(), ids
    for _ in range(new_tokens):
        logits = model(input_ids=given, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        given = logits[:, -1].argmax(-1)[:, None]
    end = perf_counter_ns()
    gc.enable()
    return [(end - start) * 1e-9]


def suite_generation(generating: Generating) -> list[float]:
    """The same, timed by the suite."""
    gc.collect()
    gc.disable()
    sample = GenerationClock(generating).time(lambda: None)
    gc.enable()
    return [sample[LATENCY]]


def main() -> int:
    """Print the ratio; the exit code is 1 if the claim does not hold."""
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
        plain = partial(plain_generation, model.module.model, args[0], generation.new_tokens)
        suite = partial(suite_generation, generating)
        suite(), plain()
        found = compare_alternating(given.pairs, suite, plain)
    return conclude([compared("llm", "suite / plain loop, whole generation", found, given.pairs, WITHIN)])


if __name__ == "__main__":
    sys.exit(main())
