"""Which weights a run uses: found, downloaded, named by the user, or random and kept on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from exportable_workloads import OPTIONS, STATE, TOY, build, hub, publish, toy_with

from modelzoo.errors import DamagedWeightsError, WeightsError
from modelzoo.frozen import replace
from modelzoo.records.workload import WeightsKind
from modelzoo.workload import checkpoints, weights


def test_auto_falls_back_to_random_and_says_why(tmp_path: Path) -> None:
    """Without checkpoint and network the weights are random, and the reason is recorded; "damaged" may be a name."""
    checkpoint = replace(publish(tmp_path)[1], name="damaged toy weights")
    found = weights.resolve_weights(toy_with(checkpoint), OPTIONS, "auto", 5)
    assert (found.kind, found.seed) == ("random", 5)
    assert found.problem is not None
    assert "toy weights is not cached and MODELZOO_OFFLINE" in found.problem


def test_pretrained_never_falls_back(tmp_path: Path) -> None:
    """``--weights pretrained`` without a checkpoint is an error that says where to put it."""
    path, checkpoint = publish(tmp_path)
    with pytest.raises(WeightsError, match=f"not cached .* set MODELZOO_WEIGHTS to a directory that has {path.name}"):
        weights.resolve_weights(toy_with(checkpoint), OPTIONS, "pretrained", 0)
    with pytest.raises(WeightsError, match="no published checkpoint for toy; use --weights random or a path"):
        weights.resolve_weights(TOY, OPTIONS, "pretrained", 0)


@pytest.mark.parametrize("damage", ["truncated", "altered"])
@pytest.mark.parametrize("source", ["auto", "pretrained"])
def test_a_damaged_cached_file_is_found_and_named(damage: str, source: str) -> None:
    """The checksum in the name detects both, and auto does not fall back to random weights."""
    path, checkpoint = publish(hub())
    data = path.read_bytes()
    path.write_bytes(data[:-100] if damage == "truncated" else data[:200] + b"\x01" + data[201:])
    with pytest.raises(DamagedWeightsError, match="is damaged or altered: its SHA-256 begins") as caught:
        weights.resolve_weights(toy_with(checkpoint), OPTIONS, source, 0)
    assert str(path) in str(caught.value)
    assert "modelzoo weights fetch" in str(caught.value)


def test_a_path_is_used_as_it_is(tmp_path: Path) -> None:
    """Path, checksum and name of the user's file are recorded."""
    path, _ = publish(tmp_path / "with space")
    found = weights.resolve_weights(TOY, OPTIONS, str(path), 0)
    assert (found.kind, found.path, found.problem) == ("path", str(path), None)
    model = weights.load_model(TOY, OPTIONS, found).module
    assert (model.bias.equal(STATE["bias"]), model.training) == (True, False)


def test_random_weights_are_made_once_and_are_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same call uses the same file; another seed or shape has another one."""
    first = weights.resolve_weights(TOY, OPTIONS, "random", 0)
    monkeypatch.setattr(weights, "_random_model", lambda *args: pytest.fail("made again"))
    assert weights.resolve_weights(TOY, OPTIONS, "random", 0) == first
    assert first.problem is None
    monkeypatch.undo()
    other = weights.resolve_weights(TOY, OPTIONS, "random", 1)
    wider = weights.resolve_weights(TOY, TOY.option_values({"width": 4}), "random", 0)
    assert len({first.sha256, other.sha256, wider.sha256}) == 3
    assert len({first.path, other.path, wider.path}) == 3


def test_random_weights_are_remade_when_damaged_and_come_out_the_same() -> None:
    """A truncated file is replaced by the same weights."""
    first = weights.resolve_weights(TOY, OPTIONS, "random", 0)
    path = Path(first.path)
    path.write_bytes(path.read_bytes()[:-3])
    assert weights.resolve_weights(TOY, OPTIONS, "random", 0) == first
    assert checkpoints.file_sha256(path) == first.sha256
    assert [p.name for p in path.parent.iterdir()] == [path.name], "no temporary file is left"


def test_random_weights_do_not_depend_on_options_of_the_inputs() -> None:
    """The weights are calibrated on default inputs, whichever input size ran first."""
    large = weights.resolve_weights(TOY, TOY.option_values({"level": "7"}), "random", 0)
    Path(large.path).unlink()
    default = weights.resolve_weights(TOY, OPTIONS, "random", 0)
    assert (default.path, default.sha256) == (large.path, large.sha256)


def test_random_weights_of_a_changed_declaration_are_made_anew(tmp_path: Path) -> None:
    """An edited workload.py, or another one of the same name, gets new weights."""
    work = replace(TOY, directory=tmp_path)
    (tmp_path / "workload.py").write_text("# one")
    first = weights.resolve_weights(work, OPTIONS, "random", 0)
    (tmp_path / "workload.py").write_text("# two")
    assert weights.resolve_weights(work, OPTIONS, "random", 0).path != first.path


def test_random_weights_that_are_not_finite_are_an_error() -> None:
    """NaN is detected when the weights are generated."""
    broken = replace(TOY, randomize=lambda model, inputs, seed: model.bias.fill_(float("nan")))
    with pytest.raises(WeightsError, match="random weights of toy are not finite in bias"):
        weights.resolve_weights(broken, OPTIONS, "random", 0)


def test_an_unwritable_cache_is_replaced_by_a_temporary_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a read-only cache, the weights are stored in a temporary directory."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = weights.resolve_weights(TOY, OPTIONS, "random", 0)
    assert Path(found.path).is_file()
    assert Path(found.path).is_relative_to(tmp_path)


def test_what_is_converted_to_fp32() -> None:
    """What is narrower, and fp64 if it is the type of parameters; not integers, nor a table in fp64."""
    model = torch.nn.BatchNorm1d(3)
    assert weights.convert_to_fp32(model) == {}
    model.register_buffer("table", torch.ones(1, dtype=torch.float64))
    model.register_buffer("mask", torch.ones(3, dtype=torch.bfloat16))
    model.weight.data = model.weight.data.half()
    assert weights.convert_to_fp32(model) == {"bfloat16": 3 / 16, "float16": 3 / 16}
    kinds = {name: each.dtype for name, each in model.state_dict().items() if each.dtype is not torch.float32}
    assert kinds == {"num_batches_tracked": torch.int64, "table": torch.float64}
    assert weights.convert_to_fp32(model.double()) == {"float64": 1.0}
    assert model.table.dtype is torch.float32


def test_weights_in_fp32_are_not_rounded_to_the_type_of_the_model(tmp_path: Path) -> None:
    """A model that is built in bf16 is converted before its weights are loaded."""
    found, value = weights.Weights(WeightsKind.PATH, "w.pth", str(tmp_path / "w.pth"), ""), 1 + 2.0**-20
    torch.save({"weight": torch.full((2, 3), value), "bias": torch.zeros(2)}, found.path)
    narrow = replace(TOY, build=lambda options: build(options).bfloat16())
    loaded = weights.load_model(narrow, OPTIONS, found)
    assert loaded.converted == {"bfloat16": 1.0}
    assert loaded.module.weight[0, 0].item() == value
