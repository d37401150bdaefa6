"""Outputs that no precision explains are wrong, and those that one explains are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from planted_kernels import ROUNDINGS, only, planted, replaced
from torch import nn
from torch.nn import functional

from modelzoo.evidence.wrong import wrong_rows
from modelzoo.records.coverage import Fault, WrongOutputs
from modelzoo.records.evidence import NotReplayed

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def convolution(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A convolution whose output is changed."""
    return lambda *args: change(torch.ops.aten._convolution(*args, False, False, True, True))


def product(change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``mm`` whose output is changed, given the left operand; not in fp64, which references are computed in."""

    def kernel(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        output = torch.ops.aten.addmm(left.new_zeros(1), left, right)
        return output if left.dtype is torch.float64 else change(left, output)

    return kernel


def one_channel(output: torch.Tensor) -> torch.Tensor:
    """The 77th channel of (items, 128, positions) is that of other positions."""
    output[:, 77] = output[:, 77].roll(1, -1)
    return output


def rolled(x: torch.Tensor) -> torch.Tensor:
    return x.roll(1, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("change", [rolled, one_channel], ids=["all channels", "one of 128"])
def test_garbage_is_wrong(change: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
    """As what a convolution of 8 channels a group gave on AMX, and one channel, which a mean over all hides."""
    x, w = torch.randn(1, 128, 49, dtype=dtype), torch.randn(128, 8, 128, dtype=dtype)
    with replaced("convolution", convolution(change)):
        found = only(lambda: functional.conv1d(x, w, padding=64, groups=16)).wrong
    assert found is not None
    assert found.fault == "error"
    assert found.excess is not None
    assert found.excess > 1
    assert found.outputs / found.compared == pytest.approx(1 / 128 if change is one_channel else 1, rel=0.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("sizes", "place", "value", "fault"),
    [
        # Every output channel is compared in some rows; kernels treat what is left of a block of rows apart.
        *(((64, 256, width), (slice(None), width - 33), 0.0, "error") for width in (128, 1000, 5000)),
        *(((501, 64, 128), row, 0.0, "error") for row in (0, -1)),
        # It is no narrow precision: the others show theirs.
        *(((64, 64, 64), (0, 0), value, "not finite") for value in (torch.inf, -torch.inf, torch.nan)),
    ],
)
def test_a_part_of_a_product_that_is_wrong_is_found(
    sizes: tuple[int, int, int], place: Any, value: float, fault: Fault, dtype: torch.dtype
) -> None:
    """One column, the first or the last row, or one number that is not finite."""
    left, right = torch.randn(*sizes[:2], dtype=dtype), torch.randn(*sizes[1:], dtype=dtype)

    def change(left: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        output[place] = value
        return output

    with replaced("mm", product(change)):
        found = only(lambda: left @ right)
    assert found.wrong is not None
    assert (found.wrong.fault, found.not_replayed) == (fault, None)
    assert fault == "error" or found.shown == only(lambda: left @ right).shown


def reads_on(left: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Multiplies by 0 what follows the operand of a row, as on AMX if K is no multiple of 32."""
    output[:-1] += 0 * left[1:, :1]
    return output


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("change", [reads_on, lambda left, output: output.nan_to_num()], ids=["reads on", "lost"])
def test_a_nan_stays_in_its_row(change: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    """It must neither reach another one nor get lost."""
    left, right = torch.randn(64, 33, dtype=dtype), torch.randn(33, 64, dtype=dtype)
    with replaced("mm", product(change)):
        found = only(lambda: left @ right).wrong
    assert found is not None
    assert (found.fault, found.outputs, found.compared) == ("other row", 1, 64)


def test_attention_over_few_keys_may_lose_a_nan_and_not_spread_it() -> None:
    """With AVX-512, softmax takes a row of NaN for one that is masked."""
    output = torch.zeros(2, 10, 4)
    assert wrong_rows(output, 5, 0.1, may_be_lost=True) is None
    assert wrong_rows(output, 5, 0.1) == WrongOutputs("other row", 2, 20, 0.1)
    output[:, 5], output[0, 6] = torch.nan, torch.nan
    assert wrong_rows(output, 5, 0.1, may_be_lost=True) == WrongOutputs("other row", 1, 20, 0.1)


LARGE = 100_000


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_sums_are_not_wrong(dtype: torch.dtype) -> None:
    """Of 100,000 terms, which cancel: an output is 300 times as small as the sum of its absolute values."""
    left, right = torch.randn(4, LARGE, dtype=dtype), torch.randn(LARGE, 8, dtype=dtype)
    found = only(lambda: left @ right)
    assert (found.wrong, found.not_replayed) == (None, None)


def test_sums_beyond_the_range_of_fp16_are_not_wrong() -> None:
    """65,504 is its largest number: what is infinite there is honest."""
    left, right, added = torch.randn(4, 64).half(), torch.randn(64, 8).half(), torch.randn(8).half()
    found = only(lambda: torch.addmm(added, left, right, alpha=1e6))
    assert found.wrong is None
    assert only(lambda: torch.addmm(added, left, right, alpha=1e9)).not_replayed is NotReplayed.NOT_FINITE


def test_a_row_of_attention_that_is_all_masked_is_not_judged() -> None:
    """Its softmax is 0 ÷ 0; torch returns zeros, others NaN."""
    mask = torch.ones(10, 10).tril(-1).bool()
    q = torch.randn(2, 3, 10, 16)
    found = only(lambda: functional.scaled_dot_product_attention(q, q, q, attn_mask=mask))
    assert (found.wrong, found.shown) == (None, "fp32")


def test_a_wrong_head_of_attention_is_found() -> None:
    """Of each head, some rows are compared; attention is no sum of products, and has a bound of its own."""
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

    def kernel(query: Any, key: Any, value: Any, *args: Any, attn_mask: Any = None, scale: Any = None) -> Any:
        logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        output = logits.softmax(-1) @ value
        output[:, 5] = output[:, 4]
        return output, logits.logsumexp(-1)

    q, k, v = (torch.randn(1, 8, 40, 16).bfloat16() for _ in range(3))
    assert only(lambda: operator(q, k, v)).wrong is None
    with replaced("_scaled_dot_product_flash_attention_for_cpu", kernel):
        found = only(lambda: operator(q, k, v)).wrong
    assert found is not None
    assert found.outputs / found.compared == pytest.approx(1 / 8, rel=0.2)


@pytest.mark.parametrize("rounding", ["bf16", "tf32", "fp16", "int8"])
@pytest.mark.parametrize("terms", [1, 512])
def test_a_known_precision_is_not_wrong(rounding: str, terms: int) -> None:
    """A kernel that rounds inside computes in another precision, which is a finding of its own."""
    layer, x = nn.Linear(terms, 300), torch.randn(40, terms)
    with planted("addmm", ROUNDINGS[rounding]):
        found = only(lambda: layer(x))
    assert found.wrong is None
    assert found.shown == rounding
