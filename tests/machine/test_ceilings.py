"""Ceilings are kept, and measured again if they cannot be used."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from example_machine import SERVER, TWO_CORES
from simulated_device import SimulatedDevice

from modelzoo.frozen import replace
from modelzoo.machine import ceilings
from modelzoo.machine.ceilings import (
    ceilings_path,
    find_ceilings,
    kept_ceilings,
    measure_ceilings,
    measure_device_ceilings,
    roofline_bound,
)
from modelzoo.machine.facts import read_machine
from modelzoo.records.codec import encode
from modelzoo.records.equipment import Accelerator
from modelzoo.records.profile import Ceilings, CeilingSeries


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 99}', '{"version": 1}'])
def test_a_damaged_file_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """A truncated file, or one of another version, is not read."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path))
    path = ceilings_path(SERVER)
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert kept_ceilings(SERVER) is None


def test_an_unwritable_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the directory cannot be made, the figures are returned all the same."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "file"))
    quiet = replace(TWO_CORES, other_cores=0.0)
    assert find_ceilings(SERVER, lambda: quiet) == (quiet, False)


def test_find_keeps_quiet_figures_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures from a busy machine are not kept, others are; ``fresh`` measures again."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path))
    load = iter([1.5, 0.0, 0.0])
    calls = itertools.count()

    def measure() -> Ceilings:
        next(calls)
        return replace(TWO_CORES, other_cores=next(load))

    assert find_ceilings(SERVER, measure)[1] is False
    assert kept_ceilings(SERVER) is None
    assert find_ceilings(SERVER, measure)[1] is False
    assert kept_ceilings(SERVER) == TWO_CORES
    assert find_ceilings(SERVER, measure) == (TWO_CORES, True)
    assert find_ceilings(SERVER, measure, fresh=True)[1] is False
    assert next(calls) == 3
    assert kept_ceilings(replace(SERVER, threads=replace(SERVER.threads, count=1))) is None


def test_ceilings_are_kept_by_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another GPU of the same machine has others; the CPU's are not among them."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path))
    gpu = Accelerator("cuda", 0, "Simulated GPU", memory=1 << 34)
    made = replace(TWO_CORES, device=gpu.name)
    assert find_ceilings(SERVER, lambda: made, gpu) == (made, False)
    assert find_ceilings(SERVER, lambda: pytest.fail("they are known"), gpu) == (made, True)
    assert kept_ceilings(SERVER, replace(gpu, name="Another GPU")) is None
    assert kept_ceilings(SERVER) is None


def test_a_run_is_bound_by_compute_or_by_memory() -> None:
    """Right of the ridge, the matrix product is the limit; left of it, intensity × bandwidth."""
    bound = roofline_bound(8.18e9, 2e8, 0.0545, TWO_CORES, "fp32")
    assert (bound.bound_by, bound.gflops, bound.ridge) == ("compute", pytest.approx(150.1, rel=1e-3), 15)
    assert bound.share_of_roof == bound.share_of_ceiling == pytest.approx(0.5, rel=1e-2)
    bound = roofline_bound(1e9, 1e9, 0.1, TWO_CORES, "fp32")
    assert (bound.bound_by, bound.share_of_roof) == ("memory", pytest.approx(10 / 20))
    assert bound.share_of_ceiling == pytest.approx(10 / 300)


def test_what_was_not_measured_stays_unknown() -> None:
    """Unknown bytes, thread counts and precisions give None."""
    assert roofline_bound(1e9, None, 0.1, TWO_CORES, "fp32").bound_by is None
    assert roofline_bound(1e9, 1e9, 0.1, TWO_CORES, "fp32", threads=7).share_of_ceiling is None
    assert roofline_bound(1e9, 1e9, 0.1, TWO_CORES, "fp16").share_of_ceiling is None
    with pytest.raises(ValueError, match="over 0"):
        roofline_bound(0, 1e9, 0.1, TWO_CORES, "fp32")


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
    assert ceilings._operators(torch, "aarch64")["int8"] == [], "a loop of torch says nothing of the machine"
    assert steps[0] == CeilingSeries("mm", "fp32", 1)
    assert steps[-1] == CeilingSeries(threads=1)
    json.dumps(encode(found))


@pytest.mark.parametrize("operator", ["mm", "linear", "conv"])
@pytest.mark.parametrize("size", [64, 128, 512])
def test_every_operator_computes_the_whole_product(operator: str, size: int) -> None:
    """Its operations are counted as size³ × 2: the result must have size² elements of sums over size."""
    product = ceilings._product(torch, operator, size, torch.float32)()
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

    monkeypatch.setattr(ceilings, "_product", product)
    monkeypatch.setattr(ceilings, "_lowest_median", median)
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    found = ceilings._products(torch, "bf16", "mm", (1024, 2048, 4096), 2.0, device="cuda", clock=lambda: now)
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
    monkeypatch.setattr(ceilings, "_lowest_median", lambda *_: 0.5)
    found = ceilings._products(torch, "bf16", "mm", (64, 128), 1.0)
    assert [g.size for g in found] == [64]


def test_a_reading_of_the_clock_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls return at once: only the wait tells how long they take."""
    device = SimulatedDevice()

    def clock() -> float:
        device.synchronize()
        return device.now * 1e-9

    assert ceilings._lowest_median(device.launch, 0.3, 1, clock) == pytest.approx(500e-6, rel=0.01)
