"""Tensors are read without running code, and loaded only if all of them fit."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from exportable_workloads import OPTIONS, STATE, TOY, publish
from safetensors.torch import save_file, save_model

from modelzoo.errors import WeightsError
from modelzoo.workload import discovery, weights
from modelzoo.workload.state import (
    WeightsNote,
    convert_weights,
    load_state_dict,
    read_state_dict,
)


def test_unreadable_files_are_named_with_the_reason(tmp_path: Path) -> None:
    """Truncated, empty and text files, and truncated safetensors, give one line with file and reason."""
    path, _ = publish(tmp_path)
    cut, empty, text, zeros, tensors = (
        tmp_path / name for name in ("cut.pth", "empty.pth", "text.pth", "zeros.pth", "cut.safetensors")
    )
    cut.write_bytes(path.read_bytes()[:-50])
    empty.write_bytes(b"")
    text.write_text("<!DOCTYPE html><html>Not found")
    zeros.write_bytes(b"\0" * 1024)  # an empty tar file
    save_file(STATE, tensors)
    tensors.write_bytes(tensors.read_bytes()[:-1])
    for file, message in (
        (cut, "zip archive"),
        (empty, r"it is not a checkpoint \(EOFError\)"),
        (text, "it is not a checkpoint"),
        (zeros, ""),
        (tensors, "incomplete metadata|file not fully covered|header"),
    ):
        with pytest.raises(WeightsError, match=f"cannot be read as weights: .*({message})") as caught:
            read_state_dict(file)
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [[1, 2], {"model": {"weight": 1}}, {"epoch": 3}, {"optimizer": {}}, torch.ones(3)])
def test_what_is_no_state_dict_is_refused(content: Any, tmp_path: Path) -> None:
    """A state dict maps names to tensors."""
    torch.save(content, tmp_path / "x.pth")
    with pytest.raises(WeightsError, match="is not a state dict"):
        read_state_dict(tmp_path / "x.pth")


def test_the_only_state_dict_in_a_file_is_read_and_of_several_one_is_asked_for(tmp_path: Path) -> None:
    """Training scripts save a model beside an optimizer, and often its moving average beside it."""
    torch.save({"model": STATE, "epoch": 3, "optimizer": {"state": {}}}, tmp_path / "one.pth")
    assert read_state_dict(tmp_path / "one.pth").keys() == STATE.keys()
    path, averaged = tmp_path / "two.pth", {name: 2 * tensor for name, tensor in STATE.items()}
    torch.save({"state_dict": STATE, "state_dict_ema": averaged}, path)
    several = (
        rf"holds several state dicts: state_dict \(2 tensors\), state_dict_ema \(2 tensors\); .* {path}::state_dict"
    )
    with pytest.raises(WeightsError, match=several):
        read_state_dict(path)
    found = weights.resolve_weights(TOY, OPTIONS, f"{path}::state_dict_ema", 0)
    assert (found.name, found.path) == ("two.pth::state_dict_ema", f"{path}::state_dict_ema")
    assert torch.equal(read_state_dict(Path(found.path))["weight"], averaged["weight"])
    with pytest.raises(WeightsError, match="holds no state dict 'ema': state_dict "):
        read_state_dict(tmp_path / "two.pth::ema")


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_shards_are_read_together(name: str, tmp_path: Path) -> None:
    """By the index of a directory; the checksum covers all of them."""
    names = write_shards(tmp_path, name)
    assert read_state_dict(tmp_path).keys() == STATE.keys()
    found = weights.resolve_weights(TOY, OPTIONS, str(tmp_path), 0)
    lines = "".join(f"{name} {hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()}\n" for name in names)
    assert found.sha256 == hashlib.sha256(lines.encode()).hexdigest()


def write_shards(directory: Path, name: str = "model.safetensors") -> list[str]:
    """Write ``STATE`` as a shard for each tensor, and their index; returns the names of the shards."""
    save = torch.save if name.endswith(".bin") else save_file
    places = {each: name.replace(".", f"-{number}.") for number, each in enumerate(STATE)}
    for each, file in places.items():
        save({each: STATE[each]}, directory / file)
    (directory / f"{name}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return sorted(places.values())


def test_a_prefix_that_all_names_share_is_removed_and_said(tmp_path: Path) -> None:
    """DataParallel and torch.compile add one; it is a warning of the result."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    compiled = torch.nn.DataParallel(model).state_dict(prefix="_orig_mod.")
    loaded = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with pytest.warns(WeightsNote, match="all names in x.pth begin with '_orig_mod.module.'"):
        load_state_dict(loaded, compiled, Path("x.pth"))
    assert torch.equal(loaded[0].weight, model[0].weight)
    torch.save({f"module.{name}": tensor for name, tensor in STATE.items()}, tmp_path / "x.pth")
    found = weights.load_model(TOY, OPTIONS, weights.resolve_weights(TOY, OPTIONS, str(tmp_path / "x.pth"), 0))
    assert [each.code for each in found.warnings] == ["RENAMED_WEIGHTS"]
    with pytest.raises(WeightsError, match="x.pth does not fit .*first: other.a.weight"):
        load_state_dict(loaded, {"other.a.weight": torch.ones(1)}, Path("x.pth"))


def test_versions_of_modules_are_kept_or_those_of_this_release() -> None:
    """torchvision's MNASNet refuses a state dict without one, also its own as safetensors."""
    seen = []

    class Versioned(torch.nn.Linear):
        _version = 3

        def _load_from_state_dict(self, state: Any, prefix: str, metadata: Any, *rest: Any) -> None:
            seen.append(metadata.get("version"))
            super()._load_from_state_dict(state, prefix, metadata, *rest)

    model = Versioned(3, 2)
    old = model.state_dict()
    old._metadata[""]["version"] = 2
    load_state_dict(model, old, Path("x.pth"))
    load_state_dict(model, dict(model.state_dict()), Path("x.pth"))
    assert seen == [2, 3]


class Tied(torch.nn.Module):
    """Two names of one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.table.weight


def test_one_name_of_a_tied_tensor_is_sufficient(tmp_path: Path) -> None:
    """safetensors' save_model writes one of them; if both are there, they must be equal."""
    save_model(Tied(), str(tmp_path / "x.safetensors"))
    state = read_state_dict(tmp_path / "x.safetensors")
    assert len(state) == 1
    model = Tied()
    load_state_dict(model, state, tmp_path)
    assert torch.equal(model.table.weight, next(iter(state.values())))
    assert model.head.weight is model.table.weight
    both = {"table.weight": torch.ones(5, 3), "head.weight": torch.zeros(5, 3)}
    with pytest.raises(WeightsError, match=r"table.weight and head.weight are one tensor in the model"):
        load_state_dict(model, both, tmp_path)


MUTATIONS: dict[str, tuple[Callable[[Path], object], str]] = {
    "integers": (lambda path: edit(path, lambda state: state.update(bias=state["bias"].int())), "1 of another type"),
    "fp8": (lambda path: edit(path, lambda s: s.update(bias=s["bias"].to(torch.float8_e4m3fn))), "1 of another type"),
    "complex": (lambda path: edit(path, lambda s: s.update(bias=s["bias"].to(torch.cfloat))), "1 of another type"),
    "a number": (lambda path: edit(path, lambda state: state.update(bias=1.0)), "is not a state dict"),
    "a number as name": (
        lambda path: edit(path, lambda state: state.update({3: state["bias"]})),
        "is not a state dict",
    ),
    "Git LFS": (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\nsize 9"), "Git LFS"),
}
"""What makes a checkpoint inconsistent, and how the line that refuses it goes on."""


def edit(path: Path, change: Callable[[dict[Any, Any]], object]) -> None:
    """Change the state dict in a file."""
    state = torch.load(path)
    change(state)
    torch.save(state, path)


@pytest.mark.parametrize(("mutate", "message"), MUTATIONS.values(), ids=MUTATIONS)
def test_an_inconsistent_file_is_refused_in_one_line(
    mutate: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    """Nothing is taken for a random or a rounded tensor."""
    path, _ = publish(tmp_path)
    mutate(path)
    with pytest.raises(WeightsError, match=message) as caught:
        weights.load_model(TOY, OPTIONS, weights.resolve_weights(TOY, OPTIONS, str(path), 0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ('{"weight_map": {"weight": "model-9.safetensors"}}', "names 'model-9.safetensors', which is not in its direc"),
        ('{"weight_map": {"weight": "../model.safetensors"}}', "names '../model.safetensors', which is not"),
        ('{"weight_map": {"weight": 3}}', "is not an index of shards: Expected `str`, got `int`"),
        ("[]", "is not an index of shards"),
        ('{"weight_map": {"weight": "model-0.safetensors"}}', "1 tensors missing"),
    ],
)
def test_an_inconsistent_index_is_refused_in_one_line(index: str, message: str, tmp_path: Path) -> None:
    """A shard is missing, lies elsewhere, or is not named."""
    write_shards(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(WeightsError, match=message) as caught:
        weights.load_model(TOY, OPTIONS, weights.resolve_weights(TOY, OPTIONS, str(tmp_path), 0))
    assert "\n" not in str(caught.value)


def test_every_mismatch_is_named() -> None:
    """The message counts missing, unknown and reshaped tensors and names the first of each."""
    model = torch.nn.Linear(3, 2)
    with pytest.raises(WeightsError) as caught:
        load_state_dict(model, {"weight": torch.ones(2, 4), "scale": torch.ones(1)}, Path("x.pth"))
    assert str(caught.value) == (
        "x.pth does not fit the model: 1 tensors missing (first: bias); 1 unknown (first: scale); "
        "1 of another shape (first: weight is (2, 4), the model needs (2, 3)); give a checkpoint of this workload"
    )


def test_the_counter_of_old_batch_norms_may_be_missing() -> None:
    """Checkpoints older than torch 0.4.1 lack the counter, and load."""
    model = torch.nn.BatchNorm1d(2)
    state = {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    load_state_dict(model, state, Path("x.pth"))


def test_bert_refuses_another_kind_of_model(tmp_path: Path) -> None:
    """The config decides whether a directory holds a BERT model."""
    work = discovery.load_workload(discovery.find_workload("bert"))
    save_file(STATE, tmp_path / "model.safetensors")
    for config, message in (
        (None, "has no config.json; give the directory of a checkpoint for BertForQuestionAnswering"),
        ('{"model_type": "roberta"}', "holds a 'roberta' model, and this workload needs 'bert'"),
        ("not json", "config.json is of no BertForQuestionAnswering that can be built: .*not a valid JSON"),
    ):
        if config is not None:
            (tmp_path / "config.json").write_text(config)
        options = work.option_values({})
        with pytest.raises(WeightsError, match=message) as caught:
            weights.load_model(work, options, weights.resolve_weights(work, options, str(tmp_path), 0))
        assert "\n" not in str(caught.value)


TYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int64, torch.bool)


def test_names_values_and_types_stay_the_same(tmp_path: Path) -> None:
    """Parameters, views, tensors that share memory, empty ones, and every type of floating point and integers."""
    base = torch.arange(12.0).reshape(3, 4)
    state = OrderedDict(
        whole=base,
        same=base,
        transposed=base.t(),
        row=base[1],
        parameter=torch.nn.Parameter(torch.ones(2)),
        empty=torch.empty(0, 3),
        scalar=torch.tensor(7),
        **{str(dtype): torch.tensor([1, 0, 3]).to(dtype) for dtype in TYPES},
    )
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "x.pth")
    assert convert_weights(tmp_path / "x.pth") == (tmp_path / "x.safetensors", len(state))
    (tmp_path / "plain").touch()
    assert (tmp_path / "x.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode
    read = read_state_dict(tmp_path / "x.safetensors")
    assert read.keys() == state.keys()
    for name, tensor in state.items():
        assert read[name].dtype == tensor.dtype, name
        assert torch.equal(read[name], tensor), name


def test_a_directory_gets_the_file_that_is_read_first(tmp_path: Path) -> None:
    """In Hugging Face's layout, by the name of the directory or of the file in it."""
    torch.save(STATE, tmp_path / "pytorch_model.bin")
    for source in (tmp_path, tmp_path / "pytorch_model.bin"):
        assert convert_weights(source)[0] == tmp_path / "model.safetensors"
        (tmp_path / "model.safetensors").unlink()
