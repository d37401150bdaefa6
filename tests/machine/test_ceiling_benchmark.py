"""The benchmark of the ceilings, on small sizes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from example_machine import SERVER
from simulated_device import SimulatedDevice

from modelzoo.frozen import replace
from modelzoo.machine import ceiling_benchmark
from modelzoo.machine.ceiling_benchmark import measure_ceilings, measure_device_ceilings
from modelzoo.machine.facts import read_machine
from modelzoo.records.codec import encode
from modelzoo.records.equipment import Accelerator
from modelzoo.records.profile import CeilingSeries


def test_measuring_for_real_on_small_sizes() -> None:
    """The real products and copies run, and torch has as many threads afterwards as before."""
    here = read_machine()
    small = replace(here, memory_limit=1 << 28, caches=())
    before = torch.get_num_threads()
    steps: list[CeilingSeries] = []
    found = measure_ceilings(1, small, sizes=(64, 128), seconds=0.05, progress=steps.append)
    assert torch.get_num_threads() == before
    assert {g.precision for g in found.gemm} == {"fp32", "bf16", *(["int8"] if here.architecture != "aarch64" else [])}
    assert found.gflops("fp32", 1) > 0  # type: ignore[operator]
    assert {"mm", "conv"} <= {g.operator for g in found.gemm}
    assert found.bandwidth[0].buffer_bytes == 1 << 24
    assert ceiling_benchmark._operators(torch, "aarch64")["int8"] == [], "a loop of torch says nothing of the machine"
    assert steps[0] == CeilingSeries("mm", "fp32", 1)
    assert steps[-1] == CeilingSeries(threads=1)
    json.dumps(encode(found))


@pytest.mark.parametrize("operator", ["mm", "linear", "conv"])
@pytest.mark.parametrize("size", [64, 128, 512])
def test_every_operator_computes_the_whole_product(operator: str, size: int) -> None:
    """Its operations are counted as size³ × 2: the result must have size² elements of sums over size."""
    product = ceiling_benchmark._product(torch, operator, size, torch.float32)()
    assert product.numel() == size**2
    assert float(product.mean()) == pytest.approx(size / 4, rel=0.1)


def test_the_first_call_of_a_size_takes_nothing_from_the_time_of_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an H100, loading a kernel took so long that TF32 was measured at 1024 only, far below its peak."""
    now = 0.0

    def product(*_: object) -> Any:
        calls = iter([10.0])

        def call() -> None:
            nonlocal now
            now += next(calls, 1e-4)

        return call

    def median(call: Any, *_: object) -> float:
        call()
        return 1e-4

    monkeypatch.setattr(ceiling_benchmark, "_product", product)
    monkeypatch.setattr(ceiling_benchmark, "_lowest_median", median)
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    found = ceiling_benchmark._products(torch, "bf16", "mm", (1024, 2048, 4096), 2.0, device="cuda", clock=lambda: now)
    assert [g.size for g in found] == [1024, 2048, 4096]


GPU = Accelerator("cuda", 0, "Simulated GPU", memory=1 << 24)


def test_each_precision_of_a_device_is_measured() -> None:
    """TF32 has products of its own; matrices that would fill the memory are left out; each reading waits."""
    held: list[str] = []
    waits: list[None] = []

    @contextmanager
    def precision(name: str) -> Iterator[None]:
        held.append(name)
        yield

    found = measure_device_ceilings(
        lambda: waits.append(None), GPU, SERVER, precision, ("fp32", "tf32"), name="cpu", sizes=(8, 4096), seconds=0.05
    )
    assert held == ["fp32", "tf32"]
    assert [(each.precision, each.operator, each.size) for each in found.gemm] == [("fp32", "mm", 8), ("tf32", "mm", 8)]
    assert (found.device, found.threads) == ("Simulated GPU", 1)
    assert found.gb_per_second() is not None
    assert waits


def test_a_slow_precision_is_measured_on_small_matrices_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size that would take longer than the time left is omitted."""
    monkeypatch.setattr(ceiling_benchmark, "_lowest_median", lambda *_: 0.5)
    found = ceiling_benchmark._products(torch, "bf16", "mm", (64, 128), 1.0)
    assert [g.size for g in found] == [64]


def test_a_reading_of_the_clock_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls return at once: only the wait tells how long they take."""
    device = SimulatedDevice()

    def clock() -> float:
        device.synchronize()
        return device.now * 1e-9

    assert ceiling_benchmark._lowest_median(device.launch, 0.3, 1, clock) == pytest.approx(500e-6, rel=0.01)
