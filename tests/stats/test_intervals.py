"""Percentiles and outliers, Student's t and log ratios, and the intervals of one setting on simulated processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import autoregressive, binomial_error, heavy_processes

from modelzoo import stats
from modelzoo.stats import Interval, LogRatio, Variance, total
from modelzoo.stats.intervals import student_t, two_sided_p


@pytest.mark.parametrize(
    ("count", "names"), [(0, ""), (1, "p50"), (10, "p50"), (11, "p50 p90"), (101, "p50 p90 p95 p99")]
)
def test_percentiles_need_enough_samples(count: int, names: str) -> None:
    """p99 needs more than 100 samples, and any other more than 1 / (1 - p), also if it is not whole."""
    values = [float(number) for number in range(1, 1002)]
    assert " ".join(stats.percentiles(values[:count])) == names
    assert [stats.percentile(values[:size], 99.0) for size in (101, 100)] == [100.0, None]
    assert [stats.percentile(values[:size], 99.9) for size in (1001, 1000)] == [1000.0, None]
    assert stats.percentile(values[:3], 50.0) == 2.0


def test_outliers_are_counted() -> None:
    """Samples over 1.5 times the median are counted, those below are not."""
    assert stats.outliers([1.0] * 10 + [1.49, 1.51, 9.0]) == 2


@pytest.mark.parametrize(
    ("samples", "settled"),
    [
        ([1.0] * 10, True),
        ([1.0] * 9, False),
        ([2.0] * 5 + [1.0] * 5, False),
        ([1.03] * 5 + [1.0] * 5, False),
        ([1.01] * 5 + [1.0] * 5, True),
        ([9.0] * 20 + [1.0] * 10, True),
        ([1.0, 1.4, 0.8, 1.1, 0.9, 1.2, 0.9, 1.1, 1.3, 1.0], True),
    ],
)
def test_timings_have_stabilized_if_two_windows_agree(samples: Sequence[float], settled: bool) -> None:
    """Two windows must agree within 2 %, or within what their own noise explains."""
    assert stats.is_settled(samples, 5) is settled


@pytest.mark.parametrize(
    ("probability", "freedom", "table"),
    [
        (0.975, 1, 12.706),
        (0.975, 4, 2.776),
        (0.975, 19, 2.093),
        (0.995, 30, 2.750),
        (0.975, 120, 1.980),
        (0.9995, 1, 636.619),
        (0.9995, 8, 5.041),
    ],
)
def test_student_t_matches_the_printed_table(probability: float, freedom: int, table: float) -> None:
    """Quantiles agree with the printed table to its three decimals."""
    assert student_t(probability, freedom) == pytest.approx(table, abs=6e-4)


def test_infinite_freedom_is_the_normal_distribution() -> None:
    """Its quantiles are the printed ones, and many degrees of freedom come near them."""
    assert student_t(0.975, math.inf) == pytest.approx(1.959964)
    assert student_t(0.025, math.inf) == pytest.approx(-1.959964)
    for freedom in (1e6, 1e7, 1e33):
        assert student_t(0.975, freedom) == pytest.approx(1.959964, rel=1e-5)
        assert two_sided_p(1.959964, freedom) == pytest.approx(0.05, rel=1e-5)
    assert two_sided_p(1.959964, math.inf) == pytest.approx(0.05)
    assert two_sided_p(math.inf, math.inf) == 0


@given(st.floats(0.51, 0.99999), st.floats(1, 500))
def test_probabilities_and_quantiles_are_inverse(probability: float, freedom: float) -> None:
    """For any degrees of freedom, whole or not."""
    assert two_sided_p(student_t(probability, freedom), freedom) == pytest.approx(2 * (1 - probability), rel=1e-6)


@pytest.mark.parametrize(("t", "p"), [(0.0, 1.0), (1.0, 0.5), (math.inf, 0.0), (1e9, 2e-9 / math.pi)])
def test_probabilities_of_the_cauchy_distribution(t: float, p: float) -> None:
    """One degree of freedom has a closed form, which holds far out, too."""
    assert two_sided_p(t, 1) == pytest.approx(p, rel=1e-9, abs=1e-30)


@pytest.mark.parametrize(
    ("variances", "expected"),
    [
        ([Variance(2, 4), Variance(1, 8)], Variance(3, pytest.approx(8))),  # (2 + 1)² / (2²/4 + 1²/8)
        ([Variance(1, 4), Variance(1, math.inf)], Variance(2, pytest.approx(16))),
        ([Variance(1, math.inf), Variance(2, math.inf)], Variance(3, math.inf)),
        ([Variance(0, 4), Variance(0, 8)], Variance(0, 4)),
    ],
)
def test_degrees_of_freedom_of_a_sum_by_hand(variances: list[Variance], expected: Variance) -> None:
    """A variance that is not estimated adds freedom; where nothing was seen to vary, nothing is weighted."""
    assert total(variances) == expected


def test_the_interval_and_the_p_value_fit_together() -> None:
    """The hypothesis of the interval's bound has p = 0.05; that of the value itself has p = 1.

    Without freedom the interval is unbounded and every hypothesis holds.
    """
    ratio, unknown = LogRatio(0.1, 0.03, 7), LogRatio(1.0, 0.1, 0)
    assert ratio.p_of(math.log(ratio.interval().low)) == pytest.approx(0.05)
    assert ratio.p_of(0.1) == 1
    assert ratio.p_value == ratio.p_of(0) < 0.05
    assert (unknown.interval().low, unknown.interval().high, unknown.p_value) == (0, math.inf, 1)


def test_a_known_error_is_that_of_the_normal_distribution() -> None:
    """With infinite freedom, 1.96 standard errors are 95 %."""
    ratio = LogRatio(0.2, 0.1, math.inf)
    assert math.log(ratio.interval().high) == pytest.approx(0.2 + 0.1 * NormalDist().inv_cdf(0.975))
    assert ratio.p_value == pytest.approx(2 * NormalDist().cdf(-2))


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
