"""One process of benchmarks/peer.py: time BERT as optimum-benchmark does, and print the latencies as JSON.

    .venv/bin/python benchmarks/peer_process.py --save DIR             # write a BERT-base with random weights to DIR
    .venv/bin/python benchmarks/peer_process.py --model DIR [--peer INSTALLED]

With ``--peer`` it runs the optimum-benchmark that is installed there. Without, it does the same in plain code: the
model by ``from_pretrained``, one first call, 10 warm-up calls, then calls for 10 s and at least 10 of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

WARM_UPS, LEAST_CALLS, SEQUENCE = 10, 10, 384


def save(directory: Path, **changes: int) -> None:
    """Write a BERT-base for question answering with random weights; ``changes`` to its configuration are for tests."""
    from transformers import BertConfig, BertForQuestionAnswering

    BertForQuestionAnswering(BertConfig(**changes)).save_pretrained(directory)


def emulated(model: Path, seconds: float) -> list[float]:
    """Follow the protocol in plain code; return seconds per call."""
    import torch
    from transformers import BertForQuestionAnswering

    bert = BertForQuestionAnswering.from_pretrained(model).eval()
    inputs = {
        "input_ids": torch.randint(0, bert.config.vocab_size, (1, SEQUENCE)),
        "attention_mask": torch.ones(1, SEQUENCE, dtype=torch.int64),
        "token_type_ids": torch.zeros(1, SEQUENCE, dtype=torch.int64),
    }

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def call() -> Any:
        return bert(**inputs)

    for _ in range(1 + WARM_UPS):
        call()
    times: list[float] = []
    started = perf_counter()
    while perf_counter() - started < seconds or len(times) < LEAST_CALLS:
        before = perf_counter()
        call()
        times.append(perf_counter() - before)
    return times


def by_peer(model: Path, seconds: int, installed: Path) -> list[float]:
    """Run the optimum-benchmark in ``installed``; return seconds per call."""
    sys.path.append(str(installed))  # last, so that torch and transformers are those of this environment
    from optimum_benchmark import (  # type: ignore[import-not-found]
        Benchmark,
        BenchmarkConfig,
        InferenceConfig,
        InlineConfig,
        PyTorchConfig,
    )

    backend = PyTorchConfig(
        model=str(model), task="question-answering", library="transformers", model_type="bert", device="cpu"
    )
    scenario = InferenceConfig(
        duration=seconds,
        iterations=LEAST_CALLS,
        warmup_runs=WARM_UPS,
        input_shapes={"batch_size": 1, "sequence_length": SEQUENCE},
    )
    config = BenchmarkConfig(name="peer", backend=backend, scenario=scenario, launcher=InlineConfig())
    return [float(value) for value in Benchmark.launch(config).forward.latency.values]


def main() -> int:
    """Save a model, or print latencies as the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, metavar="DIR")
    parser.add_argument("--model", type=Path, metavar="DIR")
    parser.add_argument("--peer", type=Path, metavar="INSTALLED")
    parser.add_argument("--seconds", type=int, default=10)
    args = parser.parse_args()
    if args.save:
        save(args.save)
    elif args.model:
        times = by_peer(args.model, args.seconds, args.peer) if args.peer else emulated(args.model, args.seconds)
        print(json.dumps(times))
    else:
        parser.error("give --save or --model")
    return 0


if __name__ == "__main__":
    sys.exit(main())
