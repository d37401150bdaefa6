from __future__ import annotations

import pytest

from modelzoo.evidence.flops import count_flops, record_calls


@pytest.mark.parametrize("inference", [False, True])
def test_as_torch_counts(inference: bool) -> None:
    """Convolutions (grouped, strided, transposed), Linear and matrix products agree with torch's own counter."""
    torch = pytest.importorskip("torch")
    counter = pytest.importorskip("torch.utils.flop_counter")
    from torch import nn

    model = nn.Sequential(
        nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=4),
        nn.ConvTranspose2d(16, 8, 2, stride=2),
        nn.Flatten(2),
        nn.Linear(256, 32),
    ).eval()
    x = torch.randn(2, 8, 16, 16)

    def call() -> None:
        with torch.inference_mode() if inference else torch.no_grad():
            y = model(x)
            y @ y.transpose(1, 2)

    with counter.FlopCounterMode(display=False) as reference:
        call()
    found = count_flops(call)
    assert found.total == reference.get_total_flops() > 0
    assert found.missing == ()
    assert "aten::convolution" in found.by_operator


def test_attention_is_counted() -> None:
    """Attention on the CPU, which torch's counter passes over: 2·b·h·q·k·(d + d_v)."""
    import torch
    from torch.nn import functional

    if not hasattr(functional, "scaled_dot_product_attention"):
        pytest.skip("torch before 2.0 has no such operator: attention is plain matrix products there")
    query, key = torch.randn(2, 4, 10, 8), torch.randn(2, 4, 6, 8)
    with torch.no_grad():
        found = count_flops(lambda: functional.scaled_dot_product_attention(query, key, key))
    assert found.total == 2 * 2 * 4 * 10 * 6 * (8 + 8)


def test_bytes() -> None:
    """Each input and output once; views are free and a look-up reads only its rows."""
    import torch

    x, table = torch.zeros(4, 8), torch.zeros(1000, 8)

    def moved(call: object) -> int:
        with torch.no_grad():
            return sum(each.bytes for each in record_calls(call))  # type: ignore[arg-type]

    assert moved(lambda: torch.relu(x)) == 2 * 4 * 8 * 4
    assert moved(lambda: x.t()) == 0
    rows = torch.zeros(3, dtype=torch.long)
    assert moved(lambda: torch.index_select(table, 0, rows)) == 2 * 3 * 8 * 4 + 3 * 8


def test_unknown_products_are_named() -> None:
    """A product without a formula is told, not counted as nothing."""
    import torch

    x = torch.randn(3, 4)
    with torch.no_grad():
        found = count_flops(lambda: torch.addr(torch.zeros(3, 4), x[:, 0], x[0]))
    assert found.missing == ("aten::addr",)
