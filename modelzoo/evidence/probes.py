"""Operands that tell precisions apart, and what an error against fp64 shows.

Operands are seeded noise with mean 0. Rounding both of them to a type with unit roundoff u then gives the same relative
error for any number of terms, because terms and errors grow alike; with positive operands, errors would average out.

Products that are subnormal in fp32 tell bf16 instructions from bf16 numbers that were multiplied in fp32: the product
of two bf16 numbers is exact in fp32, so no rounding error tells the two apart. Subnormal products do. Those
of 2**-63 and 2**-64, which are normal in bf16, are 2**-127, below fp32's smallest normal number, 2**-126:

- VDPBF16PS (AVX512_BF16) and TDPBF16PS (AMX-BF16) flush subnormal operands and results to zero, whatever MXCSR says
  (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, descriptions of the two instructions).
- Arm's BFDOT and BFMMLA do likewise while FPCR.EBF is 0. With FEAT_EBF16 and FPCR.EBF = 1 they follow FPCR.FZ and FIZ,
  and BFMLALB and BFMLALT always do (Arm Architecture Reference Manual for A-profile, DDI 0487: BFDotAdd and BFMulH in
  the shared pseudocode, FPCR.EBF in the system registers).
- fp32 instructions keep them unless the process switched to flushing (``torch.set_flush_denormal``).

So outputs of exactly zero show that flushing bf16 instructions ran. Sums that are kept show on x86 that none did, since
all of x86's flush, and so on any CPU without bf16 instructions; on other Arm CPUs they show nothing.

Sums must be normal, because an output may be converted to bf16 by an instruction that flushes, too (VCVTNEPS2BF16).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from modelzoo.evidence.canary import BF16_BELOW, BF16_FROM, FP32_BELOW
from modelzoo.evidence.kernel_names import COARSE, ELEVEN_BITS
from modelzoo.machine.facts import read_machine
from modelzoo.records.evidence import OperatorClass, Subnormals
from modelzoo.workload.nested import tensors_in

if TYPE_CHECKING:
    from modelzoo.evidence.references import Rule
    from modelzoo.evidence.replay import Distinct

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
FEWEST_OUTPUTS = 32
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


_LARGEST = -127
"""The exponent of the largest power of two that is subnormal in fp32, and in bf16."""
_ROUNDING = 2.0**-6
"""A kept sum of equal numbers may be off by so much: it is rounded to 8 significant bits, once or a few times."""
_LOG_WEIGHT = 10 * math.log(2)
"""By how much the score of a key that weighs 1 in attention exceeds those of the others, which weigh 2**-10."""
_VALUE = 2.0**-118
"""The values of these keys: weighted, they are 2**-128."""


def subnormals_of(distinct: Distinct, rule: Rule) -> Subnormals | None:
    """Return what becomes of subnormal products; ``None`` if that cannot be told.

    It cannot of LSTM, whose gates stand between its products, of weights that are packed, and on accelerators.

    Args:
        distinct: what is called.
        rule: what is known of its operator.
    """
    args, named = distinct.args, distinct.named
    if not fp32_keeps() or any(isinstance(each, Operand) and each.device != "cpu" for each in args):
        return None
    if distinct.product.operator_class is OperatorClass.ATTENTION:
        is_masked = named.get("attn_mask") is not None
        is_shared = len({id(each) for each in args[:3]}) < 3
        return None if is_masked or is_shared else _of_attention(distinct, rule)
    operands = [args[n] for n in rule.factors]
    if not operands or named.get("use_gelu") or not all(isinstance(each, Operand) for each in operands):
        return None

    def constant(*values: float) -> tuple[list[Any], dict[str, Any]]:
        return distinct.filled({n: noise(0) * 0 + value for n, value in zip(rule.factors, values)})

    ones, ones_named = constant(1.0, 1.0)
    terms = rule.expected(*ones, **ones_named).exact
    is_sum = terms >= 2
    least = float(terms[is_sum].min()) if is_sum.any() else 0.0
    factors = factors_of(least, is_square=operands[0] is operands[1])
    if factors is None:
        return None
    tiny, tiny_named = constant(*factors)
    expected = rule.expected(*tiny, **tiny_named)
    output = distinct.run(tiny, tiny_named)

    def control() -> Any:
        normal = distinct.run(ones, ones_named)
        return None if normal is None else expected.sample(normal)[is_sum].double() * math.prod(factors)

    return None if output is None else seen(expected.sample(output)[is_sum], expected.exact[is_sum], control)


def _of_attention(distinct: Distinct, rule: Rule) -> Subnormals | None:
    """Of the products of weights and values, where all queries may see the first key.

    The first key has all of the weight but 2**-10 for each of the others, and no value. Kernels divide by the sum of
    the weights only at the end, so equal weights would be 1 while they are multiplied.
    """
    args, named = distinct.filled({})
    query, key, value = args[:3]
    query.fill_(1.0)
    key.zero_()
    key[..., 0, :] = _LOG_WEIGHT / query.shape[-1] / (named.get("scale") or 1 / math.sqrt(query.shape[-1]))
    value.fill_(_VALUE)
    value[..., 0, :] = 0.0
    expected, output = rule.expected(*args, **named), distinct.run(args, named)
    is_normal = expected.exact >= 2.0**-125
    if output is None or not is_normal.any():
        return None
    return seen(expected.sample(output)[is_normal], expected.exact[is_normal])


def factors_of(terms: float, *, is_square: bool = False) -> tuple[float, float] | None:
    """Return two powers of two whose product is subnormal, while a sum of ``terms`` such products is normal.

    A product 2**e needs e <= -127, and its sum terms * 2**e >= 2**-126, so at least two terms. Many terms allow for an
    e so small that sums of an eighth of them are subnormal, too: an instruction may add some before it flushes.

    Args:
        terms: the number of products that are added up in an output.
        is_square: whether both factors are the same tensor, so that they must be equal.

    Returns:
        ``None`` if there are too few terms.
    """
    if terms < 2:
        return None
    exponent = min(_LARGEST, 2 - 126 - math.floor(math.log2(terms)))
    exponent -= exponent % 2 if is_square else 0
    if terms * 2.0**exponent < 2.0**-126:
        return None
    return 2.0 ** (exponent // 2), 2.0 ** (exponent - exponent // 2)


def seen(found: Any, exact: Any, control: Callable[[], Any] = lambda: None) -> Subnormals:
    """Return what became of subnormal products.

    Args:
        found: outputs that are sums of them.
        exact: the same sums, all of them normal numbers.
        control: returns what ``found`` would be if nothing was flushed, ``None`` if that is not known: a kernel that
            accumulates in bf16 comes to less than ``exact``, with normal products, too.
    """
    if not found.any():
        return Subnormals.FLUSHED
    for expected in (exact, control()):
        if expected is not None and ((found.double() / expected - 1).abs() <= _ROUNDING).all():
            return Subnormals.IN_FP32 if every_bf16_instruction_flushes() else Subnormals.KEPT
    return Subnormals.MIXED


def fp32_keeps() -> bool:
    """Return whether fp32 arithmetic keeps subnormal numbers in this process, on all threads of torch."""
    import torch

    products = torch.full((1 << 18,), 2.0**-63) * 2.0**-64
    return bool((products * 2.0**10 == 2.0**-117).all())


@cache
def every_bf16_instruction_flushes() -> bool:
    """Return whether this CPU has no bf16 instruction that keeps subnormal products: x86, or one without any."""
    machine = read_machine()
    return machine.architecture == "x86_64" or not machine.has_bf16
