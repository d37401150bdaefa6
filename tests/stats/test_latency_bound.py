"""Whether a bound on a percentile is met, from rounds of new processes whose latencies are correlated."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from modelzoo.stats.latency_bound import BoundJudgement, BoundOutcome, judge, shows

MET, NOT_MET, UNDECIDED = BoundOutcome.MET, BoundOutcome.NOT_MET, BoundOutcome.UNDECIDED


def round_of(draw: random.Random, count: int, spread: float, wander: float) -> list[list[float]]:
    """Log-normal latencies about 0.1 s in one process: a level of its own, a wander over 20 samples, and noise."""
    level, speed, found = draw.gauss(0, spread), draw.gauss(0, wander), []
    for _ in range(count):
        speed = 0.95 * speed + draw.gauss(0, wander * math.sqrt(1 - 0.95**2))
        found.append(0.1 * math.exp(level + speed + draw.gauss(0, 0.02)))
    return [found]


def percentile(wander: float) -> float:
    """The true p90 of a round at the middle level, in seconds."""
    return 0.1 * math.exp(1.2816 * math.hypot(wander, 0.02))


def test_a_bound_far_from_the_percentile_is_decided() -> None:
    """In both directions, if the rounds agree."""
    draw = random.Random(1)
    rounds = [round_of(draw, 300, 0.03, 0.03) for _ in range(4)]
    assert judge(rounds, 90, 0.2) == BoundJudgement(MET)
    assert judge(rounds, 90, 0.05) == BoundJudgement(NOT_MET)


def test_what_is_missing_is_said() -> None:
    """Latencies of a round, rounds, or nothing that could be named."""
    draw = random.Random(2)
    rounds = [round_of(draw, 300, 0.05, 0.03) for _ in range(3)]
    near = judge(rounds, 90, 0.115)
    assert near.outcome is UNDECIDED
    assert near.more_rounds is not None
    assert near.more_rounds > 0
    assert judge(rounds, 99.9, 1.0) == BoundJudgement(UNDECIDED, more_samples=700)
    assert judge(rounds[:1], 90, 1.0) == BoundJudgement(UNDECIDED)
    assert judge([], 90, 1.0) == BoundJudgement(UNDECIDED)
    flat = [[[0.1] * 200], [[0.1] * 200]]
    assert judge(flat, 90, 0.1) == BoundJudgement(MET), "a percentile that equals the bound meets it"


@pytest.mark.parametrize(("spread", "wander"), [(0.0, 0.06), (0.08, 0.06), (0.0, 0.0)])
def test_a_bound_that_is_just_reached_is_rarely_decided(spread: float, wander: float) -> None:
    """In at most 1 % of the cases either way (9 of 250 are more than chance), whatever the correlation; an order
    statistic of all latencies together is wrong far more often."""
    draw, truth = random.Random(3), percentile(wander)
    found: list[BoundOutcome] = []
    pooled = 0
    for _ in range(250):
        rounds = [round_of(draw, 300, spread, wander) for _ in range(4)]
        found.append(judge(rounds, 90, truth).outcome)
        pooled += _is_shown(rounds, truth)
    assert found.count(MET) < 9
    assert found.count(NOT_MET) < 9
    assert pooled > 25 or not wander


def _is_shown(rounds: Sequence[Sequence[Sequence[float]]], limit: float) -> bool:
    every = [value for found in rounds for each in found for value in each]
    return shows(len(every), sum(value > limit for value in every), 0.9)


def test_instances_run_at_the_same_time() -> None:
    """A spell in which all of them are slow is one spell, however many there are."""
    slow = [0.1 if number % 100 < 80 else 0.2 for number in range(400)]
    one, four = judge([[slow]] * 3, 90, 0.15), judge([[slow] * 4] * 3, 90, 0.15)
    assert one == four == BoundJudgement(NOT_MET)
