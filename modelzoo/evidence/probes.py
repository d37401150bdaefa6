"""Operands that tell precisions apart, and what an error against fp64 shows.

Operands are seeded noise with mean 0. Rounding both of them to a type with unit roundoff u then gives the same relative
error for any number of terms, because terms and errors grow alike; with positive operands, errors would average out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from modelzoo.evidence.canary import BF16_BELOW, BF16_FROM, FP32_BELOW
from modelzoo.evidence.precision import COARSE, ELEVEN_BITS
from modelzoo.workload.nested import tensors_in

INT8_BELOW = 2e-2
"""Eight-bit integers have steps of 1/127 of the largest number and errors of up to half of one, 1/√12 root-mean-square:
two operands scaled to 5 standard deviations give 5/127/√12·√2 = 1.6e-2. fp8 with 4 significant bits gives 2.7e-2."""
ERRORS = {
    "fp64": (0.0, FP32_BELOW),
    "fp32": (0.0, FP32_BELOW),
    "tf32": (FP32_BELOW, BF16_FROM),
    "fp16": (FP32_BELOW, BF16_FROM),
    "bf16": (BF16_FROM, BF16_BELOW),
}
"""The errors that show a precision: from, and below."""
VANISHED = 1e-3
"""Relative error of a known answer from which on a part of it is lost; its terms are exact in fp16 and bf16."""
TINY = 2.0**-30
"""Less than fp16's smallest number, 2**-24, and far above that of tf32, which has the exponents of fp32."""
SMALL = 2.0**-10
"""Beside numbers of 1, less than half a step of eight-bit integers, 1/254."""
_SPARSE = 256
"""Of so many numbers, one is 1 and the others are ``SMALL``."""

_BLOCK = 65_537
"""Numbers that are drawn; larger operands repeat them. A prime, so that they repeat in step with no size."""
_FEWEST = 32
"""Outputs that an error is computed from at least; a product with fewer is called several times."""


class Operand(NamedTuple):
    """Shape, strides in elements, data type, device and alignment (address modulo 64) of a tensor with values of its
    own."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    device: str
    alignment: int


def fill(operand: Operand, block: Any) -> Any:
    """Return a tensor like ``operand``, on the CPU, with the numbers of ``block``, a vector, over and over."""
    numbers = block.to(operand.dtype)
    tensor, memory = _empty(operand, "cpu")
    for begin in range(0, len(memory), len(numbers)):
        part = memory[begin : begin + len(numbers)]
        part.copy_(numbers[: len(part)])
    return tensor


def on_device(tensor: Any, operand: Operand) -> Any:
    """Return ``tensor``, which was made like ``operand``, on the device of the latter, with strides and alignment."""
    if tensor.device.type == operand.device:
        return tensor
    moved, memory = _empty(operand, operand.device)
    memory.copy_(tensor.as_strided((len(memory),), (1,)))
    return moved


def _empty(operand: Operand, device: str) -> tuple[Any, Any]:
    """A tensor like ``operand``, and the memory behind it as a vector."""
    import torch

    length = 1 + sum((size - 1) * stride for size, stride in zip(operand.shape, operand.strides))
    length = 0 if 0 in operand.shape else length
    size = operand.dtype.itemsize
    storage = torch.empty(length + 64 // size, dtype=operand.dtype, device=device)
    offset = (operand.alignment - storage.data_ptr()) % 64 // size
    return storage.as_strided(operand.shape, operand.strides, offset), storage[offset : offset + length]


@lru_cache(maxsize=64)
def noise(seed: int) -> Any:
    """A block of normal numbers; the global random state is left unchanged."""
    import torch

    return torch.randn(_BLOCK, generator=torch.Generator().manual_seed(seed))


@lru_cache(maxsize=8)
def signs(seed: int) -> Any:
    """A block of numbers 1 and -1."""
    import torch

    return torch.randint(0, 2, (_BLOCK,), generator=torch.Generator().manual_seed(seed)).float() * 2 - 1


def sparse_signs(seed: int) -> Any:
    """A block of numbers ``SMALL`` and -``SMALL``, among which there are a few of 1 and -1."""
    import torch

    block = signs(seed) * SMALL
    block[torch.arange(0, _BLOCK, _SPARSE)] /= SMALL
    return block


def relative_error(samples: Sequence[tuple[Any, Any]]) -> float:
    """Return the root-mean-square error relative to the root mean square of the exact values.

    Args:
        samples: pairs of found and exact values; positions that are not finite in both are left out.

    Returns:
        NaN if nothing is left, or only one of the two is not finite somewhere.
    """
    errors, whole, count = 0.0, 0.0, 0
    for found, exact in samples:
        both = ~(found.isfinite() | exact.isfinite())
        found, exact = found[~both].double(), exact[~both]
        errors += float((found - exact).pow(2).sum())
        whole += float(exact.pow(2).sum())
        count += found.numel()
    if not count or not math.isfinite(errors):
        return math.nan
    return math.sqrt(errors / whole) if whole else (0.0 if not errors else math.inf)


def kept(output: object) -> list[Any]:
    """Return copies of the tensors of an output, which the next call may overwrite."""
    return [each.clone() for each in tensors_in(output)]


def differ(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Return whether two outputs differ by more than the rounding of fp32, or in their shapes.

    A model can tell that it is observed, and compute in another precision meanwhile.
    """
    return len(first) != len(second) or any(map(_differs, first, second))


def _differs(first: Any, second: Any) -> bool:
    import torch

    if first.shape != second.shape or first.dtype != second.dtype:
        return True
    if torch.equal(first, second):
        return False
    if not first.is_floating_point():
        return True
    different = ~((first == second) | (first.isnan() & second.isnan()))
    return bool(different.any()) and not relative_error([(second, first.double())]) < FP32_BELOW


def repetitions(outputs: int) -> int:
    """How often a product with so many outputs is called, so that its error rests on enough of them."""
    return max(1, -(-_FEWEST // max(outputs, 1)))


def shown_precision(error: float, loses: Callable[[Any, Any], bool | None]) -> str:
    """Return the precision that the error of a product with noise as operands shows.

    Args:
        error: relative root-mean-square error.
        loses: whether a part of a known answer is lost if one of two operands has the first values, and the other the
            second ones; ``None`` if the product has no two operands.
    """
    if error < FP32_BELOW:
        return "fp32"
    if error < BF16_FROM:
        return _ELEVEN_BITS[loses(signs(0) * TINY, signs(1))]
    if error < BF16_BELOW:
        return "bf16"
    return "int8" if error < INT8_BELOW and loses(sparse_signs(0), signs(1)) else COARSE


_ELEVEN_BITS = {True: "fp16", False: "tf32", None: ELEVEN_BITS}
"""What has 11 significant bits, by whether it loses numbers that are too small for fp16."""
