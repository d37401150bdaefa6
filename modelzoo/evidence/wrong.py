"""Outputs that no precision explains: what a product may be off by at most, and where it is off by more.

Let u be the unit roundoff of the coarsest precision in play: that of the operands, of the output, of the kernel
according to its log, the one that was asked for, and the one that the error of all outputs together shows, unless a
few of them make up most of it. Of an output that is a sum of n products, A·B, let |A|·|B| be the same sum of absolute
values. Then its error is at most

    ((1 + u)⁴ · (1 + γ) - 1) · |A|·|B|,    γ = n·v / (1 - n·v),    v = 2⁻²⁴

because rounding to nearest multiplies a number by 1 + δ with |δ| ≤ u, and there are up to four roundings to the
coarsest precision: of both operands of a product, of the sum, and once more where a bias or another addend follows.
The sum itself is accumulated in fp32, in any order, at the cost of a factor of 1 + γ (N. J. Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., SIAM 2002: Theorem 2.2 for one rounding, equation 3.5 for inner products).
For bf16 the bound is 1.6 % of |A|·|B|. It holds for any operands, also for sums that cancel. Accumulation in bf16 or
fp16 is not in play: a kernel that does so exceeds the bound at some length, and is wrong.

Three cases differ:

- Numbers below the smallest normal one, t, lose up to u·t: |a| + t stands for |a|. Of fp16, t is 2⁻¹⁴. Eight-bit
  integers have steps of 1/127 of the largest number: with u = 1/254, half of a step, t is that number.
- Winograd's algorithm in fp32 adds and subtracts numbers that are larger than the terms. Its error is bounded by norms
  (B. Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, ACM
  Transactions on Mathematical Software 46, 2020), for F(4, 3) in two dimensions by (19·10·1)² = 2¹⁵ units; errors seen
  are below 2⁸. ``_WINOGRAD`` = 2¹¹ units are allowed where no log excludes it.
- Attention and LSTM are no sums of products. A bound on a softmax of logits with errors δ, exp(2·max|δ|) - 1, exceeds
  the outputs themselves in bf16. Their errors are compared with the root mean square of the output's row, or with the
  output if that is larger, and may be ``_NON_LINEAR``·u + γ of it. Of noise, such errors have a standard deviation of
  up to u (see ``BF16_BELOW``), so 32 of them are no chance. That is experience, not a theorem.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from modelzoo.evidence.kernel_names import ELEVEN_BITS
from modelzoo.evidence.references import Rule, weight_place
from modelzoo.records.coverage import WrongOutputs
from modelzoo.records.evidence import OperatorClass, Product
from modelzoo.workload.nested import tensors_in

_SINGLE = 2.0**-24
UNITS = {
    "fp64": _SINGLE,
    "fp32": _SINGLE,
    "tf32": 2.0**-11,
    "fp16": 2.0**-11,
    ELEVEN_BITS: 2.0**-11,
    "bf16": 2.0**-8,
    "int8": 1 / 254,
}
"""Unit roundoffs; fp64 counts as fp32, since the exact outputs are no more than fp64 themselves."""
_SMALLEST = {"fp16": 2.0**-14, ELEVEN_BITS: 2.0**-14, "int8": math.inf}
_LARGEST = {"fp16": 65504.0}
_WINOGRAD = 2.0**11
_NON_LINEAR = 32


class Limits(NamedTuple):
    """What is explained.

    Attributes:
        bound: the largest error, relative to the size of an output.
        smallest: what absolute values of operands are raised by; infinite: by the largest of each.
        largest: outputs of this size and more may be infinite.
    """

    bound: float
    smallest: float
    largest: float


def limits_of(product: Product, rule: Rule, args: Sequence[Any], precisions: Iterable[str | None]) -> Limits:
    """Return what explains errors of a product.

    Args:
        product: what was called.
        rule: what is known of its operator.
        args: what it was called with, by position.
        precisions: those in play, at least one; those that are no precision are passed over.
    """
    known = [each for each in precisions if each in UNITS]
    unit = max(UNITS[each] for each in known)
    if not rule.is_linear:
        terms = 2 * max(size for each in tensors_in(list(args)) for size in each.shape)
    elif product.operator_class is OperatorClass.CONV:
        weight = args[weight_place(args)].shape
        terms = math.prod(weight) // max(1, min(weight[:2])) + 1
        kernels = product.kernels or ()
        # Outside oneDNN, no log names an algorithm.
        if any("wino" in each for each in kernels) or (unit == _SINGLE and not kernels):
            unit *= _WINOGRAD
    else:
        terms = args[rule.rows or (rule.factors or (0,))[0]].shape[-1] + 1
    accumulated = terms * _SINGLE / (1 - min(terms * _SINGLE, 0.5))
    return Limits(
        (1 + unit) ** 4 * (1 + accumulated) - 1 if rule.is_linear else _NON_LINEAR * unit + accumulated,
        max(_SMALLEST.get(each, 0.0) for each in known),
        min(_LARGEST.get(each, math.inf) for each in known),
    )


def size_of(rule: Rule, args: Sequence[Any], named: Mapping[str, Any], exact: Any, smallest: float) -> Any:
    """What errors of ``exact`` outputs are compared with.

    Of a sum of products, the same sum of absolute values, raised by ``smallest``; otherwise that of the row, or the
    output if it is larger.
    """
    if not rule.is_linear:
        return exact.pow(2).mean(-1, keepdim=True).sqrt().maximum(exact.abs())

    def absolute(value: Any) -> Any:
        if isinstance(value, float):
            return abs(value)
        if not hasattr(value, "is_floating_point") or not value.is_floating_point():
            return value
        if value.is_mkldnn:
            return absolute(value.to_dense()).to_mkldnn()  # a rule may unpack it in another order
        value = value.abs()
        if not smallest or not value.numel():
            return value
        return value.float() + (smallest if math.isfinite(smallest) else value.max().float())

    factors = {key: abs(each) for key, each in named.items() if key in ("alpha", "beta")}
    size = rule.expected(*map(absolute, args), **{key: absolute(each) for key, each in named.items()} | factors).exact
    return size + smallest if math.isfinite(smallest) else size


def is_spread(samples: Iterable[tuple[Any, Any]]) -> bool:
    """Whether most of the outputs, found and exact, are off by as much as their root mean square error, roughly.

    The median of normal errors is 0.67 of it, that of rounded normal numbers 0.4, and that of a few outliers next to 0.
    """
    import torch

    errors = torch.cat([(found.double() - exact).abs().flatten() for found, exact in samples])
    errors = errors[errors.isfinite()]
    return bool(len(errors)) and bool(4 * errors.median() >= errors.pow(2).mean().sqrt())


def wrong_outputs(samples: Iterable[tuple[Any, Any, Any]], limits: Limits) -> WrongOutputs | None:
    """Return what is wrong with the outputs of some calls; ``None`` if nothing is.

    Args:
        samples: of each call, the outputs found and exact, and the size that an error is compared with; infinite: it is
            not judged.
        limits: what is explained.
    """
    not_finite = off = compared = 0
    excess = 0.0
    for found, exact, size in samples:
        found, judged = found.double(), size.isfinite()
        compared += int(judged.sum())
        is_equal = (found == exact) | (found.isnan() & exact.isnan())
        may_overflow = ~found.isfinite() & (size * (1 + limits.bound) >= limits.largest)
        is_finite = found.isfinite() & exact.isfinite()
        not_finite += int((judged & ~is_finite & ~is_equal & ~may_overflow).sum())
        error, explained = (found - exact).abs(), limits.bound * size
        is_off = judged & is_finite & (error > explained)
        off += int(is_off.sum())
        if is_off.any():
            excess = max(excess, float((error / explained)[is_off].max()))
    if not_finite:
        return WrongOutputs("not finite", not_finite, compared, limits.bound)
    if not off:
        return None
    return WrongOutputs("error", off, compared, limits.bound, excess if math.isfinite(excess) else None)


def wrong_rows(output: Any, row: int, bound: float, *, may_be_lost: bool = False) -> WrongOutputs | None:
    """Return what is wrong with an output (…, rows, columns) if one row of the left operand is NaN; or ``None``.

    It must be in that row of the output, unless it ``may_be_lost``, and in no other.
    """
    is_wrong = output.isnan()
    own = is_wrong.select(-2, row)
    own.fill_(False) if may_be_lost else own.logical_not_()
    spoilt = int(is_wrong.any(-1).sum())
    return WrongOutputs("other row", spoilt, math.prod(output.shape[:-1]), bound) if spoilt else None
