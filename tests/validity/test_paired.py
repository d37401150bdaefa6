"""Statistics of paired items: planted changes with known answers, and the coverage of the interval."""

from __future__ import annotations

import math
from math import comb

import pytest

from modelzoo.validity.paired import (
    binomial_tail,
    detectable_loss,
    difference_interval,
    lower_bound,
    mcnemar,
    standard_error,
)


def changed(count: int, worse: int, better: int = 0) -> list[float]:
    """Differences of ``count`` items, of which some got worse or better by 1."""
    return [-1.0] * worse + [1.0] * better + [0.0] * (count - worse - better)


@pytest.mark.parametrize(
    ("count", "worse", "better"), [(50_000, 400, 200), (1_190, 40, 20), (300, 12, 0), (200, 20, 20)]
)
def test_the_interval_is_that_of_the_mean_if_many_items_changed(count: int, worse: int, better: int) -> None:
    """Close to the mean ± 1.96 standard errors of textbooks."""
    differences = changed(count, worse, better)
    mean, error = (better - worse) / count, standard_error(differences)
    low, high = difference_interval(differences)
    assert (low, high) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=0.4 * error)


@pytest.mark.parametrize("count", [42, 300, 50_000])
def test_a_set_in_which_nothing_changed_has_the_interval_of_the_rule_of_three(count: int) -> None:
    """Not 0 ± 0, which would claim that nothing can be lost."""
    low, high = difference_interval([0.0] * count)
    assert low == -high
    assert high * count == pytest.approx(3, rel=0.05)
    assert detectable_loss(0.0, count) * count == pytest.approx(3)


def test_the_interval_of_a_ratio_weighs_the_items() -> None:
    """Four in ten objects of the large pictures changed and none of the small ones: the ratio is by objects."""
    sizes = [10.0] * 100 + [1.0] * 100
    differences = [-4.0] * 100 + [0.0] * 100
    low, high = difference_interval(differences, sizes)
    assert low < -400 / 1100 < high
    assert high - low < 0.02


def test_the_interval_is_the_same_in_any_order_and_every_time() -> None:
    """Shards may come in any order."""
    differences = [0.5, -0.25, 0.0, -1.0, 0.0] * 20
    assert difference_interval(differences) == difference_interval(sorted(differences))


@pytest.mark.parametrize(
    ("count", "worse", "better", "size"),
    [
        (42, 0.01, 0.0, 1.0),
        (42, 0.05, 0.02, 0.5),
        (200, 0.02, 0.02, 1.0),
        (200, 0.2, 0.1, 0.7),
        (1000, 0.03, 0.01, 1.0),
    ],
)
def test_the_interval_contains_the_true_change_in_95_of_100_sets(
    count: int, worse: float, better: float, size: float
) -> None:
    """Simulated sets from a population whose change is known; few changed items may make the interval wider."""
    import numpy as np

    random = np.random.default_rng(5)
    covered = []
    for _ in range(400):
        drawn = random.random(count)
        differences = np.where(drawn < worse, -size, np.where(drawn < worse + better, size, 0.0))
        low, high = difference_interval(list(differences))
        covered.append(low <= size * (better - worse) <= high)
    assert np.mean(covered) >= 0.925  # 2.3 standard errors of the simulation below 0.95


def test_the_smallest_loss_is_found_in_four_of_five_sets() -> None:
    """A loss of that size, planted, is significant by a one-sided test at 5 % with a power of 80 %."""
    import numpy as np

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


@pytest.mark.parametrize("trials", [1, 7, 60])
@pytest.mark.parametrize("probability", [0.01, 0.1, 0.5, 0.93])
def test_binomial_tails_are_the_sums_of_their_terms(trials: int, probability: float) -> None:
    """Every tail of a few distributions, term by term."""
    terms = [comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(trials + 1)]
    for successes in range(trials + 1):
        expected = math.fsum(terms[successes:])
        assert binomial_tail(successes, trials, probability) == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_binomial_tails_at_the_ends() -> None:
    """Impossible and certain events, and sets as large as ImageNet's."""
    assert (binomial_tail(3, 2, 0.5), binomial_tail(0, 2, 0.0), binomial_tail(1, 2, 0.0)) == (0.0, 1.0, 0.0)
    assert binomial_tail(2, 2, 1.0) == 1.0
    assert binomial_tail(5_000, 50_000, 0.1) == pytest.approx(0.5, abs=0.01)
    assert 0 < binomial_tail(6_000, 50_000, 0.1) < 1e-40


def test_the_lower_bound_is_clopper_and_pearsons() -> None:
    """10 of 10 at 5 %: 0.05 to the power of 1/10; its tail is the significance."""
    assert lower_bound(10, 10, 0.05) == pytest.approx(0.05**0.1)
    assert lower_bound(0, 10, 0.05) == 0
    assert binomial_tail(13, 40, lower_bound(13, 40, 0.001)) == pytest.approx(0.001)
