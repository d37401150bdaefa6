"""The control variate: the slope is recovered, levels of settings do not leak into it, and it narrows."""

from __future__ import annotations

import math
from statistics import stdev

import numpy as np
import pytest

from modelzoo import stats
from modelzoo.stats import Control, Sums

Pair = tuple[float, float]


def settings(generator: np.random.Generator, slope: float, noise: float, blocks: int = 10) -> list[list[Pair]]:
    """Six settings of different levels on a machine whose log speed moves by 10 %."""
    found = []
    for level in generator.normal(0, 1, 6):
        moves = generator.normal(0, 0.1, blocks)
        found.append([(level + slope * x + e, x) for x, e in zip(moves, generator.normal(0, noise, blocks))])
    return found


def test_the_slope_is_that_within_settings() -> None:
    """Settings whose levels differ by 100 % do not disturb a slope of 0.8."""
    found = stats.fit_control(settings(np.random.default_rng(1), 0.8, 0.02))
    assert found.slope == pytest.approx(0.8, abs=0.1)
    assert found.correlation > 0.9
    assert found.blocks == 60


def test_levels_that_go_with_the_load_do_not_leak() -> None:
    """Between settings latency and load rise together, within them they do not: no slope."""
    groups = [[(level + x, level + y) for x, y in ((0.1, 0), (-0.1, 0), (0, 0.1), (0, -0.1))] for level in (0, 1, 2)]
    found = stats.fit_control(groups)
    assert (found.slope, found.correlation) == pytest.approx((0, 0), abs=1e-9)
    assert not found.is_used


def test_few_pairs_follow_the_earlier_slope() -> None:
    """The weights are degrees of freedom: two pairs have one."""
    pair = [[(0.0, 0.0), (2.0, 1.0)]]
    assert stats.fit_control(pair).slope == pytest.approx(2)
    assert stats.fit_control(pair, prior_slope=1.0, prior_weight=3).slope == pytest.approx((2 + 3 * 1) / 4)


@pytest.mark.parametrize("groups", [[], [[]], [[(0.1, 0.2)]], [[(0.1, 0.2), (0.3, 0.2)]]])
def test_a_load_that_never_moves_predicts_nothing(groups: list[list[Pair]]) -> None:
    """The slope is the earlier one, and it is not used."""
    found = stats.fit_control(groups, prior_slope=0.7)
    assert (found.slope, found.correlation, found.is_used) == (0.7, 0.0, False)


def test_a_constant_latency_has_no_correlation() -> None:
    """Nothing to explain."""
    assert stats.fit_control([[(1.0, 0.1), (1.0, 0.2)]]) == Control(0.0, 0.0, 2)


def test_adjusted_latencies_vary_less_and_keep_their_level() -> None:
    """Out of sample: a slope from some settings applied to another; at the reference speed nothing changes."""
    generator = np.random.default_rng(2)
    control = stats.fit_control(settings(generator, 0.8, 0.02))
    (blocks, *_) = settings(generator, 0.8, 0.02)
    found = [stats.adjusted(latency, load, control.slope, 0.0) for latency, load in blocks]
    assert stdev(found) < stdev([latency for latency, _ in blocks]) / 2
    assert stats.adjusted(1.5, math.log(2), 0.8, math.log(2)) == 1.5


def test_sums_of_several_sessions_are_those_of_all_data() -> None:
    """So that sessions can be kept as five numbers."""
    first, second = (settings(np.random.default_rng(seed), 0.8, 0.02) for seed in (1, 2))
    both, apart = stats.sums([*first, *second]), stats.sums(first).plus(stats.sums(second))
    assert (both.pairs, both.freedom) == (apart.pairs, apart.freedom)
    assert (both.latency, both.load, both.product) == pytest.approx((apart.latency, apart.load, apart.product))
    assert both.is_possible
    assert not Sums(8, 7, 1.0, 1.0, 1.1).is_possible


def test_others_count_as_prior_data() -> None:
    """As if ``weight`` degrees of freedom of the own data were like them, whatever the load moved there."""
    own, others = Sums(9, 8, 1.0, 1.0, 0.2), Sums(40, 36, 400.0, 400.0, 360.0)
    found = own.with_prior(others, 4.0)
    assert (found.pairs, found.freedom) == (9, 8)
    assert (found.latency, found.load, found.product) == pytest.approx((1.5, 1.5, 0.2 + 0.5 * 0.9))
    assert own.with_prior(Sums(), 4.0) == own
    assert own.with_prior(Sums(3, 2, 1.0, 1.0, 0.9), 4.0).load == pytest.approx(1.25), "no more than they have"
    assert Sums(1).with_prior(others, 4.0).correlation == pytest.approx(0.9)
    assert Sums().with_prior(Sums(), 4.0) == Sums()


def test_an_adjustment_takes_out_the_square_of_the_correlation_at_most() -> None:
    """With another slope less, and with twice the best one nothing."""
    found = Sums(9, 8, 2.0, 1.0, 0.8)
    assert found.explained(0.8) == pytest.approx(found.correlation**2)
    assert 0 < found.explained(0.5) < found.explained(0.8)
    assert found.explained(1.6) == pytest.approx(0)
    assert found.explained(2.0) < 0
    assert Sums().explained(1.0) == 0
