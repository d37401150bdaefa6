"""Ask every product of a pass for its precision: call it again, at its own shape, and compare it with fp64.

Implementations are chosen by shape, groups, strides, format and type, so one product says nothing about another. Each
distinct one is called again after the last sample, under the same switches, with operands that tell precisions apart
(``modelzoo.evidence.probes``). The call counts only if the libraries log the same kernels for it as in the pass.
Weights that only an operator can read, because they are packed, stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

from modelzoo.errors import first_line
from modelzoo.evidence.audit import Written
from modelzoo.evidence.flops import call_flop, dtype_name
from modelzoo.evidence.kernel_names import named_precision, operator_class, precision_of
from modelzoo.evidence.logs import LoggedCall, logged_call, parse_mkl, parse_onednn
from modelzoo.evidence.probes import (
    FEWEST_OUTPUTS,
    VANISHED,
    Operand,
    fill,
    noise,
    on_device,
    relative_error,
    shown_precision,
    subnormals_of,
)
from modelzoo.evidence.references import Rule, rule_of
from modelzoo.evidence.wrong import Limits, is_spread, limits_of, size_of, wrong_outputs, wrong_rows
from modelzoo.frozen import replace
from modelzoo.records.coverage import Argument, ProductCall, WrongOutputs
from modelzoo.records.evidence import NotReplayed, OperatorClass, Product
from modelzoo.workload.nested import tensors_in

VECTOR = 16
"""Numbers in fp32 in the longest vector of x86."""
BUDGET_SECONDS = 6.0
"""How long the products of one pass are called again, at most; the products that do most of the work come first."""
_LEAST_SECONDS = 2.0
_MOST_SECONDS = 9.0
"""With the pass that nobody observes, if it takes up to 7 s: with the last product, which is not interrupted, what is
added to the first process of a setting stays below 10 s."""
_FLOATING = ("fp64", "fp32", "bf16", "fp16")


class _Called(NamedTuple):
    """One call of a product: its arguments, and a sample of its outputs, found and exact."""

    args: Sequence[Any]
    named: Mapping[str, Any]
    found: Any
    exact: Any


@dataclass
class Distinct:
    """A product as it was called: tensors with values of their own are replaced by ``Operand``."""

    product: Product
    operator: Any
    args: Sequence[Any]
    named: Mapping[str, Any]
    logged: LoggedCall | None
    flop: int
    written: Written | None
    """What the libraries log; ``None`` if they do not."""
    out: Any
    """What the output is written to, if the caller says so."""
    layers: list[str] = field(default_factory=list)
    """Of each call, the innermost module."""

    def filled(self, blocks: Mapping[int, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments on the CPU, with operands of these blocks, by position; named ones come after the others.

        Operands without a block are zeros.
        """
        nothing = noise(0) * 0
        filled: list[Any] = []
        same: dict[int, Any] = {}
        for n, each in enumerate([*self.args, *self.named.values()]):
            if isinstance(each, Operand) and id(each) not in same:
                same[id(each)] = fill(each, blocks.get(n, nothing))
            filled.append(same[id(each)] if isinstance(each, Operand) else each.cpu() if hasattr(each, "cpu") else each)
        return filled[: len(self.args)], dict(zip(self.named, filled[len(self.args) :]))

    def run(self, args: Sequence[Any], named: Mapping[str, Any], *, by_any_kernel: bool = False) -> Any:
        """The output, on the CPU; ``None`` if other kernels ran than in the pass, unless any may."""
        same: dict[int, Any] = {}

        def placed(given: Any, noted: Any) -> Any:
            """``given`` where it was in the pass; what stays as it was is there."""
            return same.setdefault(id(noted), on_device(given, noted)) if isinstance(noted, Operand) else noted

        args = list(map(placed, args, self.args))
        named = {key: placed(each, self.named[key]) for key, each in named.items()}
        if self.out is not None:
            named[_OUT] = on_device(fill(self.out, noise(0) * 0), self.out)
        begin = self.written.size if self.written is not None else 0
        output = self.operator(*args, **named)
        if self.written is not None and not by_any_kernel:
            text = self.written(begin)
            if logged_call(parse_onednn(text), parse_mkl(text)) != self.logged:
                return None
        return (output[0] if isinstance(output, (tuple, list)) else output).cpu()

    def called(self, rule: Rule, blocks: Mapping[int, Any], *, by_any_kernel: bool = False) -> _Called | None:
        """Call the product with operands of these blocks, by position; ``None`` as of ``run``."""
        args, named = self.filled(blocks)
        expected = rule.expected(*args, **named)
        output = self.run(args, named, by_any_kernel=by_any_kernel)
        return None if output is None else _Called(args, named, expected.sample(output), expected.exact)


def budget_after(seconds: float, *, emulated: bool = False) -> float:
    """Return how long products may be called again, in seconds, if a pass takes ``seconds``.

    On an emulated processor nothing is timed and a pass may take minutes, so every product is called again.
    """
    return math.inf if emulated else min(BUDGET_SECONDS, max(_LEAST_SECONDS, _MOST_SECONDS - seconds))


def ask_products(collector: Collector, budget: float, asked: str) -> tuple[Product, ...]:
    """Call each distinct product of a pass again, those that do most of the work first.

    Args:
        collector: what was noted in the pass, while the libraries' logs are still on.
        budget: seconds for all of them.
        asked: the precision that was asked for.

    Returns:
        The products with what they showed, in the order of their first calls.
    """
    began, answers = perf_counter(), list(collector.products())
    for index in sorted(range(len(answers)), key=lambda each: -collector.found[each].flop):
        product, distinct = answers[index], collector.found[index]
        rule, detail = rule_of(product.operator), ""
        if perf_counter() - began >= budget:
            reason = NotReplayed.BUDGET
        elif named_precision(product.operator) or product.operands not in _FLOATING:
            reason = NotReplayed.NOT_FLOATING
        elif rule is None:
            reason = NotReplayed.NO_REFERENCE
        else:
            try:
                answers[index] = _replayed(product, distinct, rule, asked)
                continue
            except Exception as error:  # any operator may refuse what it is called with, each with an error of its own
                reason, detail = NotReplayed.FAILED, first_line(error)
        answers[index] = replace(product, not_replayed=reason, detail=detail)
    return tuple(answers)


class Collector:
    """Notes the products among the operators that are called, each distinct one once.

    Args:
        written: what the libraries log; ``None`` if they do not.
    """

    def __init__(self, written: Written | None) -> None:
        self.written = written
        self.found: list[Distinct] = []
        self._places: dict[object, int] = {}

    def note(
        self,
        name: str,
        operator: Any,
        args: Sequence[Any],
        named: Mapping[str, Any],
        output: Any,
        logged: LoggedCall,
        layer: str,
    ) -> int:
        """Note one call, during which ``logged`` was printed; return the place of its product in ``found``."""
        known = logged if self.written is not None else None
        rule = rule_of(name)
        kept = rule.kept if rule is not None else ()
        same: dict[int, Any] = {}
        own_args = [_noted(each, position in kept, same) for position, each in enumerate(args)]
        own_named = {key: _noted(each, key in kept, same) for key, each in named.items()}
        out = own_named.pop(_OUT, None)
        # Tensors that stay as they are differ at every call of a layer of its own, and decide nothing but by shape.
        key = (str(operator), _text(own_args), _text(own_named), _text(out), len(same), known)
        if key not in self._places:
            self._places[key] = len(self.found)
            kind = operator_class(name)
            assert kind is not None, "only products are noted"
            factors = [args[each] for each in rule.factors] if rule is not None else tensors_in(list(args))[:2]
            types = {precision_of(dtype_name(each)) or "unknown" for each in factors or tensors_in(list(args))}
            operands = {key: each for key, each in named.items() if key != _OUT}
            product = Product(
                operator=name,
                operator_class=kind,
                shapes=tuple(tuple(map(int, each.shape)) for each in tensors_in([args, operands])),
                operands=named_precision(name) or (types.pop() if len(types) == 1 else "unknown"),
                count=0,
                kernels=known.kernels if known is not None else None,
                logged=known.precision if known is not None else None,
            )
            flop = call_flop(name, args, output) or 0
            self.found.append(Distinct(product, operator, own_args, own_named, known, flop, self.written, out))
        self.found[self._places[key]].layers.append(layer)
        return self._places[key]

    def products(self) -> tuple[Product, ...]:
        """The distinct products, with the number of their calls and their layers."""
        return tuple(
            replace(each.product, count=len(each.layers), layers=tuple(dict.fromkeys(filter(None, each.layers))))
            for each in self.found
        )


_OUT = "out"
"""The argument that an operator writes its output to, in code that ``torch.compile`` made."""


def _noted(value: Any, stays: bool, same: dict[int, Any]) -> Any:
    """``value``, or what a tensor with values of its own is like.

    A tensor that is an argument twice stays one, because an operator may ask whether it is: ``same`` has those of one
    call by their identity.
    """
    if stays or not _is_plain(value) or not value.is_floating_point():
        return value
    shape, strides = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
    operand = Operand(shape, strides, value.dtype, str(value.device), value.data_ptr() % 64)
    return same.setdefault(id(value), operand)


def _is_plain(value: Any) -> bool:
    """Whether it is a tensor of torch's own, with strides."""
    import torch

    return (
        type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided and not value.is_quantized
    )


def _text(value: Any) -> str:
    """A text that is equal for arguments that let an operator choose the same kernel."""
    if isinstance(value, Operand):
        return str(value[:-1])
    if isinstance(value, dict):
        return str({key: _text(each) for key, each in value.items()})
    if isinstance(value, list):
        return str([_text(each) for each in value])
    if hasattr(value, "shape"):
        return f"{type(value).__name__} {tuple(value.shape)} {value.dtype} {value.layout}"
    return repr(value)


def _replayed(product: Product, distinct: Distinct, rule: Rule, asked: str) -> Product:
    scales = rule.scales(*distinct.args, **distinct.named)
    places = len(distinct.args) + len(distinct.named)
    calls: list[_Called] = []
    while not calls or len(calls) * max(calls[0].exact.numel(), 1) < FEWEST_OUTPUTS:
        blocks = {n: noise(len(calls) * places + n) * scales.get(n, 1) for n in range(places)}
        called = distinct.called(rule, blocks)
        if called is None:
            return replace(product, not_replayed=NotReplayed.OTHER_KERNELS)
        calls.append(called)
    finite = [each.found.isfinite() & each.exact.isfinite() for each in calls]
    error = relative_error([(each.found[is_in], each.exact[is_in]) for each, is_in in zip(calls, finite)])

    def loses(first: Any, second: Any) -> bool | None:
        """With zeros in all other operands."""
        if not rule.factors:
            return None
        for blocks in ((first, second), (second, first)):
            called = distinct.called(rule, dict(zip(rule.factors, blocks)), by_any_kernel=True)
            assert called is not None, "kernels are not compared"
            if relative_error([(called.found, called.exact)]) > VANISHED:
                return True
        return False

    shown = None if math.isnan(error) else shown_precision(error, loses)
    output = precision_of(dtype_name(calls[0].found))
    precisions = (product.operands, output, product.logged, asked)

    def judged(*more: str | None) -> tuple[Limits, WrongOutputs | None]:
        limits = limits_of(product, rule, calls[0].args, (*precisions, *more))
        samples = (
            (each.found, each.exact, size_of(rule, each.args, each.named, each.exact, limits.smallest))
            for each in calls
        )
        return limits, wrong_outputs(samples, limits)

    limits, wrong = judged()
    # A precision spoils all outputs alike, a fault some of them.
    if wrong is not None and (2 * wrong.outputs > wrong.compared or is_spread([(c.found, c.exact) for c in calls])):
        if shown == "fp32" and wrong.fault == "error":
            wrong = None  # as in an algorithm of its own, or fp32 emulated by two bf16 numbers
        else:
            limits, wrong = judged(shown)
    wrong = wrong or _spoilt_rows(distinct, rule, limits)
    is_bf16 = "bf16" in (product.operands, shown)
    return replace(
        product,
        error=error if math.isfinite(error) else None,
        shown=shown,
        not_replayed=NotReplayed.NOT_FINITE if shown is None else None,
        subnormals=subnormals_of(distinct, rule) if is_bf16 else None,
        wrong=wrong,
        call=_reproducible(distinct, rule, scales),
    )


def _spoilt_rows(distinct: Distinct, rule: Rule, limits: Limits) -> WrongOutputs | None:
    """What a NaN in one row of the left operand does to other rows, or not to its own; ``None`` if all is right.

    It may be in memory behind the operand of a row (https://github.com/uxlfoundation/oneDNN/issues/5717), as with one
    fully masked row of attention, or a padded batch. Integers by one scale for all rows have no NaN to keep apart.
    """
    if rule.rows is None or not math.isfinite(limits.smallest):
        return None
    left = distinct.args[rule.rows]
    if not isinstance(left, Operand) or len(left.shape) < 2 or left.shape[-2] < 2 or not distinct.named.get("alpha", 1):
        return None
    args, named = distinct.filled({n: noise(n) for n in range(len(distinct.args) + len(distinct.named))})
    row, given = left.shape[-2] // 2, args[rule.rows]
    given.select(-2, row).fill_(math.nan)
    spoilt = given.isnan().any(-1)
    is_alone = sum(each is given for each in (*args, *named.values())) == 1
    if not is_alone or spoilt.sum() != math.prod(left.shape[:-2]) or not spoilt.select(-1, row).all():
        return None  # memory of several rows, or of both operands
    output = distinct.run(args, named)
    # Softmax takes a row without a largest number for one that is masked: with AVX-512, over fewer keys than a vector.
    is_attention, keys = distinct.product.operator_class is OperatorClass.ATTENTION, distinct.product.shapes[1][-2]
    may_be_lost = is_attention and keys < VECTOR
    return None if output is None else wrong_rows(output, row, limits.bound, may_be_lost=may_be_lost)


def _reproducible(distinct: Distinct, rule: Rule, scales: Mapping[int, float]) -> ProductCall | None:
    """How to call the product again with torch alone; ``None`` if that cannot be said, or torch has none in fp64."""
    operands = [each for each in (*distinct.args, *distinct.named.values()) if isinstance(each, Operand)]
    device = operands[0].device.partition(":")[0] if operands else "cpu"
    has_none = device != "cpu" and not rule.factors
    if distinct.product.operator.startswith("modelzoo::") or has_none or (rule.rows is None and not rule.factors):
        return None
    found = []
    for n, (name, each) in enumerate([*(("", each) for each in distinct.args), *distinct.named.items()]):
        if isinstance(each, Operand):
            found.append(Argument(name, None, each.shape, each.strides, dtype_name(each), n, scales.get(n, 1.0)))
        elif _is_plain(each) and name in rule.kept:
            found.append(Argument(name, None, tuple(each.shape), tuple(each.stride()), dtype_name(each)))
        elif each is None or isinstance(each, (bool, int, float, str)):
            found.append(Argument(name, each))
        elif isinstance(each, (list, tuple)) and all(isinstance(one, (bool, int, float)) for one in each):
            found.append(Argument(name, tuple(each)))
        else:
            return None
    return ProductCall(str(distinct.operator), tuple(found), rule.factors, rule.rows, device=device)
