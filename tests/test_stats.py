"""Statistics: published quantiles, coverage of the intervals on correlated samples, verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo import stats
from modelzoo.stats import Interval, SpeedVerdict

positive = st.floats(1e-6, 1e3)
samples_of = st.lists(positive, min_size=1, max_size=60)


def autoregressive(generator: np.random.Generator, count: int, rho: float, spread: float = 0.05) -> list[float]:
    """Log-normal AR(1) samples with true median 1 and lag-1 correlation ``rho``."""
    noise = generator.normal(0, spread * math.sqrt(1 - rho * rho), count)
    noise[0] = generator.normal(0, spread)
    level = 0.0
    values: list[float] = []
    for step in noise:
        level = rho * level + step if values else step
        values.append(math.exp(level))
    return values


def heavy_processes(generator: np.random.Generator, count: int, scale: float = 1.0) -> list[list[float]]:
    """``count`` processes whose levels differ by 2 % with the heavy tails of Student's t(3)."""
    shifts = generator.standard_t(3, count) * 0.02
    return [[scale * math.exp(s) * x for x in autoregressive(generator, 40, 0.6, 0.02)] for s in shifts]


@pytest.mark.parametrize(
    ("probability", "freedom", "table"),
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.975, 4, 2.776),
        (0.975, 9, 2.262),
        (0.975, 19, 2.093),
        (0.95, 2, 2.920),
        (0.95, 10, 1.812),
        (0.995, 5, 4.032),
        (0.995, 30, 2.750),
        (0.975, 120, 1.980),
    ],
)
def test_student_t_matches_the_printed_table(probability: float, freedom: int, table: float) -> None:
    """Quantiles agree with the printed table to its three decimals."""
    assert stats.student_t(probability, freedom) == pytest.approx(table, abs=6e-4)


def test_student_t_without_freedom_is_unbounded() -> None:
    """One value has no spread, so no finite quantile."""
    assert stats.student_t(0.975, 0) == math.inf


@pytest.mark.parametrize(("rho", "count", "least"), [(0.4, 200, 0.9), (0.7, 200, 0.9), (0.9, 200, 0.87)])
def test_process_interval_covers_correlated_samples(rho: float, count: int, least: float) -> None:
    """The interval of one process covers the true median nearly as often as it claims, correlated or not."""
    generator = np.random.default_rng(7)
    found = [stats.process_interval(autoregressive(generator, count, rho)) for _ in range(1500)]
    covered = sum(i.low <= 1 <= i.high for i in found) / len(found)
    assert covered >= least


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_intervals_of_long_processes_are_neither_too_narrow_nor_too_wide(rho: float) -> None:
    """With 1,000 samples the coverage is close to 95 %."""
    generator = np.random.default_rng(11)
    found = [stats.process_interval(autoregressive(generator, 1000, rho)) for _ in range(400)]
    covered = sum(i.low <= 1 <= i.high for i in found) / len(found)
    assert 0.92 <= covered <= 0.99


def test_treating_samples_as_independent_would_not_cover() -> None:
    """The naive interval fails on the same data, so the coverage test is able to fail."""
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(300):
        samples = np.array(autoregressive(generator, 200, 0.9))
        error = 1.2533 * samples.std() / math.sqrt(200)  # of the median of independent normal samples
        covered += abs(np.median(samples) - 1) <= 1.96 * error
    assert covered / 300 < 0.7


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_samples_have_no_bounded_interval(count: int) -> None:
    """With fewer than four samples no stopping rule may treat the median as known."""
    found = stats.process_interval([1.0, 1.1, 1.2][:count])
    assert (found.low, found.high) == (0.0, math.inf)
    assert found.half_width == math.inf


def test_constant_samples_have_an_interval_of_no_width() -> None:
    """Equal samples determine their median, up to rounding."""
    assert stats.process_interval([0.1] * 50) == Interval(0.1, 0.1, 0.1)


@given(samples_of)
def test_process_interval_includes_its_value(samples: list[float]) -> None:
    """For any samples the interval includes the median, and no arithmetic fails."""
    found = stats.process_interval(samples)
    assert found.low <= found.value <= found.high
    assert found.value == median(samples)


@pytest.mark.parametrize("count", [3, 5, 7, 15])
def test_intervals_between_processes_cover_heavy_tails(count: int) -> None:
    """Setting and ratio intervals of few processes cover the truth in at least 90 % of cases, heavy tails or not."""
    generator = np.random.default_rng(3)
    trials, settings, ratios, verdicts = 120, 0, 0, 0
    for _ in range(trials):
        a, b = heavy_processes(generator, count), heavy_processes(generator, count)
        alone, ratio = stats.setting_interval(a), stats.ratio_interval(a, b, paired=True)
        settings += alone.low <= 1 <= alone.high
        ratios += ratio.low <= 1 <= ratio.high
        verdicts += stats.compare(a, b, paired=True)[1].outcome in ("FASTER", "SLOWER")
    assert settings / trials >= 0.9
    assert ratios / trials >= 0.9
    assert verdicts / trials <= 0.05, "A against A must not be found different"


@pytest.mark.parametrize(("scale", "outcome"), [(1.5, "SLOWER"), (1 / 1.5, "FASTER")])
def test_a_clear_difference_is_found(scale: float, outcome: str) -> None:
    """A factor of 1.5 between settings is detected although processes differ."""
    generator = np.random.default_rng(5)
    outcomes = [
        stats.compare(heavy_processes(generator, 5), heavy_processes(generator, 5, scale), paired=True)[1].outcome
        for _ in range(40)
    ]
    assert outcomes.count(SpeedVerdict(outcome)) >= 36


def test_drift_shared_by_both_sides_cancels() -> None:
    """In paired rounds, whatever slows down both processes of a round affects neither ratio nor interval."""
    generator = np.random.default_rng(1)
    drift = [1.0, 1.3, 1.8, 2.4, 3.0]
    a = [[d * x for x in autoregressive(generator, 50, 0.4, 0.003)] for d in drift]
    b = [[d * 1.05 * x for x in autoregressive(generator, 50, 0.4, 0.003)] for d in drift]
    ratio, verdict = stats.compare(a, b, paired=True)
    assert ratio.value == pytest.approx(1 / 1.05, rel=0.01)
    assert verdict.outcome == "SLOWER"
    assert stats.compare(a, b[::-1], paired=True)[1].outcome == "AMBIGUOUS", "rounds in the wrong order do not match"


def test_equal_numbers_of_processes_do_not_make_sides_paired() -> None:
    """Two stored results share no rounds: the drift within each widens the interval unless the caller says paired."""
    generator = np.random.default_rng(1)
    drift = [1.0, 1.3, 1.8, 2.4, 3.0]
    a = [[d * x for x in autoregressive(generator, 50, 0.4, 0.003)] for d in drift]
    b = [[d * 1.05 * x for x in autoregressive(generator, 50, 0.4, 0.003)] for d in drift]
    assert stats.compare(a, b, paired=True)[1].outcome is SpeedVerdict.SLOWER
    ratio, verdict = stats.compare(a, b, paired=False)
    assert verdict.outcome is SpeedVerdict.AMBIGUOUS
    assert (ratio.low < 0.8, ratio.high > 1.2) == (True, True)
    reordered = stats.ratio_interval(a, b[::-1], paired=False)
    assert (reordered.low, reordered.high) == pytest.approx((ratio.low, ratio.high)), "order carries no information"


def test_unpaired_sides_may_have_different_numbers_of_processes() -> None:
    """The results of two calls need not have as many processes as each other."""
    some, more = ([[scale * level, scale * 1.01 * level] * 10 for level in (1.0, 1.02, 0.99)] for scale in (1, 2))
    ratio = stats.ratio_interval(some, [*more, *more], paired=False)
    assert ratio.value == pytest.approx(0.5, rel=0.01)
    assert ratio.low < 0.5 < ratio.high


def test_paired_sides_must_have_the_same_rounds() -> None:
    """A missing round would pair the wrong processes."""
    with pytest.raises(ValueError, match="the same number of rounds, not 1 and 2"):
        stats.ratio_interval([[1.0]], [[1.0], [1.0]], paired=True)


@pytest.mark.parametrize("count", [3, 5, 15])
def test_unpaired_intervals_cover_heavy_tails(count: int) -> None:
    """Without rounds the ratio's interval covers the truth in at least 90 % of cases, too."""
    generator = np.random.default_rng(4)
    found = [
        stats.ratio_interval(heavy_processes(generator, count), heavy_processes(generator, count), paired=False)
        for _ in range(120)
    ]
    assert sum(each.low <= 1 <= each.high for each in found) / len(found) >= 0.9


def test_one_disturbed_round_does_not_change_the_ratio() -> None:
    """One round in ten took half as long again on one side: the ratio is that of the others, and SAME."""
    generator = np.random.default_rng(2)
    a = [autoregressive(generator, 100, 0.4, 0.003) for _ in range(10)]
    b = [autoregressive(generator, 100, 0.4, 0.003) for _ in range(10)]
    b[3] = [1.5 * x for x in b[3]]
    ratio, verdict = stats.compare(a, b, paired=True)
    assert ratio.value == pytest.approx(1, abs=0.005)
    assert verdict.outcome == "SAME"


def test_between_95_and_98_percent_is_ambiguous() -> None:
    """If only the narrower interval excludes 1 it may be a false alarm, and the reason says so."""
    found = stats.judge(Interval(1.05, 1.001, 1.1), Interval(1.05, 0.99, 1.11))
    assert found.outcome == "AMBIGUOUS"
    assert "98%" in found.reason


def test_one_process_gives_its_own_interval_and_no_verdict() -> None:
    """One process says nothing about the next one: the ratio is unbounded and AMBIGUOUS."""
    samples = [1.0, 1.01, 0.99, 1.0] * 10
    assert stats.setting_interval([samples]) == stats.process_interval(samples)
    ratio, verdict = stats.compare([samples], [[2 * x for x in samples]], paired=True)
    assert ratio.high == math.inf
    assert verdict.outcome == "AMBIGUOUS"


def test_intervals_are_the_same_each_time() -> None:
    """Resampling is seeded: the same result file always shows the same interval."""
    processes = [[1.0, 1.1, 0.9, 1.05] * 5, [1.2, 1.1, 1.3, 1.2] * 5, [0.9, 1.0, 0.95, 1.0] * 5]
    assert stats.setting_interval(processes) == stats.setting_interval(processes)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.99, 1.01, "SAME"),
        (0.98, 1.02, "SAME"),
        (1.001, 1.019, "SAME"),
        (1.001, 1.05, "FASTER"),
        (1.5, 2.0, "FASTER"),
        (0.9, 0.999, "SLOWER"),
        (0.97, 1.01, "AMBIGUOUS"),
        (0.5, 2.0, "AMBIGUOUS"),
        (0.0, math.inf, "AMBIGUOUS"),
        (1.2, math.inf, "AMBIGUOUS"),
    ],
)
def test_the_verdict_follows_from_the_interval(low: float, high: float, outcome: str) -> None:
    """The verdict follows from the whole interval, never from its value alone."""
    found = stats.judge(Interval(1.0, low, high), Interval(1.0, low, high))
    assert found.outcome == outcome
    assert found.reason


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (1, ["p50"]),
        (10, ["p50"]),
        (11, ["p50", "p90"]),
        (20, ["p50", "p90"]),
        (21, ["p50", "p90", "p95"]),
        (100, ["p50", "p90", "p95"]),
        (101, ["p50", "p90", "p95", "p99"]),
    ],
)
def test_percentiles_need_enough_samples(count: int, names: list[str]) -> None:
    """p99 needs more than 100 samples, and so on down."""
    assert list(stats.percentiles([float(i) for i in range(count)])) == names


def test_percentiles_are_samples() -> None:
    """Nearest rank: each percentile is one of the samples."""
    found = stats.percentiles([float(i) for i in range(1, 1001)])
    assert found == {"p50": 500.0, "p90": 900.0, "p95": 950.0, "p99": 990.0}


def test_no_samples_have_no_percentiles() -> None:
    """No samples, no percentiles."""
    assert stats.percentiles([]) == {}


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
def test_timings_have_stabilised_if_two_windows_agree(samples: Sequence[float], settled: bool) -> None:
    """Two windows must agree within 2 %, or within what their own noise explains."""
    assert stats.is_settled(samples, 5) is settled
