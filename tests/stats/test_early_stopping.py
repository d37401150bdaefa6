"""MLPerf's early stopping: LoadGen's own numbers, and what the criterion promises."""

from __future__ import annotations

import math
import random

import pytest

from modelzoo.stats.early_stopping import most_over, queries_for, shows, upper_estimate


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


def test_a_long_run_allows_almost_the_nominal_share() -> None:
    """270,336 queries, which MLPerf 0.5 asked for, show p99 with up to 0.95 % over the bound."""
    found = most_over(270_336, 0.99)
    assert found is not None
    assert 0.0095 < found / 270_336 < 0.01


def test_the_upper_estimate_covers_the_percentile() -> None:
    """In 99 % of the runs with independent latencies; here more than 96 % of 300."""
    draw = random.Random(5)
    truth = -math.log(0.1)  # p90 of the exponential distribution
    found = [upper_estimate(sorted(draw.expovariate(1.0) for _ in range(200)), 0.9) for _ in range(300)]
    assert sum(each is not None and each >= truth for each in found) > 0.96 * 300


def test_a_short_run_has_no_upper_estimate() -> None:
    """From LoadGen's minimum on it is the largest latency."""
    ordered = [float(number) for number in range(64)]
    assert upper_estimate(ordered[:63], 0.9) is None
    assert upper_estimate(ordered, 0.9) == 63.0
