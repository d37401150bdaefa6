"""Count the operations and bytes of a pass, and find what an operator of a profile costs."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Callable, Optional

import msgspec

from modelzoo.evidence.kernel_names import base_name, multiplies_nothing, named_precision, operator_class
from modelzoo.evidence.matching import classify
from modelzoo.evidence.observation import Event
from modelzoo.records.evidence import OperatorClass
from modelzoo.records.profile import Flops, Shape


class FlopCountError(RuntimeError):
    """The operations of a pass could not be counted; the message says why, in one line."""


class Call(msgspec.Struct, frozen=True):
    """One operator call.

    ``shapes`` and ``dtypes`` are those of its tensor arguments, the latter in torch's names (``float32``). ``flop`` is
    ``None`` if they are not known: no formula is known for a product, or the operator itself is not known. ``bytes``
    counts each input and output tensor once: the least possible traffic with cold caches.
    """

    name: str
    shapes: tuple[Shape, ...]
    flop: int | None
    bytes: int
    dtypes: tuple[str, ...] = ()


def count_flops(call: Callable[[], object]) -> Flops:
    """Count the operations of one eager pass.

    Args:
        call: one pass; for a compiled or scripted model, a pass of the eager model.

    Raises:
        FlopCountError: the pass failed under observation, for example because this torch cannot intercept operators.
    """
    return sum_flops(record_calls(call))


def sum_flops(calls: Sequence[Call]) -> Flops:
    """Sum the operations and bytes of ``calls``."""
    by_operator: dict[str, int] = defaultdict(int)
    for call in calls:
        if call.flop:
            by_operator[call.name] += call.flop
    missing = tuple(sorted({call.name for call in calls if call.flop is None}))
    return Flops(sum(by_operator.values()), sum(call.bytes for call in calls), dict(by_operator), missing)


def record_calls(call: Callable[[], object]) -> list[Call]:
    """Run ``call`` once and record every operator below autograd, in order.

    Raises:
        FlopCountError: see ``count_flops``.
    """
    try:
        return _record_calls(call)
    except Exception as error:  # any operator of any torch may refuse to be intercepted
        reason = f"operations could not be counted: {type(error).__name__}: {error}".splitlines()[0]
        raise FlopCountError(reason) from error


def _record_calls(call: Callable[[], object]) -> list[Call]:
    from torch.utils._python_dispatch import TorchDispatchMode

    calls: list[Call] = []

    class Recorder(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            kwargs = kwargs or {}
            # In inference mode composite operators (linear, conv2d) are not decomposed: do it here.
            decompose = getattr(func, "decompose", None)
            if decompose is not None and _is_composite(func):
                with self:
                    parts = decompose(*args, **kwargs)
                if parts is not NotImplemented:
                    return parts
            output = func(*args, **kwargs)
            name = str(func.name()).split(".")[0] if hasattr(func, "name") else str(func)
            tensors = _tensors([args, kwargs])
            calls.append(
                Call(
                    name=name,
                    shapes=tuple(tuple(x.shape) for x in tensors),
                    flop=_flop(name, args, output),
                    bytes=_bytes_moved(name, args, kwargs, output),
                    dtypes=tuple(str(x.dtype).removeprefix("torch.") for x in tensors),
                )
            )
            return output

    with Recorder():
        call()
    return calls


def _is_composite(func: Any) -> bool:
    import torch

    # An operator with a kernel for the CPU key runs as it is.
    has_kernel = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
    if has_kernel is None:
        return False
    name = func.name()
    return bool(has_kernel(name, "CompositeImplicitAutograd")) and not has_kernel(name, "CPU")


def _tensors(value: Any) -> list[Any]:
    """Tensors in nested lists, tuples and dicts, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors(each)]
    return []


_VIEWS = re.compile(
    r"::(view\w*|_unsafe_view|_reshape_alias|t|transpose|permute|expand|slice|select|as_strided_?|squeeze|"
    r"unsqueeze|detach|alias|split\w*|unbind|narrow|chunk|empty\w*|new_empty\w*|lift_fresh|unfold)$"
)
_LOOKUPS = re.compile(r"::(embedding|index|index_select|gather)$")


def _bytes_moved(name: str, args: Any, kwargs: Any, output: Any) -> int:
    """Bytes read and written: none for views; a lookup reads only the rows that it returns."""
    if _VIEWS.search(name):
        return 0
    written = sum(map(_size, _tensors(output)))
    inputs = _tensors([args, kwargs])
    if _LOOKUPS.search(name):
        return 2 * written + sum(map(_size, inputs[1:]))
    return written + sum(map(_size, inputs))


def _size(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())


def _flop(name: str, args: Sequence[Any], output: Any) -> int | None:
    """Operations of one call: 0 for operators that are known not to be products, ``None`` if they are not known."""
    kind = operator_class(name)
    if kind is None:
        return 0 if multiplies_nothing(name) else None
    base = base_name(name)
    shapes = [tuple(map(int, x.shape)) if hasattr(x, "shape") else () for x in args]
    found = product_flop(name, shapes)
    if found is not None:
        return found
    written = tuple(map(int, output.shape)) if hasattr(output, "shape") else ()
    if base in _CONVOLUTIONS:
        is_transposed = base != "mkldnn_convolution" and len(args) > 6 and bool(args[6])
        # Each output (or, if transposed, each input) is multiplied by one filter: in channels × kernel.
        positions = shapes[0] if is_transposed else written
        return 2 * math.prod(positions) * math.prod(shapes[1][1:])
    is_product = kind in (OperatorClass.LINEAR, OperatorClass.MATMUL)
    if is_product and (base in _PACKED or named_precision(name)) and shapes and shapes[0] and written:
        return 2 * math.prod(shapes[0]) * written[-1]  # the weights are packed; their size is that of a row of both
    return None


def product_flop(name: str, shapes: Sequence[Shape]) -> int | None:
    """Return the operations of a product from the shapes of its arguments, () for those that are no tensors.

    Returns:
        ``None`` if these do not show them: a convolution's also depend on its strides.
    """
    base = base_name(name).removesuffix("_")
    places = _PRODUCT_OPERANDS.get(base, ())
    if places and len(shapes) > max(places) and shapes[places[1]]:
        left, right = (shapes[index] for index in places)
        return 2 * math.prod(left) * right[-1]
    if base in _VECTOR_OPERAND and len(shapes) > _VECTOR_OPERAND[base]:
        return 2 * math.prod(shapes[_VECTOR_OPERAND[base]])
    if base == "_mkl_linear" and len(shapes) > 2 and len(shapes[2]) == 2:
        return 2 * math.prod(shapes[0]) * shapes[2][0]  # (input, packed weights, weights (out, in), …)
    if "scaled_dot_product" in base and len(shapes) >= 3 and all(shapes[:3]):
        return _attention_flop(*shapes[:3])
    return None


_PRODUCT_OPERANDS = {
    "mm": (0, 1),
    "bmm": (0, 1),
    "addmm": (1, 2),
    "addbmm": (1, 2),
    "baddbmm": (1, 2),
    "_addmm_activation": (1, 2),
}
"""The arguments that are multiplied."""
_VECTOR_OPERAND = {"mv": 0, "dot": 0, "vdot": 0, "addmv": 1}
"""The argument that is multiplied by a vector, element by element."""
_PACKED = ("mkldnn_linear",)
"""Layers whose weights may be packed, besides the quantized ones."""
_CONVOLUTIONS = ("convolution", "_convolution", "mkldnn_convolution", "convolution_overrideable")


def _attention_flop(query: Shape, key: Shape, value: Shape) -> int:
    """Q·Kᵀ and P·V, as in ``torch.utils.flop_counter.sdpa_flop_count``; a causal mask does not reduce the count."""
    return 2 * math.prod(query[:-2]) * query[-2] * key[-2] * (query[-1] + value[-1])


Operator = tuple[str, tuple[Shape, ...]]
"""Name and shapes."""
Cost = tuple[Optional[int], int]
"""Operations (``None``: no formula is known) and bytes of one call."""


class CostTable:
    """Operations and bytes by operator and shapes, from the recorded calls."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._exact: dict[Operator, Cost] = {}
        self._by_class: dict[tuple[OperatorClass, tuple[Shape, ...]], Cost] = {}
        self._dtypes: dict[tuple[OperatorClass, tuple[Shape, ...]], set[tuple[str, ...]]] = defaultdict(set)
        # The profiler sees the operator of the kernel (mkldnn_convolution), the recorder the one above it.
        for call, kind in zip(calls, classify([Event(call.name, 0.0, -1) for call in calls])):
            cost = (call.flop, call.bytes)
            self._exact[call.name, call.shapes] = _least(self._exact.get((call.name, call.shapes)), cost)
            if kind is not None:
                self._by_class[kind, call.shapes[:2]] = _least(self._by_class.get((kind, call.shapes[:2])), cost)
                self._dtypes[kind, call.shapes[:2]].add(call.dtypes)

    def find(self, name: str, kind: OperatorClass | None, shapes: tuple[Shape, ...]) -> Cost | None:
        exact = self._exact.get((name, shapes))
        if kind is None:
            # An operator that only calls a product performs no operations itself.
            return None if exact and exact[0] else exact
        cost = exact or self._by_class.get((kind, shapes[:2]))
        return cost if cost and cost[0] else None

    def dtypes(self, event: Event, kind: OperatorClass) -> tuple[str, ...]:
        """The data types of an operator's tensors in the profiler's words, empty if they are not known for certain."""
        found = self._dtypes.get((kind, tensor_shapes(event)[:2]), set())
        return tuple(_PROFILER_NAMES.get(name, name) for name in next(iter(found))) if len(found) == 1 else ()


_PROFILER_NAMES = {
    "float32": "float",
    "float64": "double",
    "bfloat16": "c10::BFloat16",
    "float16": "c10::Half",
    "int8": "signed char",
    "uint8": "unsigned char",
    "qint8": "c10::qint8",
    "quint8": "c10::quint8",
    "float8_e4m3fn": "c10::Float8_e4m3fn",
    "float8_e5m2": "c10::Float8_e5m2",
}


def _least(known: Cost | None, cost: Cost) -> Cost:
    """The cheaper one: convolutions of the same shapes differ in their strides, which are no shapes."""
    return cost if known is None or (cost[0] or 0) < (known[0] or 0) else known


def tensor_shapes(event: Event) -> tuple[Shape, ...]:
    """The shapes of an event's arguments, without those that are no tensors."""
    return tuple(shape for shape in event.shapes if shape)
