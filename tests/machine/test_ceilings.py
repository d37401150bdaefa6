"""Ceilings are kept, and measured again if they cannot be used."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from example_machine import SERVER, TWO_CORES

from modelzoo.frozen import replace
from modelzoo.machine.ceilings import ceilings_path, find_ceilings, kept_ceilings, roofline_bound
from modelzoo.records.equipment import Accelerator
from modelzoo.records.profile import Ceilings


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
