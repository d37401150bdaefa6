"""Count the floating-point operations and the bytes of one forward pass, call by call.

A multiplication and an addition are two operations, as ``torch.utils.flop_counter`` counts. Only products are
counted: convolutions, matrix products, attention. ``torch.utils.flop_counter`` itself is not used: torch
before 2.1 has none, and it passes over attention on the CPU.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable

from modelzoo.evidence.matching import operator_class
from modelzoo.records.profile import Flops, Shape


@dataclass(frozen=True)
class Call:
    """One operator call: ``shapes`` of its tensor arguments; ``flop`` is ``None`` where no formula is known.

    ``bytes`` counts each input and output tensor once: the least traffic there can be from cold caches.
    """

    name: str
    shapes: tuple[Shape, ...]
    flop: int | None
    bytes: int


def count_flops(call: Callable[[], object]) -> Flops:
    """Count one eager pass of ``call``; a compiled or scripted model is counted through its eager one."""
    return total(record_calls(call))


def total(calls: Sequence[Call]) -> Flops:
    by_operator: dict[str, int] = defaultdict(int)
    for call in calls:
        if call.flop:
            by_operator[call.name] += call.flop
    missing = tuple(sorted({call.name for call in calls if call.flop is None}))
    return Flops(sum(by_operator.values()), sum(call.bytes for call in calls), dict(by_operator), missing)


def record_calls(call: Callable[[], object]) -> list[Call]:
    """Run ``call`` once and note every operator below autograd, in order."""
    from torch.utils._python_dispatch import TorchDispatchMode

    calls: list[Call] = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            kwargs = kwargs or {}
            # In inference mode composite operators arrive whole (linear, conv2d): take them apart first.
            decompose = getattr(func, "decompose", None)
            if decompose is not None and _is_composite(func):
                with self:
                    parts = decompose(*args, **kwargs)
                if parts is not NotImplemented:
                    return parts
            output = func(*args, **kwargs)
            name = str(func.name()).split(".")[0] if hasattr(func, "name") else str(func)
            given = [tuple(x.shape) for x in _tensors(list(args) + list(kwargs.values()))]
            calls.append(Call(name, tuple(given), _flop(name, args, output), _moved(name, args, kwargs, output)))
            return output

    with Recorder():
        call()
    return calls


def _is_composite(func: Any) -> bool:
    import torch

    # A kernel for the CPU's own key means that the operator is run as it is.
    has = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
    if has is None:
        return False
    name = func.name()
    return bool(has(name, "CompositeImplicitAutograd")) and not has(name, "CPU")


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
_LOOK_UPS = re.compile(r"::(embedding|index|index_select|gather)$")


def _moved(name: str, args: Any, kwargs: Any, output: Any) -> int:
    """Bytes read and written: none for views; a look-up reads only the rows that it returns."""
    if _VIEWS.search(name):
        return 0
    written = sum(map(_size, _tensors(output)))
    inputs = _tensors([args, kwargs])
    if _LOOK_UPS.search(name):
        return 2 * written + sum(map(_size, inputs[1:]))
    return written + sum(map(_size, inputs))


def _size(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())


def _product(shape: Sequence[int]) -> int:
    result = 1
    for size in shape:
        result *= int(size)
    return result


def _flop(name: str, args: Sequence[Any], output: Any) -> int | None:
    """Operations of one call: 0 for what multiplies no matrices, ``None`` where no formula is known."""
    if not operator_class(name):
        return 0
    plain = name.split("::")[-1]
    shapes = [tuple(x.shape) if hasattr(x, "shape") else None for x in args]
    if plain in ("mm", "bmm") and shapes[0] and shapes[1]:
        return 2 * _product(shapes[0]) * shapes[1][-1]
    if plain in ("addmm", "baddbmm", "_addmm_activation") and shapes[1] and shapes[2]:
        return 2 * _product(shapes[1]) * shapes[2][-1]
    if plain in ("mv", "dot", "vdot", "addmv"):
        matrix = shapes[1] if plain == "addmv" else shapes[0]
        return 2 * _product(matrix or ())
    if plain in ("convolution", "_convolution", "mkldnn_convolution", "convolution_overrideable"):
        transposed = bool(args[6]) if plain != "mkldnn_convolution" and len(args) > 6 else False
        outputs = shapes[0] if transposed else tuple(output.shape)
        # Each output (or, transposed, each input) element meets one filter: channels × kernel of it.
        return 2 * _product(outputs or ()) * _product((shapes[1] or ())[1:])
    if "scaled_dot_product" in plain and all(shapes[:3]):
        query, key, value = (shape or () for shape in shapes[:3])
        # Q·Kᵀ and P·V, as in torch.utils.flop_counter.sdpa_flop_count; a causal mask is not discounted.
        batch = _product(query[:-2])
        return 2 * batch * query[-2] * key[-2] * (query[-1] + value[-1])
    return None
