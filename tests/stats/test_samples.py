"""Percentiles, outliers, and when a warm-up is over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modelzoo import stats


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
