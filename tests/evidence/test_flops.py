"""Operations and bytes of one pass, call by call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from modelzoo.evidence.flops import record_calls, sum_flops


def total(call: Callable[[], object], *, inference: bool = True) -> int:
    """The operations of ``call``, whose products are all known."""
    with torch.inference_mode() if inference else torch.no_grad():
        found = sum_flops(record_calls(call))
    assert found.missing == ()
    return found.total


@pytest.mark.parametrize("inference", [False, True])
def test_as_torch_counts(inference: bool) -> None:
    """Convolutions (grouped, strided, transposed), Linear and matrix products agree with torch's own counter."""
    counter = pytest.importorskip("torch.utils.flop_counter")
    model = nn.Sequential(
        nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=4),
        nn.ConvTranspose2d(16, 8, 2, stride=2),
        nn.Flatten(2),
        nn.Linear(256, 32),
    ).eval()
    x = torch.randn(2, 8, 16, 16)

    def call() -> None:
        y = model(x)
        y @ y.transpose(1, 2)

    with counter.FlopCounterMode(display=False) as reference, torch.no_grad():
        call()
    assert total(call, inference=inference) == reference.get_total_flops() > 0


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
def test_recurrent_layers_are_counted() -> None:
    """At each step, the weights of all gates by the input and by the hidden state; also where they are packed."""
    x = torch.randn(3, 5, 16)  # steps, items, size
    per_step = 2 * 4 * 32 * (16 + 32) + 2 * 4 * 32 * (64 + 32)
    lstm = nn.LSTM(16, 32, num_layers=2, bidirectional=True)
    quantized = [torch.ao.quantization.quantize_dynamic(nn.Sequential(each)) for each in (lstm, nn.GRU(16, 32))]
    found = [total(lambda layer=layer: layer(x), inference=False) for layer in (lstm, *quantized)]
    assert found == [2 * 15 * per_step] * 2 + [2 * 15 * 3 * 32 * (16 + 32)]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_operators_whose_kernels_call_others_are_counted_by_those() -> None:
    """Attention and encoder layers on torch's fast path, also with padding, and the products of groups of rows."""
    x, padding = torch.randn(2, 5, 32), torch.arange(5) >= torch.tensor([[5], [3]])
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    encoder, attention = nn.TransformerEncoder(layer, 1).eval(), nn.MultiheadAttention(32, 4, batch_first=True).eval()
    groups, ends = torch.randn(3, 32, 16), torch.tensor([3, 6, 10], dtype=torch.int32)
    multiplied = 2 * 2 * 2 * 4 * 5 * 5 * 8  # queries by keys, and weights by values
    assert total(lambda: attention(x, x, x)) == 2 * 10 * 32 * (3 * 32 + 32) + multiplied
    assert total(lambda: encoder(x)) == 2 * 10 * 32 * (3 * 32 + 32 + 64 + 64) + multiplied
    # Rows of padding are left out of Linear layers.
    padded = total(lambda: encoder(x, src_key_padding_mask=padding))
    assert padded == 2 * 8 * 32 * (3 * 32 + 32 + 64 + 64) + multiplied
    assert total(lambda: torch._grouped_mm(x.flatten(0, 1), groups, offs=ends)) == 2 * 10 * 32 * 16


def test_what_a_compiled_graph_calls_runs_without_autocast() -> None:
    """Its operators convert nothing while they are observed, as they convert nothing otherwise."""
    layer, x = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), torch.randn(2, 5, 32)
    found = []

    def call() -> None:
        with torch.autocast("cpu", torch.bfloat16), torch._C._DisableAutocast():
            found.append(layer(x))

    with torch.inference_mode():
        call()
        calls = record_calls(call)
    assert {kind for each in calls for kind in each.dtypes} == {"float32"}
    assert torch.equal(*found)


def test_what_the_counter_of_torch_ignores() -> None:
    """Attention on the CPU, and products with vectors; a multiplication and an addition per pair of elements."""
    query, key = torch.randn(2, 4, 10, 8), torch.randn(2, 4, 6, 8)
    attended = total(lambda: functional.scaled_dot_product_attention(query, key, key))
    assert attended == 2 * 2 * 4 * 10 * 6 * (8 + 8)
    vector, matrix, batch = torch.zeros(4), torch.zeros(3, 4), torch.zeros(2, 3, 4)
    assert total(lambda: torch.dot(vector, vector)) == 2 * 4
    assert total(lambda: torch.mv(matrix, vector)) == 2 * 3 * 4
    assert total(lambda: torch.addmv(torch.zeros(3), matrix, vector)) == 2 * 3 * 4
    assert total(lambda: torch.baddbmm(torch.zeros(2, 3, 5), batch, torch.zeros(2, 4, 5))) == 2 * 2 * 3 * 4 * 5


def test_bytes() -> None:
    """Each input and output counts once; views are free and a lookup reads only its rows."""
    x, table, rows = torch.zeros(4, 8), torch.zeros(1000, 8), torch.zeros(3, dtype=torch.long)

    def moved(call: Callable[[], object]) -> int:
        with torch.no_grad():
            return sum(each.bytes for each in record_calls(call))

    assert moved(lambda: torch.relu(x)) == 2 * 4 * 8 * 4
    assert moved(lambda: x.t()) == 0
    assert moved(lambda: torch.index_select(table, 0, rows)) == 2 * 3 * 8 * 4 + 3 * 8


def test_unknown_products_are_named() -> None:
    """A product without a formula is named instead of counting as 0."""
    x = torch.randn(3, 4)
    with torch.no_grad():
        found = sum_flops(record_calls(lambda: torch.addr(torch.zeros(3, 4), x[:, 0], x[0])))
    assert found.missing == ("aten::addr",)
