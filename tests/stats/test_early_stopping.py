"""MLPerf's early stopping: LoadGen's own numbers, and what the criterion promises."""

from __future__ import annotations

import math
import random

import pytest

from modelzoo.stats.latency_bound import (
    SAFETY,
    dependence,
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
