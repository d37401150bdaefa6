"""The queueing theory of the benchmarks."""

from __future__ import annotations

import pytest
from queueing import lindley, m_d_1_wait


def test_the_recursion_by_hand() -> None:
    """A busy spell, then an idle one."""
    assert lindley([0.0, 1.0, 2.0, 9.0], [3.0, 1.0, 1.0, 1.0]).tolist() == [0.0, 2.0, 2.0, 0.0]


def test_the_mean_wait_of_m_d_1() -> None:
    """Half that of M/M/1; at 50 % load half a service time."""
    assert m_d_1_wait(0.5, 2.0) == 1.0
    assert m_d_1_wait(0.9, 1.0) == pytest.approx(4.5)
