"""The schedule is a Poisson process, seeded, and long enough."""

from __future__ import annotations

import numpy as np
import pytest

from modelzoo.serve.generator import poisson


def test_equal_seeds_give_equal_schedules() -> None:
    """And others do not."""
    first = poisson(50.0, 100, 1.0, (0, 3))
    assert np.array_equal(first, poisson(50.0, 100, 1.0, (0, 3)))
    assert not np.array_equal(first, poisson(50.0, 100, 1.0, (0, 4)))


def test_gaps_are_exponential() -> None:
    """Their mean and standard deviation are 1 / rate, and numbers of arrivals per second vary as their mean does."""
    arrivals = poisson(100.0, 20_000, 0.0, (1,))
    gaps = np.diff(arrivals, prepend=0.0)
    assert len(arrivals) == 20_000
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(0.01, rel=0.03)
    assert gaps.std() == pytest.approx(0.01, rel=0.03)
    counts = np.bincount(arrivals.astype(int))[:-1]
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize("seed", range(20))
def test_both_minima_are_met_and_not_exceeded(seed: int) -> None:
    """Queries and seconds, whichever takes longer; without the last arrival one of them would not be met."""
    for queries, seconds in ((200, 1.0), (20, 4.0), (1, 0.0)):
        arrivals = poisson(30.0, queries, seconds, (seed,))
        assert len(arrivals) >= queries
        assert arrivals[-1] >= seconds
        assert len(arrivals) == queries or arrivals[-2] < seconds
