"""Ask every product of a pass for its precision: call it again, at its own shape, and compare it with fp64.

Implementations are chosen by shape, groups, strides, format and type, so one product says nothing about another. Each
distinct one is called again after the last sample, under the same switches, with operands that tell precisions apart
(``modelzoo.evidence.probes``). The call counts only if the libraries log the same kernels for it as in the pass.
Weights that only an operator can read, because they are packed, stay as they are.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from modelzoo.evidence.audit import library_logs
from modelzoo.evidence.flops import Call, call_flop, record_calls, tensors_in
from modelzoo.evidence.kernel_names import named_precision, operator_class
from modelzoo.evidence.observation import LoggedCall, Replays, logged_call
from modelzoo.evidence.precision import precision_of
from modelzoo.evidence.probes import (
    VANISHED,
    Operand,
    fill,
    noise,
    relative_error,
    repetitions,
    shown_precision,
)
from modelzoo.evidence.profiler import Written
from modelzoo.evidence.provenance import Provenance
from modelzoo.evidence.references import Rule, rule_of
from modelzoo.frozen import replace
from modelzoo.records.evidence import NotReplayed, Product

BUDGET_SECONDS = 6.0
"""How long the products of one pass are called again, at most; the products that do most of the work come first. The
prefill and a step of a generation have half of it each."""
_LEAST_SECONDS = 2.0
_MOST_SECONDS = 9.0
"""With the pass that nobody observes, if it takes up to 7 s: with the last product, which is not interrupted, what is
added to the first process of a setting stays below 10 s."""
_FLOATING = ("fp64", "fp32", "bf16", "fp16")


@dataclass
class _Distinct:
    """A product as it was called: tensors with values of their own are replaced by ``Operand``."""

    product: Product
    operator: Any
    args: Sequence[Any]
    named: Mapping[str, Any]
    logged: LoggedCall | None
    flop: int
    layers: list[str] = field(default_factory=list)
    """Of each call, the innermost module."""


def budget_after(seconds: float, *, emulated: bool = False) -> float:
    """Return how long products may be called again, in seconds, if a pass takes ``seconds``.

    On an emulated processor nothing is timed and a pass may take minutes, so every product is called again.
    """
    return math.inf if emulated else min(BUDGET_SECONDS, max(_LEAST_SECONDS, _MOST_SECONDS - seconds))


def ask_products(
    call: Callable[[], object],
    module: Any = None,
    budget: float = BUDGET_SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[Call], Replays]:
    """Run ``call`` once, then each of its distinct products again.

    Args:
        call: one eager pass.
        module: the ``torch.nn.Module`` that it runs, for the paths of the layers.
        budget: seconds for the products.
        clock: what the budget is measured with.

    Returns:
        All operators of the pass, as ``record_calls`` does, and what the products showed.

    Raises:
        FlopCountError: the operators of the pass cannot be intercepted.
    """
    with library_logs([]) as (written, is_complete):
        with _layers_followed(module) as layers:
            collector, provenance = _Collector(written if is_complete else None, layers), Provenance(module)
            calls = record_calls(call, provenance.following(collector.run))
        began, asked = clock(), {}
        for index in sorted(range(len(collector.found)), key=lambda each: -collector.found[each].flop):
            distinct = collector.found[index]
            product = replace(distinct.product, count=len(distinct.layers), layers=_each_once(distinct.layers))
            if clock() - began < budget:
                asked[index] = _answer(product, distinct, collector.written)
            else:
                asked[index] = replace(product, not_replayed=NotReplayed.BUDGET)
        products = tuple(asked[index] for index in range(len(asked)))
        unread = tuple(each.logged.unread if each.logged is not None else () for each in collector.found)
        return calls, Replays(products, tuple(collector.order), clock() - began, provenance.foreign, unread=unread)


def follow_pass(call: Callable[[], object], module: Any = None) -> tuple[list[Call], Replays]:
    """Run ``call`` once, and find the numbers that operators read although no operator computed them.

    The arguments, what is returned and what is raised are those of ``ask_products``, but no product is called again.
    """
    provenance = Provenance(module)
    calls = record_calls(call, provenance.following())
    return calls, Replays((), (), 0.0, provenance.foreign)


def _each_once(layers: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(layer for layer in layers if layer))


@contextlib.contextmanager
def _layers_followed(module: Any) -> Iterator[list[str]]:
    """Yield the paths of the modules whose forward is running, the innermost last.

    Hooks of all modules are used, because torch calls other operators for some modules that have hooks of their own.
    """
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    paths = {id(each): path for path, each in module.named_modules()} if module is not None else {}
    running: list[str] = []

    def enter(each: Any, args: Any) -> None:
        running.append(paths.get(id(each), ""))

    def leave(each: Any, args: Any, output: Any) -> None:
        running.pop()

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
    try:
        yield running
    finally:
        for handle in handles:
            handle.remove()


class _Collector:
    """Notes the products among the operators that are called, each distinct one once.

    Args:
        written: what the libraries log; ``None`` if they do not.
        running: the paths of the modules whose forward is running.
    """

    def __init__(self, written: Written | None, running: Sequence[str]) -> None:
        self.written = written
        self._running = running
        self.found: list[_Distinct] = []
        self.order: list[int] = []
        self._places: dict[object, int] = {}

    def run(self, name: str, operator: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if operator_class(name) is None:
            return operator(*args, **named)
        begin = self.written.size if self.written is not None else 0
        output = operator(*args, **named)
        logged = logged_call(self.written(begin)) if self.written is not None else None
        rule = rule_of(name)
        kept = rule.kept if rule is not None else ()
        same: dict[int, Any] = {}
        own_args = [_noted(each, position in kept, same) for position, each in enumerate(args)]
        own_named = {key: _noted(each, key in kept, same) for key, each in named.items()}
        # Tensors that stay as they are differ at every call of a layer of its own, and decide nothing but by shape.
        key = (str(operator), _text(own_args), _text(own_named), len(same), logged)
        if key not in self._places:
            self._places[key] = len(self.found)
            product = _product(name, args, named, rule, logged)
            flop = call_flop(name, args, output) or 0
            self.found.append(_Distinct(product, operator, own_args, own_named, logged, flop))
        self.found[self._places[key]].layers.append(next((path for path in reversed(self._running) if path), ""))
        self.order.append(self._places[key])
        return output


def _product(
    name: str, args: Sequence[Any], named: Mapping[str, Any], rule: Rule | None, logged: LoggedCall | None
) -> Product:
    kind = operator_class(name)
    assert kind is not None, "only products are noted"
    factors = [args[each] for each in rule.factors] if rule is not None and rule.factors else tensors_in(list(args))
    types = {precision_of(str(each.dtype).removeprefix("torch.")) or "unknown" for each in factors}
    return Product(
        operator=name,
        operator_class=kind,
        shapes=tuple(tuple(map(int, each.shape)) for each in tensors_in([args, named])),
        operands=named_precision(name) or (types.pop() if len(types) == 1 else "unknown"),
        count=0,
        kernels=logged.kernels if logged is not None else None,
        logged=logged.precision if logged is not None else None,
    )


def _noted(value: Any, stays: bool, same: dict[int, Any]) -> Any:
    """``value``, or what a tensor with values of its own is like.

    A tensor that is an argument twice stays one, because an operator may ask whether it is: ``same`` has those of one
    call by their identity.
    """
    if stays or not _is_plain(value):
        return value
    if not value.is_floating_point() or value.device.type != "cpu":
        return value
    shape, strides = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
    return same.setdefault(id(value), Operand(shape, strides, value.dtype, value.data_ptr() % 64))


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


def _answer(product: Product, distinct: _Distinct, written: Written | None) -> Product:
    """``product`` with what its error shows, or with the reason why there is none."""
    rule = rule_of(product.operator)
    if named_precision(product.operator) or product.operands not in _FLOATING:
        return replace(product, not_replayed=NotReplayed.NOT_FLOATING)
    if rule is None:
        return replace(product, not_replayed=NotReplayed.NO_REFERENCE)
    try:
        return _replayed(product, distinct, rule, written)
    except Exception as error:  # any operator may refuse what it is called with, each with an error of its own
        detail = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return replace(product, not_replayed=NotReplayed.FAILED, detail=detail)


def _replayed(product: Product, distinct: _Distinct, rule: Rule, written: Written | None) -> Product:
    scales = rule.scales(*distinct.args, **distinct.named)
    samples: list[tuple[Any, Any]] = []
    while not samples or len(samples) < repetitions(samples[0][1].numel()):
        seed = len(samples) * (len(distinct.args) + len(distinct.named))
        blocks = {n: noise(seed + n) * scales.get(n, 1) for n in range(len(distinct.args) + len(distinct.named))}
        sample = _called(distinct, rule, blocks, written)
        if sample is None:
            return replace(product, not_replayed=NotReplayed.OTHER_KERNELS)
        samples.append(sample)
    error = relative_error(samples)

    def loses(first: Any, second: Any) -> bool | None:
        if not rule.factors:
            return None
        both = ((first, second), (second, first))
        return any(_error_of(distinct, rule, dict(zip(rule.factors, blocks))) > VANISHED for blocks in both)

    return replace(product, error=error if math.isfinite(error) else None, shown=shown_precision(error, loses))


def _error_of(distinct: _Distinct, rule: Rule, blocks: Mapping[int, Any]) -> float:
    """The error with these operands, and with zeros in all others."""
    sample = _called(distinct, rule, blocks, None)
    assert sample is not None, "without a log nothing is compared"
    return relative_error([sample])


def _called(
    distinct: _Distinct, rule: Rule, blocks: Mapping[int, Any], written: Written | None
) -> tuple[Any, Any] | None:
    """Call the product with operands of these blocks, by position; named ones come after the others.

    Returns:
        A sample of the outputs, found and exact; ``None`` if other kernels ran than in the pass.
    """
    nothing = noise(0) * 0
    filled: list[Any] = []
    same: dict[int, Any] = {}
    for n, each in enumerate([*distinct.args, *distinct.named.values()]):
        if isinstance(each, Operand) and id(each) not in same:
            same[id(each)] = fill(each, blocks.get(n, nothing))
        filled.append(same.get(id(each), each))
    args, named = filled[: len(distinct.args)], dict(zip(distinct.named, filled[len(distinct.args) :]))
    expected = rule.expected(*args, **named)
    begin = written.size if written is not None else 0
    output = distinct.operator(*args, **named)
    if written is not None and logged_call(written(begin)) != distinct.logged:
        return None
    return expected.sample(output[0] if isinstance(output, (tuple, list)) else output), expected.exact
