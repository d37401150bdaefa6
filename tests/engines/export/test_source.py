"""The torch module that engines convert: its state, its batch, and what torch computes from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from modelzoo.engines.export.source import TorchSource, slightly_changed, state_sha256
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import Inputs, Workload


class Detector(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """Takes a list of pictures and returns detections; its head is a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(3, 2)

    def forward(self, pictures: Any) -> Any:
        found = [self.head(picture.mean(dim=(1, 2))) for picture in pictures[:1]]
        return [{"scores": each.sigmoid(), "labels": torch.tensor([1, 2])} for each in found]


def source(folder: Path, module: Callable[[], Any] = Detector, **declared: Any) -> TorchSource:
    """A source with a module whose weights are in a file."""
    torch.manual_seed(0)
    path = folder / "weights.safetensors"
    save_file(module().state_dict(), str(path))
    work = Workload(
        name="toy",
        title="a toy",
        unit="pictures",
        build=lambda options: module(),
        inputs=lambda request: Inputs(([torch.ones(3, 4, 5), torch.zeros(3, 2, 2)],), ("a", "b")),
        **declared,
    )
    weights = Weights(WeightsKind.PATH, path.name, str(path), "", "named by --weights")
    return TorchSource(work, ResolvedSetting(), weights)


def test_the_module_is_in_eval_mode_without_gradients(tmp_path: Path) -> None:
    """As it is timed with torch; made once."""
    made = source(tmp_path)
    assert made.module is made.module
    assert not made.module.training
    assert not any(each.requires_grad for each in made.module.parameters())


def test_the_flat_module_takes_and_returns_tensors(tmp_path: Path) -> None:
    """Exporters know neither lists nor dicts; structure and names are known after a call."""
    made = source(tmp_path, heads=lambda model: {"head": model.head})
    flat = made.flat_module(heads=True)
    assert [each.shape for each in made.flat_inputs] == [(3, 4, 5), (3, 2, 2)]
    scores, labels, head = flat(*made.flat_inputs)
    assert flat.output_structure.names() == ("0.scores", "0.labels")
    assert flat.head_names == ("head",)
    torch.testing.assert_close(scores, head.sigmoid())
    assert labels.tolist() == [1, 2]
    assert len(made.flat_module(heads=False)(*made.flat_inputs)) == 2
    assert not made.module.head._forward_hooks


def test_expected_outputs_are_arrays(tmp_path: Path) -> None:
    """Outputs with their structure, and the raw heads apart."""
    expected = source(tmp_path, heads=lambda model: {"head": model.head}).expected
    assert [each.dtype for each in (*expected.outputs, *expected.heads)] == [np.float32, np.int64, np.float32]
    assert expected.structure.names() == ("0.scores", "0.labels")
    assert source(tmp_path).expected.heads == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda state: {**state, "b": state["b"] + 1},
        lambda state: {**state, "b": state["b"].double()},
        lambda state: {**state, "b": state["b"].reshape(2, 1)},
        lambda state: {"c" if name == "b" else name: tensor for name, tensor in state.items()},
    ],
    ids=["value", "type", "shape", "name"],
)
def test_the_digest_of_the_state_follows_every_change(change: Callable[[Any], Any]) -> None:
    """Values, types, shapes and names; not the order or the layout in memory."""

    class Module:
        def __init__(self, state: Any) -> None:
            self.state_dict = lambda: state

    state = {"a": torch.arange(6.0).reshape(2, 3).to(torch.bfloat16), "b": torch.ones(2), "n": torch.tensor(3)}
    digest = state_sha256(Module(state))
    same = {"n": state["n"], "b": state["b"], "a": state["a"].t().contiguous().t()}
    assert state_sha256(Module(same)) == digest
    assert state_sha256(Module(change(state))) != digest


def test_inputs_are_changed_slightly_and_always_alike() -> None:
    """Floating-point values only; integers and numbers stay, and without any there is nothing to change."""
    inputs = (torch.full((1000,), 2.0), torch.tensor([1, 2]), 3)
    first, second = slightly_changed(inputs), slightly_changed(inputs)
    assert first is not None
    assert second is not None
    assert torch.equal(first[0], second[0])
    assert 1e-6 < (first[0] - inputs[0]).abs().mean().item() < 3e-6
    assert first[1:] == inputs[1:]
    assert slightly_changed(inputs[1:]) is None


def test_what_changed_inputs_cause_is_expected_too(tmp_path: Path) -> None:
    """Nearly the same outputs and heads."""
    expected = source(tmp_path, heads=lambda model: {"head": model.head}).expected
    for changed, plain in zip(
        (*expected.changed_outputs, *expected.changed_heads), (*expected.outputs, *expected.heads)
    ):
        np.testing.assert_allclose(changed, plain, rtol=1e-4)
    assert not np.array_equal(expected.changed_heads[0], expected.heads[0])


def test_torch_counts_what_its_module_does_in_one_pass(tmp_path: Path) -> None:
    """Without what making the inputs takes, and although an exporter left the module in training mode."""
    found = source(tmp_path)
    found.module.train()
    assert found.flops is not None
    assert (found.flops.total, found.flops.by_operator) == (2 * 3 * 2, {"aten::addmm": 2 * 3 * 2})
