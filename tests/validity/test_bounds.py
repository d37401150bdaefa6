"""Bounds of ratios over clusters, and tests of paired items: known answers, and what is kept of a promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from modelzoo.validity.bounds import (
    binomial_tail,
    clusters_needed,
    detectable_loss,
    draw,
    lower_bound,
    mcnemar,
    percentile_bounds,
    typical_size,
)


def share(right: int, count: int, size: float = 1.0):
    """The fraction of clusters of one size that are right."""
    values = [size] * right + [0.0] * (count - right)
    return draw(values, [size] * count, (0.0, size), (size, size))


@pytest.mark.parametrize(("right", "count"), [(300, 300), (297, 300), (30, 40), (0, 25), (12, 20)])
def test_bounds_of_a_proportion_are_clopper_and_pearsons(right: int, count: int) -> None:
    """On both sides, within the accuracy of the draws."""
    drawn = share(right, count)
    assert drawn.lower(0.95) == pytest.approx(lower_bound(right, count, 0.05), abs=0.01)
    assert drawn.upper(0.95) == pytest.approx(1 - lower_bound(count - right, count, 0.05), abs=0.01)


def test_a_set_in_which_nothing_changed_has_the_bound_of_the_rule_of_three() -> None:
    """3 ÷ clusters, whatever their size; percentiles of a bootstrap without the added cluster would give 0."""
    for size in (1.0, 7.0):
        assert (1 - share(300, 300, size).lower(0.95)) * 300 == pytest.approx(3, rel=0.1)


def test_the_size_of_the_added_cluster_is_that_in_which_lost_items_are() -> None:
    """Of clusters with 1 and 9 items, lost in proportion to these, 81 in 82 lost items were in the larger one."""
    assert typical_size([1, 9]) == pytest.approx((1 + 81 * 9) / 82)
    assert typical_size([4, 4]) == 4
    assert typical_size([0, 0]) == 0


@pytest.mark.parametrize("count", [20, 60, 300])
@pytest.mark.parametrize("lost", [0.01, 0.1])
def test_the_lower_bound_is_below_the_truth_in_95_of_100_sets(count: int, lost: float) -> None:
    """Scores with many values and a few large losses, on sets that are as small as a verdict allows."""
    random = np.random.default_rng(3)
    below = []
    for _ in range(400):
        values = np.where(random.random(count) < 2 * lost, random.random(count), 1.0)
        drawn = draw(values, np.ones(count), (0, 1), (1, 1))
        below.append(drawn.lower(0.95) <= 1 - lost)
    assert np.mean(below) >= 0.92  # 2.8 standard errors of the simulation below 0.95


def test_a_median_is_bounded_by_clusters() -> None:
    """About ±0.05 for 300 independent values, everything that is possible for two clusters, and not less than 0."""
    values = np.linspace(0, 1, 301).tolist()
    high, low = percentile_bounds(values, range(301), 50, 0.95, 0.95, 1.0)
    assert (low, high) == (pytest.approx(0.45, abs=0.01), pytest.approx(0.55, abs=0.01))
    assert percentile_bounds([0.1, 0.2], ["a", "b"], 50, 0.95, 0.95, 1.0) == (1.0, 0.0)
    assert percentile_bounds([0.0] * 5, range(5), 50, 0.5, 0.5, 1.0) == (0.0, 0.0)


def test_as_many_clusters_as_needed_decide() -> None:
    """Planted sets with the share that was seen: 80 in 100 of them, and far fewer of half the size."""
    seen = share(195, 200)
    needed = clusters_needed(seen, 0.95, 0.95, above=True)
    random = np.random.default_rng(0)
    decided = [share(int(right), needed).lower(0.95) >= 0.95 for right in random.binomial(needed, 0.975, 300)]
    assert np.mean(decided) == pytest.approx(0.8, abs=0.1)
    assert clusters_needed(seen, 0.975, 0.95, above=True) is None
    assert clusters_needed(share(100, 100), 0.99, 0.95, above=True) == pytest.approx(300, abs=3)


def test_the_smallest_loss_is_found_in_four_of_five_sets() -> None:
    """A loss of that size, planted, is significant by a one-sided test at 5 % with a power of 80 %."""
    random = np.random.default_rng(1)
    spread, count = 0.3, 400
    loss = detectable_loss(spread / math.sqrt(count), count)
    sets = random.normal(-loss, spread, (2000, count))
    t = sets.mean(axis=1) / (sets.std(axis=1, ddof=1) / math.sqrt(count))
    assert np.mean(t < -1.645) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("worse", "better", "p"),
    [(0, 0, 1.0), (5, 0, 2 / 32), (10, 2, 2 * (1 + 12 + 66) / 4096), (2, 10, 2 * 79 / 4096), (4, 4, 1.0)],
)
def test_mcnemar_by_hand(worse: int, better: int, p: float) -> None:
    """Twice the smaller tail of fair coins, at most 1."""
    assert mcnemar(worse, better) == pytest.approx(p)


def test_the_lower_bound_is_clopper_and_pearsons() -> None:
    """10 of 10 at 5 %: 0.05 to the power of 1/10; its tail is the significance."""
    assert lower_bound(10, 10, 0.05) == pytest.approx(0.05**0.1)
    assert lower_bound(0, 10, 0.05) == 0
    assert binomial_tail(13, 40, lower_bound(13, 40, 0.001)) == pytest.approx(0.001)
