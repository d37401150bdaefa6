"""Pickled checkpoints become safetensors with the same tensors."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from toy_workload import OPTIONS, STATE, TOY

from modelzoo.errors import WeightsError
from modelzoo.workload import weights
from modelzoo.workload.state import convert_weights, read_state_dict

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
    read = read_state_dict(tmp_path / "x.safetensors")
    assert read.keys() == state.keys()
    for name, tensor in state.items():
        assert read[name].dtype == tensor.dtype, name
        assert torch.equal(read[name], tensor), name


def test_a_converted_checkpoint_is_read_by_vulnerable_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way out that the refusal names works, and the file has the permissions that the umask gives."""
    torch.save(STATE, tmp_path / "x.pth")
    written, _ = convert_weights(tmp_path / "x.pth")
    (tmp_path / "plain").touch()
    assert written.stat().st_mode == (tmp_path / "plain").stat().st_mode
    monkeypatch.setattr(torch, "__version__", "2.6.0")
    found = weights.resolve_weights(TOY, OPTIONS, str(written), 0)
    assert weights.load_model(TOY, OPTIONS, found).module.state_dict()["weight"].equal(STATE["weight"])


def test_a_directory_gets_the_file_that_is_read_first(tmp_path: Path) -> None:
    """In Hugging Face's layout, by the name of the directory or of the file in it."""
    torch.save(STATE, tmp_path / "pytorch_model.bin")
    for source in (tmp_path, tmp_path / "pytorch_model.bin"):
        assert convert_weights(source)[0] == tmp_path / "model.safetensors"
        (tmp_path / "model.safetensors").unlink()


@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants:UserWarning")  # of torch 2.14 and newer
def test_a_failed_conversion_leaves_nothing(tmp_path: Path) -> None:
    """A tensor that safetensors cannot hold is one line."""
    torch.save({"weight": torch.eye(3).to_sparse()}, tmp_path / "sparse.pth")
    with pytest.raises(WeightsError, match="cannot be written as") as caught:
        convert_weights(tmp_path / "sparse.pth")
    assert "\n" not in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["sparse.pth"]
