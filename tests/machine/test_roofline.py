"""Ceilings: measured, kept, and what they say about a run."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import pytest

from modelzoo.machine import ceilings, roofline
from modelzoo.machine import facts as machine
from modelzoo.machine.roofline import Point
from modelzoo.records.ceilings import Bandwidth, Ceilings, Gemm
from modelzoo.records.codec import encode


def made(**changes: object) -> Ceilings:
    """Ceilings of the shape seen on two cores, with changes."""
    base = Ceilings(
        fingerprint="f",
        torch="2.10.0",
        threads=2,
        gemm=(
            Gemm("fp32", 1, 1024, "mm", 140.0),
            Gemm("fp32", 1, 2048, "mm", 150.0),
            Gemm("fp32", 2, 1024, "mm", 250.0),
            Gemm("fp32", 2, 2048, "mm", 300.0),
            Gemm("bf16", 2, 2048, "mm", 160.0),
        ),
        bandwidth=(Bandwidth(1, 1 << 28, 15.0), Bandwidth(2, 1 << 28, 20.0)),
        seconds=20.0,
        other_cores=0.0,
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_the_best_size_is_the_ceiling() -> None:
    """The ceiling is the best of the sizes, for the precision and the threads asked for."""
    found = made()
    assert found.gflops("fp32") == 300
    assert found.gflops("fp32", 1) == 150
    assert found.gflops("bf16", 1) is None
    assert found.gb_per_second() == 20
    assert found.scaling() == pytest.approx(1.0)
    assert found.scaling("bf16") is None


def test_a_run_bound_by_compute() -> None:
    """Right of the ridge the product's ceiling is the roof."""
    bound = roofline.bound(8.18e9, 2e8, 0.0545, made(), "fp32")
    assert bound.gflops == pytest.approx(150.1, rel=1e-3)
    assert bound.share_of_ceiling == pytest.approx(0.5, rel=1e-2)
    assert bound.share_of_roof == pytest.approx(bound.share_of_ceiling)
    assert bound.ridge == pytest.approx(15.0)
    assert bound.bound_by == "compute"


def test_a_run_bound_by_memory() -> None:
    """Left of the ridge the roof is intensity × bandwidth."""
    bound = roofline.bound(1e9, 1e9, 0.1, made(), "fp32")
    assert bound.bound_by == "memory"
    assert bound.share_of_roof == pytest.approx(10 / 20)
    assert bound.share_of_ceiling == pytest.approx(10 / 300)


def test_what_was_not_measured_stays_unknown() -> None:
    """No bytes, no such thread count or no such precision: None, never a guess."""
    assert roofline.bound(1e9, None, 0.1, made(), "fp32").bound_by is None
    assert roofline.bound(1e9, 1e9, 0.1, made(), "fp32", threads=7).share_of_ceiling is None
    assert roofline.bound(1e9, 1e9, 0.1, made(), "fp16").share_of_ceiling is None
    with pytest.raises(ValueError, match="over 0"):
        roofline.bound(0, 1e9, 0.1, made(), "fp32")


def test_ceilings_survive_json(tmp_path: Path) -> None:
    """What is saved is what is loaded."""
    path = tmp_path / "deep" / "c.json"
    assert ceilings.write_ceilings(made(), path)
    assert ceilings.read_ceilings(path) == made()
    assert [file.name for file in path.parent.iterdir()] == ["c.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 99}', '{"version": 1}'])
def test_a_damaged_cache_is_measured_anew(tmp_path: Path, content: str) -> None:
    """A truncated or foreign file counts as none."""
    path = tmp_path / "c.json"
    path.write_text(content)
    assert ceilings.read_ceilings(path) is None


def test_an_unwritable_cache_is_no_error(tmp_path: Path) -> None:
    """A file where the directory should be: the figures are returned without being kept."""
    (tmp_path / "file").touch()
    assert not ceilings.write_ceilings(made(), tmp_path / "file" / "c.json")


def test_find_keeps_quiet_figures_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call measures nothing; figures from a busy machine are not kept; fresh measures."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path))
    load = iter([1.5, 0.0, 0.0])
    calls = itertools.count()

    def measure(threads: int, of: machine.Machine, **_: object) -> Ceilings:
        next(calls)
        return made(threads=threads, other_cores=next(load))

    monkeypatch.setattr(ceilings, "measure_ceilings", measure)
    here = machine.facts()
    assert ceilings.find_ceilings(here, 2)[1] is False
    assert ceilings.find_ceilings(here, 2)[1] is False
    assert ceilings.find_ceilings(here, 2) == (made(), True)
    assert ceilings.find_ceilings(here, 2, fresh=True)[1] is False
    assert next(calls) == 3
    assert ceilings.cache_path(here, "2.10.0+cpu", 2) != ceilings.cache_path(here, "2.10.0+cpu", 1)


def test_measuring_for_real_on_small_sizes() -> None:
    """The real products and copies run, at each thread count once, and torch is left as it was."""
    import torch

    here = machine.facts()
    small = dataclasses.replace(here, memory_limit=1 << 28, caches=())
    before = torch.get_num_threads()
    steps: list[str] = []
    found = ceilings.measure_ceilings(1, small, sizes=(64, 128), seconds=0.05, progress=steps.append)
    assert torch.get_num_threads() == before
    assert {g.precision for g in found.gemm} == {"fp32", "bf16"}
    assert found.gflops("fp32", 1) > 0  # type: ignore[operator]
    assert {"mm", "conv"} <= {g.operator for g in found.gemm}
    assert found.bandwidth[0].buffer_bytes == 1 << 24
    assert steps[0].startswith("fp32 mm")
    json.dumps(encode(found))


@pytest.mark.parametrize("operator", ["mm", "linear", "conv"])
@pytest.mark.parametrize("size", [64, 128, 512])
def test_every_operator_computes_the_whole_product(operator: str, size: int) -> None:
    """Its operations are counted as size³ × 2: the result must have size² elements of sums over size."""
    import torch

    product = ceilings._product(torch, operator, size, torch.float32)()
    assert product.numel() == size**2
    assert float(product.mean()) == pytest.approx(size / 4, rel=0.1)


def test_the_ceiling_is_the_best_operators_and_scaling_is_of_one() -> None:
    """MKL's product may be half of what oneDNN reaches; mixing them would find threads that scale by four."""
    gemm = [Gemm("fp32", 1, 64, "mm", 100.0), Gemm("fp32", 2, 64, "mm", 190.0), Gemm("fp32", 2, 64, "conv", 400.0)]
    found = made(gemm=tuple(gemm), threads=2)
    assert found.gflops("fp32") == 400.0
    assert found.scaling() == 0.95


def test_a_slow_precision_is_measured_on_small_matrices_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the next size would not fit into the time left, it is left out."""
    monkeypatch.setattr(ceilings, "_best_median", lambda call, seconds: 0.5)
    import torch

    found = ceilings._products(torch, "bf16", "mm", 1, (64, 128), 1.0)
    assert [g.size for g in found] == [64]


POINTS = [
    Point("resnet50", "fp32", 40, 146),
    Point("ssd", "fp32", 44, 150),
    Point("bert bf16", "bf16", 240, 130),
    Point("embedding", "fp32", 0.5, 8),
]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plot_writes_a_picture(tmp_path: Path, ending: str) -> None:
    """PNG and SVG are written, the SVG without a date, so that equal results give equal files."""
    path = tmp_path / f"roof.{ending}"
    roofline.plot(POINTS, made(), path, title="machine")
    assert path.stat().st_size > 2000
    if ending == "svg":
        assert "<!-- machine -->" in path.read_text()
        assert "<dc:date>" not in path.read_text()


def test_plot_without_runs_and_without_bandwidth(tmp_path: Path) -> None:
    """The machine alone can be drawn, and a missing copy leaves only the flat roofs."""
    roofline.plot([], made(), tmp_path / "a.png")
    roofline.plot(POINTS, made(bandwidth=()), tmp_path / "b.png")
    assert (tmp_path / "b.png").exists()


def test_names_avoid_each_other() -> None:
    """Two neighbouring marks get their names on different sides."""
    sides = roofline._sides(POINTS[:2], (0.1, 1000, 1, 1000))
    assert sides[0] != sides[1]
