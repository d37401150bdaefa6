"""What the benchmarks share: a workload ready to call, and two loops that alternate."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from modelzoo import stats
from modelzoo.engines.torch import execution, switches
from modelzoo.machine import limits
from modelzoo.measure import sampler
from modelzoo.measure.clock import HostClock
from modelzoo.setting import Plan, Setting
from modelzoo.workload import discovery
from modelzoo.workload.declaration import InputRequest
from modelzoo.workload.weights import load_model, resolve_weights

MLP = str(discovery.CHECKOUT / "examples" / "mlp")
BLOCK = {"resnet50": 5, MLP: 200}
"""Calls in a block of each workload: short, so that both blocks of a pair see the same machine."""


@contextmanager
def ready(name: str) -> Iterator[tuple[execution.Executable, tuple[Any, ...]]]:
    """The workload's model (random weights, fp32, eager) and its prepared arguments."""
    import torch

    work = discovery.load_workload(discovery.find_workload(name))
    options = work.option_values({})
    setting = Setting(options=options)
    torch.set_num_threads(limits.usable_threads().count)
    weights = resolve_weights(work, options, "random", 0)
    with torch.inference_mode(), switches.applied(setting):
        model = load_model(work, options, weights)
        inputs = work.inputs(InputRequest(work.batch, 0, None, options))
        executable = execution.build(work, model, inputs, setting)
        yield executable, executable.prepare(inputs.args)


def suite(call: Callable[[], Any], iterations: int) -> list[float]:
    """The suite's own sampling, in seconds."""
    return list(sampler.measure(call, HostClock(), Plan(warmup=0, iterations=iterations)).steady)


def alternating(blocks: int, a: Callable[[], list[float]], b: Callable[[], list[float]]) -> stats.Interval:
    """Time of A over time of B, over pairs of blocks that run A B, B A, A B …"""
    sides: tuple[list[list[float]], list[list[float]]] = ([], [])
    for block in range(blocks):
        for side in (0, 1) if block % 2 == 0 else (1, 0):
            sides[side].append((a, b)[side]())
    return stats.ratio_interval(*sides, paired=True)


def report(name: str, what: str, found: stats.Interval, blocks: int, within: float = 0.005) -> bool:
    """Print a ratio and whether it is 1 within the claim."""
    holds = abs(found.value - 1) <= within
    print(
        f"{Path(name).name}: {what} = {found.value:.4f} [{found.low:.4f}, {found.high:.4f}] over {blocks} pairs of "
        f"blocks: {'holds' if holds else 'DOES NOT HOLD'}",
        flush=True,
    )
    return holds
