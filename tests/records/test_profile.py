"""The record of an operator profile."""

from __future__ import annotations

import pytest
from example_machine import TWO_CORES

from modelzoo.frozen import replace
from modelzoo.records.profile import Gemm


def test_the_best_size_is_the_ceiling() -> None:
    """The ceiling is the best of all sizes, for the given precision and threads."""
    assert TWO_CORES.gflops("fp32") == 300
    assert TWO_CORES.gflops("fp32", 1) == 150
    assert TWO_CORES.gflops("bf16", 1) is None
    assert TWO_CORES.gb_per_second() == 20
    assert TWO_CORES.scaling() == pytest.approx(1.0)
    assert TWO_CORES.scaling("bf16") is None


def test_scaling_compares_the_same_operator() -> None:
    """The ceiling is that of the fastest operator, but comparing two operators would overstate the scaling."""
    gemm = [Gemm("fp32", 1, 64, "mm", 100.0), Gemm("fp32", 2, 64, "mm", 190.0), Gemm("fp32", 2, 64, "conv", 400.0)]
    found = replace(TWO_CORES, gemm=tuple(gemm), threads=2)
    assert found.gflops("fp32") == 400.0
    assert found.scaling() == 0.95


@pytest.mark.parametrize(("other_cores", "quiet"), [(None, True), (0.1, True), (0.11, False)])
def test_a_tenth_of_a_core_counts_as_quiet(other_cores: float | None, quiet: bool) -> None:
    """More other load makes the figures useless for later."""
    assert replace(TWO_CORES, other_cores=other_cores).quiet is quiet
