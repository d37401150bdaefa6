"""The queue in virtual time, with the service times measured: where a search begins, how long a run has to be."""

from __future__ import annotations

import random
from collections.abc import Mapping
from statistics import fmean, median
from typing import Callable, Optional

from modelzoo.frozen import replace
from modelzoo.load.bracket import highest
from modelzoo.load.measuring import SERVER_SECONDS, measure
from modelzoo.load.virtual import VirtualServer
from modelzoo.records.load import Calibration, LoadPlan, Scenario
from modelzoo.stats.early_stopping import dependence, queries_to_show

START = 0.7
"""The share of the capacity with which the search in virtual time begins."""
SIMULATED = 20_000
"""Requests of a simulated run from which the length of a real one follows."""
AMPLE = 2.0
"""A run has this many times as many requests as just suffice in virtual time: with those, chance would decide."""
LONGEST = 300.0
"""Seconds that a run lasts at most, unless --queries or --duration ask for more."""


def predicted(plan: LoadPlan, calibration: Calibration, alone: Mapping[int, float], fixed_size: Optional[int]) -> float:
    """Return the rate to try first, in requests per second.

    If no rate meets the bound in virtual time, it is a low one.

    Args:
        plan: of a search.
        calibration: what full batches took while all instances were busy.
        alone: seconds of a batch by its size, as the instances measured them before.
        fixed_size: as in ``Server``.
    """
    service = _service(plan, calibration, alone)

    def passes(rate: float) -> bool:
        server = VirtualServer(plan.instances, service, fixed_size)
        return measure(server, replace(plan, duration=None), rate, 0, 0, calibration).is_valid

    first = START * calibration.rate
    found = highest(first, passes)
    return first / 2 if found is None else found


def lengthened(
    plan: LoadPlan, calibration: Calibration, alone: Mapping[int, float], fixed_size: Optional[int]
) -> LoadPlan:
    """Return ``plan`` with as many requests as it takes to show its bound, by what the queue does in virtual time.

    The higher the utilisation, the longer requests follow each other, and the more of them it takes. A plan of another
    kind, or one that says how long a run is, is returned as it is; so is one whose bound is not met in virtual time,
    because a short run shows that. A run lasts at most ``LONGEST``.

    Args:
        plan: of runs at one rate.
        calibration, alone, fixed_size: as for ``predicted``.
    """
    if plan.scenario is not Scenario.SERVER or plan.is_search or plan.bound is None or plan.rate is None:
        return plan
    if plan.queries is not None or plan.duration is not None:
        return plan
    server = VirtualServer(plan.instances, _service(plan, calibration, alone), fixed_size)
    run = measure(server, replace(plan, queries=SIMULATED), plan.rate, 0, 0, calibration)
    fraction = plan.bound.percentile / 100
    together = dependence(run.latencies, fraction)
    over = sum(latency > plan.bound.seconds for latency in run.latencies) + run.rejected
    wanted = None if together is None else queries_to_show(over / run.requests, fraction, together)
    if wanted is None:
        return plan
    return replace(plan, queries=round(min(max(AMPLE * wanted, plan.rate * SERVER_SECONDS), plan.rate * LONGEST)))


def _service(plan: LoadPlan, calibration: Calibration, alone: Mapping[int, float]) -> Callable[[int], float]:
    """How long a batch of so many requests takes in virtual time.

    A batch takes what one of the calibration's did, drawn at random; a smaller batch takes the share of it that it took
    in an instance's warm-up.
    """
    draw, whole = random.Random(plan.seed), alone.get(calibration.size, median(calibration.seconds))
    # Between two batches an instance waits for the generator.
    cycle = plan.instances * calibration.size / calibration.rate
    between = max(0.0, cycle - fmean(calibration.seconds))

    def service(size: int) -> float:
        return draw.choice(calibration.seconds) * alone.get(size, whole) / whole + between

    return service
