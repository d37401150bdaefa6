"""Operations and bytes of one pass, call by call."""

from __future__ import annotations

from typing import Callable

import pytest

from modelzoo.evidence.flops import FlopCountError, count_flops, record_calls


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
    """Attention on the CPU, which torch's counter ignores: 2·b·h·q·k·(d + d_v)."""
    import torch
    from torch.nn import functional

    query, key = torch.randn(2, 4, 10, 8), torch.randn(2, 4, 6, 8)
    with torch.no_grad():
        found = count_flops(lambda: functional.scaled_dot_product_attention(query, key, key))
    assert found.total == 2 * 2 * 4 * 10 * 6 * (8 + 8)


def test_bytes() -> None:
    """Each input and output counts once; views are free and a lookup reads only its rows."""
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
    """A product without a formula is named instead of counting as 0."""
    import torch

    x = torch.randn(3, 4)
    with torch.no_grad():
        found = count_flops(lambda: torch.addr(torch.zeros(3, 4), x[:, 0], x[0]))
    assert found.missing == ("aten::addr",)


def test_a_pass_that_cannot_be_counted_says_why() -> None:
    """The error names the cause in one line, so that a run without operations can report it."""

    def broken() -> None:
        raise NotImplementedError("no kernel for this\nwith a long explanation")

    with pytest.raises(FlopCountError) as caught:
        count_flops(broken)
    assert str(caught.value) == "operations could not be counted: NotImplementedError: no kernel for this"
    assert isinstance(caught.value.__cause__, NotImplementedError)


def test_products_with_vectors_and_batches() -> None:
    """A multiplication and an addition per pair of elements."""
    import torch

    vector, matrix, batch = torch.zeros(4), torch.zeros(3, 4), torch.zeros(2, 3, 4)

    def total(call: Callable[[], object]) -> int:
        with torch.no_grad():
            return count_flops(call).total

    assert total(lambda: torch.dot(vector, vector)) == 2 * 4
    assert total(lambda: torch.mv(matrix, vector)) == 2 * 3 * 4
    assert total(lambda: torch.addmv(torch.zeros(3), matrix, vector)) == 2 * 3 * 4
    assert total(lambda: torch.baddbmm(torch.zeros(2, 3, 5), batch, torch.zeros(2, 4, 5))) == 2 * 2 * 3 * 4 * 5
