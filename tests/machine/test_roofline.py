"""A run compared with the limits of its machine."""

from __future__ import annotations

import pytest
from example_machine import TWO_CORES

from modelzoo.machine.ceilings import roofline_bound
from modelzoo.records.profile import BoundBy


def test_a_run_bound_by_compute() -> None:
    """Right of the ridge, the matrix product is the limit."""
    bound = roofline_bound(8.18e9, 2e8, 0.0545, TWO_CORES, "fp32")
    assert bound.gflops == pytest.approx(150.1, rel=1e-3)
    assert bound.share_of_ceiling == pytest.approx(0.5, rel=1e-2)
    assert bound.share_of_roof == pytest.approx(bound.share_of_ceiling)
    assert bound.ridge == pytest.approx(15.0)
    assert bound.bound_by == BoundBy.COMPUTE


def test_a_run_bound_by_memory() -> None:
    """Left of the ridge, the limit is intensity × bandwidth."""
    bound = roofline_bound(1e9, 1e9, 0.1, TWO_CORES, "fp32")
    assert bound.bound_by == BoundBy.MEMORY
    assert bound.share_of_roof == pytest.approx(10 / 20)
    assert bound.share_of_ceiling == pytest.approx(10 / 300)


def test_what_was_not_measured_stays_unknown() -> None:
    """Unknown bytes, thread counts and precisions give None."""
    assert roofline_bound(1e9, None, 0.1, TWO_CORES, "fp32").bound_by is None
    assert roofline_bound(1e9, 1e9, 0.1, TWO_CORES, "fp32", threads=7).share_of_ceiling is None
    assert roofline_bound(1e9, 1e9, 0.1, TWO_CORES, "fp16").share_of_ceiling is None
    with pytest.raises(ValueError, match="over 0"):
        roofline_bound(0, 1e9, 0.1, TWO_CORES, "fp32")
