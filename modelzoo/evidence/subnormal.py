"""Tell bf16 instructions from bf16 numbers that were multiplied in fp32, by products that are subnormal in fp32.

The product of two bf16 numbers is exact in fp32, so no rounding error tells the two apart. Subnormal products do. Those
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
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from modelzoo.evidence.probes import Operand, noise
from modelzoo.evidence.references import Rule
from modelzoo.machine.facts import read_machine
from modelzoo.records.evidence import OperatorClass, Product, Subnormals

_LARGEST = -127
"""The exponent of the largest power of two that is subnormal in fp32, and in bf16."""
_ROUNDING = 2.0**-6
"""A kept sum of equal numbers may be off by so much: it is rounded to 8 significant bits, once or a few times."""
_LOG_WEIGHT = 10 * math.log(2)
"""By how much the score of a key that weighs 1 in attention exceeds those of the others, which weigh 2**-10."""
_VALUE = 2.0**-118
"""The values of these keys: weighted, they are 2**-128."""


Filled = Callable[[Mapping[int, Any]], tuple[list[Any], dict[str, Any]]]
"""Fills a product's operands with blocks of numbers, by position, and others with zeros; returns its arguments."""
Run = Callable[[Sequence[Any], Mapping[str, Any]], Any]
"""Calls a product as in the pass; returns the output, ``None`` if other kernels ran."""


def subnormals_of(
    product: Product, rule: Rule, args: Sequence[Any], named: Mapping[str, Any], *, filled: Filled, run: Run
) -> Subnormals | None:
    """Return what becomes of subnormal products; ``None`` if that cannot be told.

    It cannot of LSTM, whose gates stand between its products, of weights that are packed, and on accelerators.

    Args:
        product: what is called.
        rule: what is known of its operator.
        args: the arguments, in which an ``Operand`` stands for each tensor with values of its own.
        named: likewise, by name.
        filled: see ``Filled``.
        run: see ``Run``.
    """
    if not fp32_keeps() or any(isinstance(each, Operand) and each.device != "cpu" for each in args):
        return None
    if product.operator_class is OperatorClass.ATTENTION:
        is_masked = named.get("attn_mask") is not None
        is_shared = len({id(each) for each in args[:3]}) < 3
        return None if is_masked or is_shared else _of_attention(rule, *filled({}), run=run)
    operands = [args[n] for n in rule.factors]
    if not operands or named.get("use_gelu") or not all(isinstance(each, Operand) for each in operands):
        return None

    def constant(*values: float) -> tuple[list[Any], dict[str, Any]]:
        return filled({n: noise(0) * 0 + value for n, value in zip(rule.factors, values)})

    ones, ones_named = constant(1.0, 1.0)
    terms = rule.expected(*ones, **ones_named).exact
    is_sum = terms >= 2
    least = float(terms[is_sum].min()) if is_sum.any() else 0.0
    factors = factors_of(least, is_square=operands[0] is operands[1])
    if factors is None:
        return None
    tiny, tiny_named = constant(*factors)
    expected = rule.expected(*tiny, **tiny_named)
    output = run(tiny, tiny_named)

    def control() -> Any:
        normal = run(ones, ones_named)
        return None if normal is None else expected.sample(normal)[is_sum].double() * math.prod(factors)

    return None if output is None else seen(expected.sample(output)[is_sum], expected.exact[is_sum], control)


def _of_attention(rule: Rule, args: Sequence[Any], named: Mapping[str, Any], *, run: Run) -> Subnormals | None:
    """Of the products of weights and values, where all queries may see the first key.

    The first key has all of the weight but 2**-10 for each of the others, and no value. Kernels divide by the sum of
    the weights only at the end, so equal weights would be 1 while they are multiplied.
    """
    query, key, value = args[:3]
    query.fill_(1.0)
    key.zero_()
    key[..., 0, :] = _LOG_WEIGHT / query.shape[-1] / (named.get("scale") or 1 / math.sqrt(query.shape[-1]))
    value.fill_(_VALUE)
    value[..., 0, :] = 0.0
    expected, output = rule.expected(*args, **named), run(args, named)
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
