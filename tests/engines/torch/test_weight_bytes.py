"""How many bytes of parameters a forward pass reads."""

from __future__ import annotations

import pytest
import torch

from modelzoo.engines.torch.execution import weight_bytes


class Model(torch.nn.Module):
    """An embedding and a head, which may share their weights."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(100, 8)
        self.head = torch.nn.Linear(8, 100)
        if tied:
            self.head.weight = self.table.weight


@pytest.mark.parametrize("tied", [True, False])
def test_a_table_counts_only_if_another_layer_reads_it_all(tied: bool) -> None:
    """And then once; in the type in which it is stored. All of it occupies memory."""
    assert weight_bytes(Model(tied=tied)) == 4 * (800 + 100)
    assert weight_bytes(Model(tied=tied).to(torch.bfloat16)) == 2 * (800 + 100)
    assert weight_bytes(Model(tied=tied), with_tables=True) == 4 * (800 + 100 + (0 if tied else 800))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_quantized_layers_count_as_they_are_stored() -> None:
    """A byte for each weight, and biases in fp32; the layer's one scale is not counted."""
    quantized = torch.ao.quantization.quantize_dynamic(Model(tied=False), {torch.nn.Linear}, dtype=torch.qint8)
    assert weight_bytes(quantized) == 800 + 4 * 100


def test_what_is_packed_otherwise_is_not_known() -> None:
    """A subclass of tensors may hold anything."""
    model = Model(tied=False)
    packed = torch.Tensor._make_subclass(type("Packed", (torch.Tensor,), {}), torch.ones(100, 8))
    model.head.weight = torch.nn.Parameter(packed)
    assert weight_bytes(model) is None


def test_wrapped_tensors_count_as_what_they_hold() -> None:
    """torchao's int8 weights are a byte each, with scales, although their type says fp32."""
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    model = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False))
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig(version=2))
    found = weight_bytes(model)
    assert found is not None
    assert 64 * 32 < found < 2 * 64 * 32
