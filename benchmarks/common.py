"""Shared by the benchmarks: a model that is ready to run, and the comparison of two alternating loops."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from claims import Claim

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from modelzoo import stats
from modelzoo.engines import create_engine
from modelzoo.engines.protocol import Model
from modelzoo.machine.cpu import usable_threads
from modelzoo.measure.sampler import HostClock, Sampling
from modelzoo.plan import Plan
from modelzoo.setting import Setting
from modelzoo.workload import discovery
from modelzoo.workload.declaration import make_inputs
from modelzoo.workload.weights import resolve_weights

MLP = str(discovery.CHECKOUT / "examples" / "mlp")
BLOCK = {"resnet50": 5, MLP: 200}
"""Calls per block for each workload: few, so that the machine is in the same state for both blocks of a pair."""

FP32 = Setting()


@contextmanager
def ready_model(
    name: str, requested: Setting = FP32, weights: str = "random"
) -> Iterator[tuple[Model, tuple[Any, ...]]]:
    """Yield the workload's model (by default random weights, fp32 and eager) and its prepared arguments."""
    engine = create_engine()
    engine.load()
    workload = discovery.load_workload(discovery.find_workload(name))
    options = workload.option_values({})
    setting = engine.resolve(requested.replace(options=options), batch=workload.batch, threads=usable_threads().count)
    found = resolve_weights(workload, options, weights, 0)
    session = engine.open(setting)
    with session.active():
        inputs = make_inputs(workload, setting, found)
        model = session.load(workload, found, inputs)
        yield model, model.prepare(inputs.args)


def sampled(call: Callable[[], Any], iterations: int) -> list[float]:
    """Time ``call`` with the suite's own sampler; return seconds."""
    sampling = Sampling(call, HostClock(), Plan(warmup=0, iterations=iterations), lambda phase, count: None)
    sampling.warm_up()
    while sampling.turn():
        pass
    return list(sampling.timing().steady)


def compare_alternating(blocks: int, a: Callable[[], list[float]], b: Callable[[], list[float]]) -> stats.Interval:
    """Compute time of A over time of B from pairs of blocks that run A B, B A, A B …"""
    sides: tuple[list[list[float]], list[list[float]]] = ([], [])
    for block in range(blocks):
        for side in (0, 1) if block % 2 == 0 else (1, 0):
            sides[side].append((a, b)[side]())
    return stats.ratio_test(*sides).interval


def compared(name: str, what: str, found: stats.Interval, blocks: int, within: float = 0.005) -> Claim:
    """The claim that a ratio is 1."""
    ratio = f"{found.value:.4f} [{found.low:.4f}, {found.high:.4f}]"
    return Claim(
        f"{Path(name).name}: {what} = {ratio} over {blocks} pairs of blocks, 1 ± {within}",
        abs(found.value - 1) <= within,
    )
