"""The statistics keep what they promise: tables, coverage on correlated samples, verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelzoo import stats
from modelzoo.stats import Interval

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
def test_student_t_is_that_of_the_table(probability: float, freedom: int, table: float) -> None:
    """Quantiles agree with the printed table to its three decimals."""
    assert stats.student_t(probability, freedom) == pytest.approx(table, abs=6e-4)


def test_student_t_without_freedom_is_unbounded() -> None:
    """One value has no spread, so no finite quantile."""
    assert stats.student_t(0.975, 0) == math.inf


@given(samples_of)
def test_median_is_numpys(samples: list[float]) -> None:
    """The median agrees with numpy for any samples."""
    assert stats.median(samples) == pytest.approx(float(np.median(samples)))


def test_median_of_nothing_is_an_error() -> None:
    """No samples have no median."""
    with pytest.raises(ValueError, match="no samples"):
        stats.median([])


@pytest.mark.parametrize(("rho", "count", "least"), [(0.4, 200, 0.9), (0.7, 200, 0.9), (0.9, 200, 0.87)])
def test_process_interval_covers_correlated_samples(rho: float, count: int, least: float) -> None:
    """The interval of one process holds the true median nearly as often as it says, correlated or not."""
    generator = np.random.default_rng(7)
    found = [stats.process_interval(autoregressive(generator, count, rho)) for _ in range(1500)]
    covered = sum(i.low <= 1 <= i.high for i in found) / len(found)
    assert covered >= least


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_long_processes_cover_and_are_not_wasteful(rho: float) -> None:
    """With 1,000 samples coverage is near 95 %, from below and from above."""
    generator = np.random.default_rng(11)
    found = [stats.process_interval(autoregressive(generator, 1000, rho)) for _ in range(400)]
    covered = sum(i.low <= 1 <= i.high for i in found) / len(found)
    assert 0.92 <= covered <= 0.99


def test_samples_taken_as_independent_would_not_cover() -> None:
    """The naive interval fails on the same data: the coverage test is able to fail."""
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(300):
        samples = np.array(autoregressive(generator, 200, 0.9))
        error = 1.2533 * samples.std() / math.sqrt(200)  # of the median of independent normal samples
        covered += abs(np.median(samples) - 1) <= 1.96 * error
    assert covered / 300 < 0.7


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_samples_have_no_bounded_interval(count: int) -> None:
    """Under four samples no stopping rule may take the median for known."""
    found = stats.process_interval([1.0, 1.1, 1.2][:count])
    assert (found.low, found.high) == (0.0, math.inf)
    assert found.half_width == math.inf


def test_constant_samples_have_an_interval_of_no_width() -> None:
    """Equal samples know their median, up to rounding."""
    assert stats.process_interval([0.1] * 50) == Interval(0.1, 0.1, 0.1)


@given(samples_of)
def test_process_interval_holds_its_value(samples: list[float]) -> None:
    """Any samples: the interval is around the median, and no arithmetic fails."""
    found = stats.process_interval(samples)
    assert found.low <= found.value <= found.high
    assert found.value == stats.median(samples)


@pytest.mark.parametrize("count", [3, 5, 7, 15])
def test_intervals_between_processes_cover_heavy_tails(count: int) -> None:
    """Setting and ratio intervals of few processes hold the truth in at least 90 %, tails or not."""
    generator = np.random.default_rng(3)
    trials, settings, ratios, verdicts = 120, 0, 0, 0
    for _ in range(trials):
        a, b = heavy_processes(generator, count), heavy_processes(generator, count)
        alone, ratio = stats.setting_interval(a), stats.ratio_interval(a, b)
        settings += alone.low <= 1 <= alone.high
        ratios += ratio.low <= 1 <= ratio.high
        verdicts += stats.compare(a, b)[1].word in ("FASTER", "SLOWER")
    assert settings / trials >= 0.9
    assert ratios / trials >= 0.9
    assert verdicts / trials <= 0.05, "A against A must not be told apart"


@pytest.mark.parametrize(("scale", "word"), [(1.5, "SLOWER"), (1 / 1.5, "FASTER")])
def test_a_clear_difference_is_found(scale: float, word: str) -> None:
    """A factor of 1.5 between settings is seen in spite of processes that differ."""
    generator = np.random.default_rng(5)
    words = [
        stats.compare(heavy_processes(generator, 5), heavy_processes(generator, 5, scale))[1].word for _ in range(40)
    ]
    assert words.count(word) >= 36


def test_a_drift_that_both_sides_share_cancels() -> None:
    """Rounds are paired: what slows both processes of a round leaves the ratio and its interval alone."""
    generator = np.random.default_rng(1)
    drift = [1.0, 1.3, 1.8, 2.4, 3.0]
    a = [[d * x for x in autoregressive(generator, 50, 0.4, 0.003)] for d in drift]
    b = [[d * 1.05 * x for x in autoregressive(generator, 50, 0.4, 0.003)] for d in drift]
    ratio, verdict = stats.compare(a, b)
    assert ratio.value == pytest.approx(1 / 1.05, rel=0.01)
    assert verdict.word == "SLOWER"
    assert stats.compare(a, b[::-1])[1].word == "AMBIGUOUS", "unpaired, it must not be seen"


def test_ratio_takes_unequal_numbers_of_processes() -> None:
    """Results of two calls may have other numbers of processes."""
    some, more = ([[scale * level, scale * 1.01 * level] * 10 for level in (1.0, 1.02, 0.99)] for scale in (1, 2))
    ratio = stats.ratio_interval(some, [*more, *more])
    assert ratio.value == pytest.approx(0.5, rel=0.01)
    assert ratio.low < 0.5 < ratio.high


def test_an_outlying_round_leaves_the_value_alone() -> None:
    """One round in ten was disturbed by half: the ratio is still that of the others, and SAME."""
    generator = np.random.default_rng(2)
    a = [autoregressive(generator, 100, 0.4, 0.003) for _ in range(10)]
    b = [autoregressive(generator, 100, 0.4, 0.003) for _ in range(10)]
    b[3] = [1.5 * x for x in b[3]]
    ratio, verdict = stats.compare(a, b)
    assert ratio.value == pytest.approx(1, abs=0.005)
    assert verdict.word == "SAME"


def test_between_95_and_98_percent_is_ambiguous() -> None:
    """What only the narrower interval tells apart may be a false alarm, and the reason says so."""
    found = stats.judge(Interval(1.05, 1.001, 1.1), Interval(1.05, 0.99, 1.11))
    assert found.word == "AMBIGUOUS"
    assert "98%" in found.reason


def test_one_process_gives_its_own_interval_and_no_verdict() -> None:
    """What the next process would say is unknown from one: no bounded ratio, AMBIGUOUS."""
    samples = [1.0, 1.01, 0.99, 1.0] * 10
    assert stats.setting_interval([samples]) == stats.process_interval(samples)
    ratio, verdict = stats.compare([samples], [[2 * x for x in samples]])
    assert ratio.high == math.inf
    assert verdict.word == "AMBIGUOUS"


def test_intervals_are_the_same_each_time() -> None:
    """Resampling is seeded: the same result file always shows the same interval."""
    processes = [[1.0, 1.1, 0.9, 1.05] * 5, [1.2, 1.1, 1.3, 1.2] * 5, [0.9, 1.0, 0.95, 1.0] * 5]
    assert stats.setting_interval(processes) == stats.setting_interval(processes)


@pytest.mark.parametrize(
    ("low", "high", "word"),
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
def test_judge_says_what_the_interval_allows(low: float, high: float, word: str) -> None:
    """The word follows from the whole interval, never from its middle."""
    found = stats.judge(Interval(1.0, low, high), Interval(1.0, low, high))
    assert found.word == word
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
def test_percentiles_only_where_the_sample_has_them(count: int, names: list[str]) -> None:
    """p99 needs more than 100 samples, and so on down."""
    assert list(stats.percentiles([float(i) for i in range(count)])) == names


def test_percentiles_are_samples() -> None:
    """Nearest rank: each percentile is a sample that was really seen."""
    found = stats.percentiles([float(i) for i in range(1, 1001)])
    assert found == {"p50": 500.0, "p90": 900.0, "p95": 950.0, "p99": 990.0}


def test_no_samples_have_no_percentiles() -> None:
    """Nothing timed, nothing claimed."""
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
def test_settled_is_where_the_level_stopped_moving(samples: Sequence[float], settled: bool) -> None:
    """Two windows must agree within 2 %, or within what their own noise explains."""
    assert stats.is_settled(samples, 5) is settled
