"""The queueing theory of the benchmarks."""

from __future__ import annotations

import pytest
from queueing import late_latencies, lindley, m_d_1_wait


def test_the_recursion_by_hand() -> None:
    """A busy spell, then an idle one."""
    assert lindley([0.0, 1.0, 2.0, 9.0], [3.0, 1.0, 1.0, 1.0]).tolist() == [0.0, 2.0, 2.0, 0.0]


def test_the_mean_wait_of_m_d_1() -> None:
    """Half that of M/M/1; at 50 % load half a service time."""
    assert m_d_1_wait(0.5, 2.0) == 1.0
    assert m_d_1_wait(0.9, 1.0) == pytest.approx(4.5)


def test_latencies_behind_a_late_generator() -> None:
    """They count from the scheduled arrival; the 99th percentile of the lateness is the one that was asked for."""
    arrivals = [10.0 * number for number in range(10_000)]
    assert set(late_latencies(arrivals, 1.0, 0.0, 0).tolist()) == {1.0}
    late = sorted(late_latencies(arrivals, 1.0, 0.5, 0) - 1.0)
    assert late[9_899] == pytest.approx(0.5, abs=0.1)
    assert 0.9 < late[-1] <= 1.0
