"""Count what many instances completed together in one round, and what the items cost. Pure.

The counted window opens when every instance has completed its first batch after the barrier, and closes
when the first instance completes its last one, so all instances ran all the time in it. Counted are the batches that
end in it. Throughput is items ÷ length of the window; it is never a sum of averages over different times. Of every
instance the batch that runs when the window opens counts as a whole, and the one that runs when it closes does not
count, so its count is off by less than one batch in either direction, and the total by less than one per instance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import msgspec

from modelzoo import stats
from modelzoo.records.race import ConfigurationRun
from modelzoo.records.serving import LatencyBound, Window

LEAST = 50
"""Batches that every instance should complete inside the window. The total is then known to 1 ÷ 50 = 2 % at worst."""
STRAGGLER = 0.9
"""An instance is a straggler if it completed less than this share of the median instance's batches …"""
STRAGGLER_BATCHES = 2
"""… and is behind by more batches than counting can be off by."""
NO_WINDOW = "a batch took as long as the whole run, so nothing could be counted; give --seconds a larger value"
"""Why a round failed in which nothing went wrong."""
MILLION = 1e6
SECONDS_PER_HOUR = 3600.0


def count(instances: Sequence[Window]) -> tuple[float | None, tuple[tuple[float, ...], ...]]:
    """Count the batches inside the window in which all ``instances`` ran.

    Returns:
        the length of the window, and for each instance the latencies of the batches that ended in it; ``None`` and none
        if there is no such window.
    """
    nothing = None, ((),) * len(instances)
    if not instances or not all(each.ended for each in instances):
        return nothing
    start, end = max(each.ended[0] for each in instances), min(each.ended[-1] for each in instances)
    if end <= start:
        return nothing
    return end - start, tuple(
        tuple(done - begun for begun, done in zip(each.started, each.ended) if start < done <= end)
        for each in instances
    )


def rate(run: ConfigurationRun, batch: int) -> float | None:
    """Items per second of all instances together; ``None`` if they did not all run."""
    if not run.window or any(each.error for each in run.instances):
        return None
    return batch * run.counted / run.window


def uncertainty(run: ConfigurationRun) -> float:
    """How far the count may be off: ± 1 batch of every instance, relative to the total."""
    return len(run.instances) / run.counted if run.counted else math.inf


def stragglers(run: ConfigurationRun) -> dict[int, float]:
    """The instances that were much slower than most, with the share of the median instance's batches."""
    counts = [each.counted for each in run.instances]
    if len(counts) < 2:
        return {}
    middle = median(counts)
    return {
        number: value / middle
        for number, value in enumerate(counts)
        if value < STRAGGLER * middle and middle - value > STRAGGLER_BATCHES
    }


class RoundError(msgspec.Struct, frozen=True):
    """What went wrong in rounds.

    Attributes:
        problem: the error of instances; ``None``: nothing could be counted, see ``NO_WINDOW``.
        places: the rounds in which it did, from 0, with the number of the instance that it ended.
    """

    problem: str | None
    places: tuple[tuple[int, int | None], ...]


def round_errors(runs: Sequence[ConfigurationRun]) -> tuple[RoundError, ...]:
    """Each error once, with the instances that it ended."""
    places: dict[str | None, list[tuple[int, int | None]]] = {}
    for run in runs:
        if not run.window and all(each.error is None for each in run.instances):
            places.setdefault(None, []).append((run.round, None))
        for number, each in enumerate(run.instances):
            if each.error is not None:
                places.setdefault(each.error, []).append((run.round, number))
    return tuple(RoundError(problem, tuple(where)) for problem, where in places.items())


class Served(msgspec.Struct, frozen=True):
    """The best configuration of instances that one session found.

    Attributes:
        configuration: its name; empty if there is none.
        rates: what all instances together served per second in each round that it is judged by.
        unit: of what.
        batches: the batch sizes that it was chosen from.
        cores: the most that a configuration kept busy from which it was chosen.
        bound: what the latency had to meet; ``None`` if nothing.
        is_met: whether it is known to meet the bound, if there is one.
        is_confirmed: whether these rounds took no part in its choice.
    """

    configuration: str
    rates: tuple[float, ...]
    unit: str
    batches: tuple[int, ...]
    cores: int
    bound: LatencyBound | None
    is_met: bool
    is_confirmed: bool


def per_million(per_hour: float, rate: stats.Interval) -> stats.Interval:
    """Return what a million items cost: price per hour ÷ 3600 s × 10⁶ ÷ throughput.

    Args:
        per_hour: price of an hour of the whole machine, in any currency.
        rate: items per second of the whole machine.
    """
    return stats.inverse(rate, per_hour / SECONDS_PER_HOUR * MILLION)
