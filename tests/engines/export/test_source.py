"""The torch module that engines convert: its state, its batch, and what torch computes from it."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from exportable_workloads import CLASSIFIER, DETECTOR, Classifier, resolved, source_of

from modelzoo.engines.export.source import PLAIN, Structure, flatten, rebuild, state_sha256
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.codec import decode, encode
from modelzoo.workload.declaration import Inputs

SETTING = resolved("openvino")


def test_the_flat_module_takes_and_returns_tensors(tmp_path: Path) -> None:
    """Exporters know neither lists nor dicts; the heads that were asked for come last, and nothing stays hooked."""
    made = source_of(DETECTOR, tmp_path, SETTING)
    flat = made.flat_module()
    *_, scores, head = flat(*made.flat_inputs)
    assert (flat.output_structure.names()[-1], flat.head_names) == ("1.scores", ("head",))
    torch.testing.assert_close(scores, head[head > 0])
    assert not made.module.head._forward_hooks


def test_torch_counts_what_its_module_does_in_one_pass(tmp_path: Path) -> None:
    """Without what making the inputs takes, and although an exporter left the module in training mode."""
    found = source_of(CLASSIFIER, tmp_path, SETTING)
    found.module.train()
    assert found.flops.by_operator == {
        "aten::convolution": 2 * 2 * 8 * 8 * 16 * 16 * (9 + 1),
        "aten::addmm": 2 * 2 * 16 * 5,
    }


def test_a_module_that_changes_its_inputs_gets_copies(tmp_path: Path) -> None:
    """What is stored with its outputs is the batch that they were computed from."""

    class Changing(Classifier):
        def forward(self, pictures: Any) -> Any:
            return super().forward(pictures.add_(1))

    work = replace(CLASSIFIER, build=lambda options: Changing())
    made, again = source_of(work, tmp_path, SETTING), source_of(work, tmp_path, SETTING)
    _, expected = made.expected
    assert made.flops is not None
    assert torch.equal(made.flat_inputs[0], again.flat_inputs[0])
    assert all(map(np.array_equal, expected[PLAIN], again.expected[1][PLAIN]))


def test_a_module_in_another_type_is_in_fp32_with_its_batch(tmp_path: Path) -> None:
    """Engines convert the one, and read the other."""
    work = replace(
        CLASSIFIER,
        build=lambda options: torch.nn.Linear(5, 2, dtype=torch.float64),
        inputs=lambda request: Inputs((torch.ones(1, 5).double(),), ("a",)),
    )
    made = source_of(work, tmp_path, SETTING)
    assert made.loaded.converted == {"float64": 1.0}
    assert [each.dtype for each in (*made.module.parameters(), *made.flat_inputs)] == [torch.float32] * 3
    assert made.expected[1][PLAIN][0].dtype == np.float32


def test_the_digest_of_the_state_follows_every_change() -> None:
    """Values, types, shapes and names; not the order or the layout in memory."""

    def digest(**state: Any) -> str:
        return state_sha256(SimpleNamespace(state_dict=lambda: state))

    a, b = torch.arange(6.0).reshape(2, 3).to(torch.bfloat16), torch.ones(2)
    assert digest(b=b, a=a.t().contiguous().t()) == digest(a=a, b=b)
    others = {"a": a, "b": b + 1}, {"a": a, "b": b.double()}, {"a": a, "b": b.reshape(2, 1)}, {"a": a, "c": b}
    assert len({digest(a=a, b=b), *(digest(**each) for each in others)}) == 5


class ModelOutput(OrderedDict[str, Any]):
    """Like that of transformers."""

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self.values())


def test_whatever_is_taken_apart_can_be_put_together() -> None:
    """Containers, their order, numbers (stored as arrays) and None stay; the structure survives being stored."""
    value = {"b": [1, None, True, ()], "a": (np.arange(3), {"x": 2.5, "y": [[]], "z": {}}, [np.zeros((0, 2))] * 2)}
    structure, arrays = flatten(value)
    assert structure.count == len(arrays) == len(structure.names()) == len(set(structure.names())) == 6
    np.testing.assert_equal(rebuild(decode(Structure, encode(structure)), [*map(np.asarray, arrays)]), value)


def test_outputs_of_transformers_keep_their_keys_attributes_and_numbers() -> None:
    """A judge may use any of them."""
    structure, arrays = flatten(ModelOutput(start_logits=np.zeros(1), end_logits=np.ones(1)))
    found = rebuild(structure, arrays)
    assert found["end_logits"] is found.end_logits is found[1] is arrays[1]
    assert found[:2] == (arrays[0], arrays[1])
    with pytest.raises(AttributeError):
        _ = found.loss


def test_what_cannot_be_exported_is_refused() -> None:
    """An object of the workload's own."""
    with pytest.raises(UsageError, match="a set cannot be passed to an exported model; .*--engine torch"):
        flatten([{1}])
