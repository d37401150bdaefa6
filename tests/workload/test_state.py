"""Tensors are read without running code, and loaded only if all of them fit."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_workload import STATE, publish

from modelzoo.errors import WeightsError
from modelzoo.workload import discovery, weights
from modelzoo.workload.state import load_state_dict, read_state_dict


class Payload:
    """The content of a malicious checkpoint: unpickling it creates a directory."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.place),))


def test_code_in_a_checkpoint_never_runs(tmp_path: Path) -> None:
    """A pickle with code, plain or in torch's format, is an error and its code does not run."""
    trap = tmp_path / "trap"
    plain, saved = tmp_path / "plain.pth", tmp_path / "saved.pth"
    plain.write_bytes(pickle.dumps({"weight": Payload(trap)}, protocol=2))
    torch.save({"weight": Payload(trap)}, saved)
    for path in (plain, saved):
        with pytest.raises(WeightsError, match="holds more than tensors \\(code in it was not run\\)") as caught:
            read_state_dict(path)
        assert "weights_only" not in str(caught.value), "never advise to switch the protection off"
        assert not trap.exists()
    torch.load(saved, weights_only=False)
    assert trap.exists(), "the trap works, so the test can fail"


def test_unreadable_files_are_named_with_the_reason(tmp_path: Path) -> None:
    """Truncated, empty and text files, and truncated safetensors, give one line with file and reason."""
    from safetensors.torch import save_file

    path, _ = publish(tmp_path)
    cut, empty, text, tensors = (tmp_path / n for n in ("cut.pth", "empty.pth", "text.pth", "cut.safetensors"))
    cut.write_bytes(path.read_bytes()[:-50])
    empty.write_bytes(b"")
    text.write_text("hello world")
    save_file(STATE, tensors)
    tensors.write_bytes(tensors.read_bytes()[:-1])
    for file, message in (
        (cut, "zip archive"),
        (empty, r"it is not a checkpoint \(EOFError\)"),
        (text, "it is not a checkpoint"),
        (tensors, "incomplete metadata|file not fully covered|header"),
    ):
        with pytest.raises(WeightsError, match=f"cannot be read as weights: .*({message})") as caught:
            read_state_dict(file)
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [[1, 2], {"model": {"weight": torch.ones(1)}}, {"epoch": 3}])
def test_what_is_no_state_dict_is_refused(content: Any, tmp_path: Path) -> None:
    """A state dict maps names to tensors, possibly below the key ``state_dict``."""
    torch.save(content, tmp_path / "x.pth")
    with pytest.raises(WeightsError, match="is not a state dict"):
        read_state_dict(tmp_path / "x.pth")
    torch.save({"state_dict": STATE, "epoch": 3}, tmp_path / "y.pth")
    assert read_state_dict(tmp_path / "y.pth").keys() == STATE.keys()


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


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [
        ("resnet50", "weights/classification/efficientnet-lite0-57934424.pth", "267 tensors missing .*247 unknown"),
        (
            "resnet50",
            "weights/classification/thin_resnet50_open_nsfw_fp16.safetensors",
            r"262 of another shape .*fc.bias",
        ),
        ("resnet50", "weights/bert/minilm-l6-squad", "267 tensors missing"),
        ("bert", "weights/classification/efficientnet-lite0-57934424.pth", "has no config.json"),
    ],
)
def test_a_checkpoint_of_another_architecture_is_refused(name: str, file: str, message: str, shared: Path) -> None:
    """Real checkpoints of other networks are errors that name what does not fit."""
    work = discovery.load_workload(discovery.find_workload(name))
    options = work.option_values({})
    found = weights.resolve_weights(work, options, str(shared / file), 0)
    with pytest.raises(WeightsError, match=message):
        weights.load_model(work, options, found)


def test_bert_refuses_another_kind_of_model(tmp_path: Path) -> None:
    """The config decides whether a directory holds a BERT model."""
    from safetensors.torch import save_file

    work = discovery.load_workload(discovery.find_workload("bert"))
    save_file(STATE, tmp_path / "model.safetensors")
    for config, message in (
        ('{"model_type": "roberta"}', "holds a 'roberta' model, and this workload needs 'bert'"),
        ("not json", "config.json cannot be read"),
        ('{"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}', "missing"),
    ):
        (tmp_path / "config.json").write_text(config)
        options = work.option_values({})
        with pytest.raises(WeightsError, match=message) as caught:
            weights.load_model(work, options, weights.resolve_weights(work, options, str(tmp_path), 0))
        assert "\n" not in str(caught.value)


def test_bert_loads_a_trained_checkpoint(shared: Path) -> None:
    """The checkpoint's own config decides the size, and its tensors arrive in fp32."""
    work = discovery.load_workload(discovery.find_workload("bert"))
    options = work.option_values({})
    found = weights.resolve_weights(work, options, str(shared / "weights/bert/minilm-l6-squad"), 0)
    model = weights.load_model(work, options, found).module
    assert model.bert.config.num_hidden_layers == 6
    assert {p.dtype for p in model.parameters()} == {torch.float32}
