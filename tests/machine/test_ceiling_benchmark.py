"""The benchmark of the ceilings, on small sizes."""

from __future__ import annotations

import json

import pytest

from modelzoo.frozen import replace
from modelzoo.machine import ceiling_benchmark
from modelzoo.machine.ceiling_benchmark import measure_ceilings
from modelzoo.machine.facts import read_machine
from modelzoo.records.codec import encode
from modelzoo.records.doctor import CeilingSeries


def test_measuring_for_real_on_small_sizes() -> None:
    """The real products and copies run, and torch has as many threads afterwards as before."""
    import torch

    here = read_machine()
    small = replace(here, memory_limit=1 << 28, caches=())
    before = torch.get_num_threads()
    steps: list[CeilingSeries] = []
    found = measure_ceilings(1, small, sizes=(64, 128), seconds=0.05, progress=steps.append)
    assert torch.get_num_threads() == before
    assert {g.precision for g in found.gemm} == {"fp32", "bf16"}
    assert found.gflops("fp32", 1) > 0  # type: ignore[operator]
    assert {"mm", "conv"} <= {g.operator for g in found.gemm}
    assert found.bandwidth[0].buffer_bytes == 1 << 24
    assert steps[0] == CeilingSeries("mm", "fp32", 1)
    assert steps[-1] == CeilingSeries(threads=1)
    json.dumps(encode(found))


@pytest.mark.parametrize("operator", ["mm", "linear", "conv"])
@pytest.mark.parametrize("size", [64, 128, 512])
def test_every_operator_computes_the_whole_product(operator: str, size: int) -> None:
    """Its operations are counted as size³ × 2: the result must have size² elements of sums over size."""
    import torch

    product = ceiling_benchmark._product(torch, operator, size, torch.float32)()
    assert product.numel() == size**2
    assert float(product.mean()) == pytest.approx(size / 4, rel=0.1)


def test_a_slow_precision_is_measured_on_small_matrices_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size that would take longer than the time left is omitted."""
    monkeypatch.setattr(ceiling_benchmark, "_lowest_median", lambda call, seconds: 0.5)
    import torch

    found = ceiling_benchmark._measure_products(torch, "bf16", "mm", 1, (64, 128), 1.0)
    assert [g.size for g in found] == [64]
