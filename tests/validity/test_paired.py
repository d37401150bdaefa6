"""Statistics of paired items: planted changes with known answers."""

from __future__ import annotations

import math
from math import comb

import pytest

from modelzoo.validity.bounds import (
    binomial_tail,
    detectable_loss,
    lower_bound,
    mcnemar,
)


def test_a_set_in_which_nothing_changed_shows_what_the_rule_of_three_says() -> None:
    """Not everything, although its standard error is 0."""
    assert detectable_loss(0.0, 300) * 300 == pytest.approx(3)


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
