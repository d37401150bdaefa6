"""Intervals of one setting: their coverage on simulated processes, and what they say of few."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import autoregressive, binomial_error, heavy_processes

from modelzoo import stats
from modelzoo.stats import Interval

positive = st.floats(1e-6, 1e3)
samples_of = st.lists(positive, min_size=1, max_size=60)


def covers(found: Interval, truth: float = 1.0) -> bool:
    """Whether the truth lies in the interval."""
    return found.low <= truth <= found.high


@pytest.mark.parametrize("count", [3, 5, 8])
def test_level_intervals_cover_the_truth_as_often_as_they_claim(count: int) -> None:
    """Log-normal medians: 94 to 96 % of 95 % intervals cover the geometric mean."""
    generator = np.random.default_rng(count)
    trials = np.exp(generator.normal(0, 0.1, (6000, count))).tolist()
    covered = sum(covers(stats.level_interval(medians)) for medians in trials) / len(trials)
    assert 0.94 <= covered <= 0.96


def test_the_level_is_the_geometric_mean_and_the_interval_students_t() -> None:
    """Eight stored medians of ResNet50: ±7.1 %, computed by hand."""
    medians = [0.0620, 0.0592, 0.0746, 0.0633, 0.0659, 0.0601, 0.0571, 0.0621]
    found = stats.level_interval(medians)
    assert found.value == pytest.approx(math.prod(medians) ** (1 / 8))
    assert found.half_width == pytest.approx(0.071, abs=5e-4)
    assert found.high / found.value == pytest.approx(found.value / found.low), "symmetric in logarithms"
    assert stats.setting_interval([[each] * 3 for each in medians]) == found


def stopped(generator: np.random.Generator, margin: float, *, by_precision: bool) -> Interval:
    """The interval when it is first within ``margin``, from 8 to 64 processes on, with a spread of 10 %."""
    medians = np.exp(generator.normal(0, 0.1, 64)).tolist()
    for count in range(8, 65):
        found = stats.level_interval(medians[:count], by_precision=by_precision)
        if found.half_width <= margin:
            break
    return found


@pytest.mark.slow
def test_intervals_that_decide_when_to_stop_would_not_cover_if_they_were_not_widened() -> None:
    """Over margins that stop at 8 to 50 processes: 93 % without the factor, 94.0 to 96.5 % with it."""
    generator, trials = np.random.default_rng(18), 12_000
    for margin in (0.08, 0.05, 0.045, 0.03):
        covered = sum(covers(stopped(generator, margin, by_precision=True)) for _ in range(trials)) / trials
        assert 0.94 <= covered <= 0.965
    covered = sum(covers(stopped(generator, 0.05, by_precision=False)) for _ in range(trials)) / trials
    assert covered < 0.938


@pytest.mark.parametrize("count", [3, 5, 7, 15])
def test_intervals_between_processes_cover_heavy_tails(count: int) -> None:
    """Intervals of few processes cover the truth in at least 90 % of cases although tails are heavy."""
    generator = np.random.default_rng(3)
    found = [stats.setting_interval(heavy_processes(generator, count)) for _ in range(200)]
    assert sum(map(covers, found)) / len(found) >= 0.9


def test_one_process_has_its_own_interval() -> None:
    """A level of one process is unbounded; its setting shows the interval of the process itself."""
    samples = [1.0, 1.01, 0.99, 1.0] * 10
    assert stats.setting_interval([samples]) == stats.process_interval(samples)
    assert stats.level_interval([1.0]) == Interval(1.0, 0.0, math.inf)


@pytest.mark.parametrize(
    ("medians", "odd"),
    [
        ([1.0, 1.01, 0.99, 1.5, 1.02, 0.98], 3),
        ([1.0, 1.01, 0.99, 0.6, 1.02, 0.98], 3),
        ([1.0, 1.01, 1.5, 1.0], None),
        ([1.0] * 8, None),
        ([1.0, 1.3, 0.8, 1.1, 0.9, 1.2], None),
    ],
)
def test_an_odd_process_is_found(medians: list[float], odd: int | None) -> None:
    """Four are too few to tell, equal ones do not differ, and a wide spread has no odd one."""
    assert stats.odd_process(medians) == odd


@pytest.mark.parametrize("count", [5, 8, 16])
def test_like_processes_are_seldom_called_odd(count: int) -> None:
    """In 1 % of sets, as documented."""
    generator, trials = np.random.default_rng(21), 2000
    sets = np.exp(generator.normal(0, 0.1, (trials, count))).tolist()
    found = sum(stats.odd_process(medians) is not None for medians in sets) / trials
    assert abs(found - 0.01) <= binomial_error(0.01, trials)


@pytest.mark.parametrize(
    ("rho", "count", "least", "most"),
    [(0.4, 200, 0.9, 1), (0.7, 200, 0.9, 1), (0.9, 200, 0.87, 1), (0.0, 1000, 0.92, 0.99), (0.9, 1000, 0.92, 0.99)],
)
def test_process_interval_covers_correlated_samples(rho: float, count: int, least: float, most: float) -> None:
    """The true median nearly as often as it claims, correlated or not; with 1,000 samples in about 95 %."""
    generator = np.random.default_rng(7)
    found = [stats.process_interval(autoregressive(generator, count, rho)) for _ in range(600)]
    assert least <= sum(map(covers, found)) / len(found) <= most


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_samples_have_no_bounded_interval(count: int) -> None:
    """With fewer than four samples no stopping rule may treat the median as known; equal ones determine it."""
    found = stats.process_interval([1.0, 1.1, 1.2][:count])
    assert (found.low, found.high, found.half_width) == (0.0, math.inf, math.inf)
    assert stats.process_interval([0.1] * 50) == Interval(0.1, 0.1, 0.1)


@given(samples_of)
def test_process_interval_includes_its_value(samples: list[float]) -> None:
    """For any samples the interval includes the median, and no arithmetic fails."""
    found = stats.process_interval(samples)
    assert found.low <= found.value <= found.high
    assert found.value == median(samples)
