"""The control variate: the slope is recovered, levels of settings do not leak into it, and it narrows."""

from __future__ import annotations

import math
from statistics import stdev

import numpy as np
import pytest

from modelzoo import stats
from modelzoo.stats import Control

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
