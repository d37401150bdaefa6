"""What measured ceilings say."""

from __future__ import annotations

import dataclasses

import pytest
from example_machine import TWO_CORES

from modelzoo.records.ceilings import Gemm


def test_the_best_size_is_the_ceiling() -> None:
    """The ceiling is the best of the sizes, for the precision and the threads asked for."""
    found = TWO_CORES
    assert found.gflops("fp32") == 300
    assert found.gflops("fp32", 1) == 150
    assert found.gflops("bf16", 1) is None
    assert found.gb_per_second() == 20
    assert found.scaling() == pytest.approx(1.0)
    assert found.scaling("bf16") is None


def test_the_ceiling_is_the_best_operators_and_scaling_is_of_one() -> None:
    """MKL's product may be half of what oneDNN reaches; mixing them would find threads that scale by four."""
    gemm = [Gemm("fp32", 1, 64, "mm", 100.0), Gemm("fp32", 2, 64, "mm", 190.0), Gemm("fp32", 2, 64, "conv", 400.0)]
    found = dataclasses.replace(TWO_CORES, gemm=tuple(gemm), threads=2)
    assert found.gflops("fp32") == 400.0
    assert found.scaling() == 0.95
