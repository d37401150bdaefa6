"""Whether a bound on a percentile is met: MLPerf's early stopping of one run, and rounds of new processes."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from modelzoo.stats.latency_bound import (
    SAFETY,
    BoundJudgement,
    BoundOutcome,
    dependence,
    judge,
    most_over,
    queries_for,
    queries_to_show,
    shows,
    upper_estimate,
)


@pytest.mark.parametrize(("fraction", "none", "one"), [(0.5, 7, 11), (0.9, 44, 64), (0.97, 152, 219), (0.99, 459, 662)])
def test_the_smallest_runs_are_those_of_loadgen(fraction: float, none: int, one: int) -> None:
    """ceil(log 0.01 / log p) with no query over the bound; 64 and 662 are the minima that LoadGen prints for one."""
    assert queries_for(0, fraction) == none == math.ceil(math.log(0.01) / math.log(fraction))
    assert queries_for(1, fraction) == one


@pytest.mark.parametrize("fraction", [0.9, 0.99])
@pytest.mark.parametrize("over", [0, 1, 2, 5, 30])
def test_both_directions_agree(fraction: float, over: int) -> None:
    """One query fewer allows one less over the bound."""
    queries = queries_for(over, fraction)
    assert most_over(queries, fraction) == over
    assert most_over(queries - 1, fraction) == (over - 1 if over else None)


def test_the_criterion_is_the_binomial_distribution() -> None:
    """The sum of the probabilities, term by term."""
    queries, fraction = 700, 0.99
    for over in range(6):
        terms = (math.comb(queries, k) * 0.01**k * 0.99 ** (queries - k) for k in range(over + 1))
        assert shows(queries, over, fraction) == (sum(terms) < 0.01)


def test_the_upper_estimate_covers_the_percentile() -> None:
    """In 99 % of the runs with independent latencies; here more than 96 % of 300."""
    draw = random.Random(5)
    truth = -math.log(0.1)  # p90 of the exponential distribution
    found = [upper_estimate([draw.expovariate(1.0) for _ in range(400)], 0.9) for _ in range(300)]
    assert sum(each is not None and each >= truth for each in found) > 0.96 * 300


def test_a_short_run_has_no_upper_estimate() -> None:
    """Too few to see how they follow each other, or to exceed it; a trend is one long dependence."""
    draw = random.Random(6)
    samples = [draw.random() for _ in range(1000)]
    assert upper_estimate(samples[:99], 0.9) is None
    assert upper_estimate(samples, 0.999) is None
    found = upper_estimate(samples, 0.9)
    assert found is not None
    assert 0.9 < found < 0.96
    assert upper_estimate(sorted(samples), 0.9) is None


def queue(count: int, rate: float, draw: random.Random) -> list[float]:
    """Latencies of requests that arrive at random and are served one after the other, each in one second."""
    wait, found = 0.0, []
    for _ in range(count):
        found.append(wait + 1.0)
        wait = max(0.0, wait + 1.0 - draw.expovariate(rate))
    return found


def test_requests_that_follow_each_other_count_less() -> None:
    """About twice what independent ones need by way of caution; far more in a busy queue; unknown if there are few."""
    draw = random.Random(7)
    alone = dependence([draw.random() for _ in range(5000)], 0.99)
    busy = dependence(queue(5000, 0.8, draw), 0.99)
    assert alone is not None and busy is not None
    assert 1.0 <= alone < 4.0
    assert busy > 15.0
    assert dependence([1.0] * 5000, 0.99) == pytest.approx(SAFETY)
    assert dependence([draw.random() for _ in range(99)], 0.99) is None


@pytest.mark.parametrize("rate", [0.5, 0.7])
def test_a_bound_that_is_just_not_met_is_rarely_shown_in_a_queue(rate: float) -> None:
    """In at most 2 % of the runs (8 of 150 are more than chance); the criterion alone is fooled in a fifth of them and
    more."""
    draw = random.Random(8)
    truth = sorted(queue(200_000, rate, draw))[198_000]
    alone = together = 0
    for _ in range(150):
        run = queue(3000, rate, draw)
        over, found = sum(each > truth for each in run), dependence(run, 0.99)
        assert found is not None
        alone += shows(3000, over, 0.99)
        together += shows(3000, over, 0.99, dependence=found)
    assert together < 8 < 20 < alone


def test_the_length_of_a_run_follows_from_what_exceeds_the_bound() -> None:
    """None is enough if as many exceed it as may."""
    assert queries_to_show(0.0, 0.99) == queries_for(0, 0.99)
    more = queries_to_show(0.005, 0.99, 5.0)
    assert more is not None
    assert shows(more, 0.005 * more, 0.99, dependence=5.0)
    assert not shows(more - 1, 0.005 * (more - 1), 0.99, dependence=5.0)
    assert queries_to_show(0.0099, 0.99) is None


MET, NOT_MET, UNDECIDED = "met", "not met", "undecided"


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
