"""benchmarks/interval_coverage.py: replays of pools whose distribution is known."""

from __future__ import annotations

from random import Random
from typing import Any

import interval_coverage
import pytest
from synthetic_recordings import LABELS, recorded


@pytest.mark.parametrize("kind", [interval_coverage.RAW, interval_coverage.RATIO])
def test_intervals_of_independent_draws_cover_their_pool(kind: str) -> None:
    """Log-normal pools are covered as often as the intervals promise."""
    found = interval_coverage.pools(kind, recorded().processes)
    labels = LABELS[1:] if kind == interval_coverage.RATIO else LABELS
    assert set(found) == {(workload, label) for workload in ("one", "two") for label in labels}
    hits = interval_coverage.replayed(kind, found, 8, 150, Random(0))
    assert all(len(each) == 150 for each in hits.values())
    assert 0.90 < sum(map(sum, hits.values())) / (150 * len(hits)) < 0.99


def test_windows_do_not_overlap() -> None:
    """12 rounds have 4 windows of 3 and one of 8, which would cover itself and does not count."""
    recording = recorded(sessions=2)
    number, own, overall = interval_coverage.windows(interval_coverage.RAW, recording, 3)
    assert number == 2 * 4 * 4
    assert 0 <= overall <= number and 0.7 * number < own <= number
    assert interval_coverage.windows(interval_coverage.RAW, recording, 8) == (0, 0, 0)


def test_small_pools_show_no_coverage(capsys: Any) -> None:
    """Their draws repeat."""
    assert [claim.holds for claim in interval_coverage.show_coverage(recorded(1, 4), 10, 0)] == [None] * 2
