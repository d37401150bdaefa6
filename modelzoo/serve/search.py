"""The runs of a call: repeats with new instances, and in each of them one run, or the search for the highest rate.

Where to look for the highest rate that meets a bound: bracketing, then bisection. Pure.

LoadGen's rules describe the same search: "LoadGen will use a binary search to find a candidate value. It will then
verify stability by testing the value 5 times" (``inference_rules.adoc``, "LoadGen Operation",
https://github.com/mlcommons/inference_policies). Here the whole search is repeated with new instances instead, because
processes differ from each other by more than the runs of one.

The queue in virtual time, with the service times measured: where a search begins, how long a run has to be.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from statistics import fmean, median
from typing import Callable, Optional

import msgspec

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.load import Calibration, Flaw, Load, LoadPlan, LoadRun, LoadSession, Scenario
from modelzoo.records.machine import Throttling
from modelzoo.results.load import RESOLUTION, is_slow_alone
from modelzoo.serve.runs import SERVER_SECONDS, measure
from modelzoo.serve.servers import Server, VirtualServer
from modelzoo.stats.early_stopping import dependence, queries_to_show

STEP = 1.15
"""Factor between the first rate and the next, while all have passed or all have failed; each further step is twice as
large in logarithms …"""
WIDEST = 4
"""… up to this power of it."""
LOWEST = 0.02
"""Rates below this share of the first one are not tried."""


class Bracket(msgspec.Struct, frozen=True):
    """What is known of the highest rate.

    Attributes:
        first: the rate to try first, in requests per second.
        low: the highest rate that passed; ``None``: none has.
        high: the lowest rate that failed; ``None``: none has.
        steps: how many rates were tried before both were known.
    """

    first: float
    low: Optional[float] = None
    high: Optional[float] = None
    steps: int = 0

    def next(self) -> Optional[float]:
        """Return the rate to try next; ``None`` if the answer is known, or there is none."""
        if self.low is None and self.high is None:
            return self.first
        if self.low is not None and self.high is not None:
            return None if self.high <= self.low * (1 + RESOLUTION) else math.sqrt(self.low * self.high)
        factor = math.pow(STEP, min(2 ** (self.steps - 1), WIDEST))
        if self.low is not None:
            return self.low * factor
        assert self.high is not None
        rate = self.high / factor
        return rate if rate >= LOWEST * self.first else None

    def tried(self, rate: float, *, passed: bool) -> Bracket:
        """Return what is known after a run at ``rate``."""
        is_open = self.low is None or self.high is None
        found = replace(self, steps=self.steps + is_open)
        return replace(found, low=rate) if passed else replace(found, high=rate)


def highest(first: float, passes: Callable[[float], bool]) -> Optional[float]:
    """Return the highest rate that passes, to within ``RESOLUTION``; ``None`` if none does.

    Args:
        first: the rate to try first.
        passes: whether a rate passes.
    """
    bracket = Bracket(first)
    while (rate := bracket.next()) is not None:
        bracket = bracket.tried(rate, passed=passes(rate))
    return bracket.low


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

    The higher the utilization, the longer requests follow each other, and the more of them it takes. A plan of another
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


MOST_LATE = 3
"""Runs in a row in which the generator was late, after which a search ends without an answer."""


class CalibratedInstances(msgspec.Struct, frozen=True):
    """The instances of one repeat, ready and calibrated.

    Attributes:
        server: the instances.
        session: what is known of them.
        alone: seconds of a batch by its size, as the instances measured them before the calibration.
        throttling: reads how a quota has stopped them so far; ``None`` if there is none.
    """

    server: Server
    session: LoadSession
    alone: dict[int, float]
    throttling: Callable[[], Optional[Throttling]] = lambda: None

    def throttled(self, run: LoadRun, before: Optional[Throttling]) -> LoadRun:
        """Return ``run`` with how the quota stopped it, given what ``throttling`` returned when it began."""
        after = self.throttling()
        return run if before is None or after is None else replace(run, throttling=after.since(before))


Open = Callable[[int], "AbstractContextManager[CalibratedInstances]"]
"""Starts the instances of a repeat, given its number; they end with the context."""


def runs(load: Load, open_session: Open, on_session: Callable[[LoadSession], None]) -> Iterator[LoadRun]:
    """Yield the runs of a call, each as it ends.

    Args:
        load: what was asked for.
        open_session: starts the instances of a repeat.
        on_session: called with the instances of each repeat when they are ready.

    Raises:
        WorkerError: an instance died; its run was yielded before.
        ModelzooError: the instances cannot be started.
    """
    for repeat in range(load.plan.repeats):
        with open_session(repeat) as opened:
            on_session(opened.session)
            for run in _repeat(load, opened, repeat):
                yield run
                for number, use in enumerate(run.uses):
                    if use.error is not None:
                        raise WorkerError(f"instance {number} died: {use.error}")


def _repeat(load: Load, opened: CalibratedInstances, repeat: int) -> Iterator[LoadRun]:
    plan, calibration = load.plan, opened.session.calibration
    if not plan.is_search:
        plan = lengthened(plan, calibration, opened.alone, load.fixed_size)
        yield _measured(opened, plan, plan.rate, repeat, repeat)
        return
    yield from _search(load, opened, repeat)


def _measured(opened: CalibratedInstances, plan: LoadPlan, rate: Optional[float], repeat: int, seed: int) -> LoadRun:
    before = opened.throttling()
    run = measure(opened.server, plan, rate, repeat, seed, opened.session.calibration)
    return opened.throttled(run, before)


def _search(load: Load, opened: CalibratedInstances, repeat: int) -> Iterator[LoadRun]:
    """The runs of one search.

    All of them have the same gaps between arrivals, stretched by the rate (common random numbers), so that the rates of
    a repeat differ by nothing else; other repeats have others. A run of which only the generator was at fault is
    repeated with another schedule. Whatever fails for another reason as well counts as failed, so a generator that is
    late can only make the answer lower.
    """
    plan, calibration = load.plan, opened.session.calibration
    bracket = Bracket(predicted(plan, calibration, opened.alone, load.fixed_size))
    late, seed = 0, repeat
    while (rate := bracket.next()) is not None:
        run = _measured(opened, plan, rate, repeat, seed)
        yield run
        flaws = {reason.flaw for reason in run.reasons}
        late = late + 1 if flaws == {Flaw.LATE} else 0
        if late >= MOST_LATE or Flaw.TOO_FEW in flaws or Flaw.DIED in flaws:
            return
        if plan.bound is not None and Flaw.BOUND in flaws and is_slow_alone(run, plan.bound):
            return
        if late:
            seed += plan.repeats
        else:
            bracket = bracket.tried(rate, passed=run.is_valid)
