"""The distribution of the samples."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right

from drawn import check, marks, svg, texts
from fake_runs import make, timing
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.views.plots import samples
from modelzoo.views.plots.samples import SampleSeries

RANDOM = random.Random(1)
FP32 = SampleSeries("fp32", tuple(RANDOM.lognormvariate(-2.4, 0.1) for _ in range(900)), (0.1, 0.12), (0.3, 0.4))
BF16 = SampleSeries("bf16", tuple(RANDOM.lognormvariate(-2.9, 0.1) for _ in range(30)), (0.08,) * 50, (0.2,))


@given(st.lists(st.floats(1e-4, 10), min_size=1, max_size=2000))
def test_a_curve_goes_exactly_through_the_distribution(steady: list[float]) -> None:
    """Every point is a sample with the share of samples up to its rank; both ends are kept; at most 400 points."""
    points = samples.curve(steady)
    ordered = sorted(steady)
    assert len(points) == min(len(steady), samples.MOST_POINTS)
    assert points[0][0] == ordered[0] and points[-1] == (ordered[-1], 1.0)
    for value, share in points:
        rank = round(share * len(ordered))
        assert ordered[rank - 1] == value and rank <= bisect_right(ordered, value)
    steps = [b - a for (_, a), (_, b) in itertools.pairwise(points)]
    assert all(0 < step <= max(2 / samples.MOST_POINTS, 1 / len(steady)) + 1e-12 for step in steps)


def test_series_has_the_samples_of_all_timed_processes() -> None:
    """A failed process has none; a setting without samples is left out."""
    runs = [make([1.0, 2.0]), make([3.0]), make(None, error="killed")]
    one = samples.series("fp32", runs)
    assert one is not None and one.steady == (1.0, 2.0, 3.0)
    expected = timing([1.0])
    assert one.cold == (expected.cold_start,) * 2 and one.warmup == expected.warmup * 2
    assert samples.series("fp32", [make(None, error="killed"), make(None)]) is None


def test_curves_cold_start_and_warm_up_are_told_apart() -> None:
    """Each setting's marker is in the legend, on its curve and beside its lane."""
    text = svg(samples.plot("toy", [FP32, BF16]))
    check(text)
    assert (marks(text, "--plot-blue"), marks(text, "--plot-vermillion")) == (3, 3)
    shown = texts(text)
    assert "fp32: 900 samples" in shown and "not in the curves: | warm-up, × first timed call" in shown
    assert len(text) < 60_000
    assert svg(samples.plot("toy", [FP32, BF16])) == text


def test_samples_beyond_the_axis_are_counted() -> None:
    """A sample of 20 s beside 0.1 s does not squeeze the curve, and is not hidden."""
    far = SampleSeries("fp32", (*FP32.steady, 20.0, 5.0), (), (0.3,))
    text = svg(samples.plot("toy", [far]))
    check(text)
    assert any("2 beyond, up to 20.00 s →" in each for each in texts(text))
    assert not any("beyond" in each for each in texts(svg(samples.plot("toy", [FP32]))))


def test_few_samples_and_none() -> None:
    """One sample and equal samples are drawn; without settings there is no plot."""
    assert svg(samples.plot("toy", [])) == ""
    check(svg(samples.plot("toy", [SampleSeries("fp32", (0.1,), (), (0.1,))])))
    check(svg(samples.plot("toy", [SampleSeries("fp32", (0.1,) * 5, (0.1,), (0.1,))] * 9)))


def test_the_table_has_percentiles_that_the_samples_allow() -> None:
    """p99 needs more than 100 samples."""
    plot, few = samples.plot("toy", [FP32, BF16]), samples.plot("toy", [BF16])
    assert plot is not None and few is not None
    found = {column.title: column.cells for column in plot.columns}
    assert found["samples"] == ("900", "30") and found["warm-up calls"] == ("2", "50")
    assert found["first timed call (median)"] == ("350.0 ms", "200.0 ms")
    assert found["p99"][1] == "–" and found["p90"][1] != "–"
    assert "p99" not in {column.title for column in few.columns}
