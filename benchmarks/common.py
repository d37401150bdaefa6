"""Shared by the benchmarks: claims and tables, a model that is ready to run, and the comparison of two loops."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from modelzoo import stats
from modelzoo.engines import create_engine
from modelzoo.engines.protocol import Model
from modelzoo.machine.facts import usable_threads
from modelzoo.measure.sampler import Sampling, host_clock
from modelzoo.plan import Plan
from modelzoo.setting import Setting
from modelzoo.workload import discovery
from modelzoo.workload.declaration import make_inputs
from modelzoo.workload.weights import resolve_weights


@dataclass(frozen=True)
class Claim:
    """One goal, and whether it was reached; ``None`` if the data cannot show it."""

    what: str
    holds: bool | None

    def __str__(self) -> str:
        return f"{'not shown' if self.holds is None else 'holds' if self.holds else 'DOES NOT HOLD'}: {self.what}"


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The parser of a script, whose ``--help`` begins with its docstring."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def conclude(claims: Sequence[Claim]) -> int:
    """Print the claims; return the exit code, 1 unless all of them hold."""
    for claim in claims:
        print(claim)
    return 0 if all(claim.holds for claim in claims) else 1


def some_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Return the type of an option that names some rows of a benchmark: ``a,b``."""

    def parse(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if unknown := sorted(set(found) - set(known)):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(known)}")
        return found

    return parse


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in aligned columns, the first one to the left."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, *rows]:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths))
        lines.append("  ".join([first.strip().ljust(widths[0]), *others]).rstrip())
    return "\n".join(lines)


def bounds(found: stats.Interval, digits: int = 4) -> str:
    """A ratio with its interval."""
    return f"{found.value:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def percent(fraction: float) -> str:
    """A fraction in percent, to one decimal."""
    return f"{100 * fraction:.1f} %"


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
    sampling = Sampling(call, host_clock, Plan(warmup=0, iterations=iterations), lambda phase, count: None)
    sampling.warm_up()
    while sampling.turn():
        pass
    return list(sampling.timing().steady)


def turns(pairs: int) -> Iterator[tuple[int, int]]:
    """Yield the number of each pair and a side, 0 or 1, in the order A B, B A, A B …"""
    for pair in range(pairs):
        yield from ((pair, side) for side in ((0, 1) if pair % 2 == 0 else (1, 0)))


def compare_alternating(blocks: int, a: Callable[[], list[float]], b: Callable[[], list[float]]) -> stats.Interval:
    """Compute time of A over time of B from pairs of blocks that run A B, B A, A B …"""
    sides: tuple[list[list[float]], list[list[float]]] = ([], [])
    for _, side in turns(blocks):
        sides[side].append((a, b)[side]())
    return stats.ratio_test(*sides).interval


def compared(name: str, what: str, found: stats.Interval, blocks: int, within: float = 0.005) -> Claim:
    """The claim that a ratio is 1."""
    return Claim(
        f"{Path(name).name}: {what} = {bounds(found)} over {blocks} pairs of blocks, 1 ± {within}",
        abs(found.value - 1) <= within,
    )
