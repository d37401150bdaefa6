"""Intercept the operators of a pass, and count their operations and bytes."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import msgspec

from modelzoo.evidence.kernel_names import (
    base_name,
    calls_operators,
    multiplies_nothing,
    named_precision,
    operator_class,
    shows_its_operands,
)
from modelzoo.records.evidence import OperatorClass
from modelzoo.records.profile import Flops, Shape
from modelzoo.workload.initialization import temporary_hooks
from modelzoo.workload.nested import tensors_in


class FlopCountError(RuntimeError):
    """The operations of a pass could not be counted; the message says why, in one line."""


class Call(msgspec.Struct, frozen=True):
    """One operator call.

    ``shapes`` and ``dtypes`` are those of its tensor arguments, the latter in torch's names (``float32``). ``flop`` is
    ``None`` if they are not known: no formula is known for a product, or the operator itself is not known. ``bytes``
    counts each input and output tensor once: the least possible traffic with cold caches. ``output`` is the data type
    of the first output; empty if that is no tensor.
    """

    name: str
    shapes: tuple[Shape, ...]
    flop: int | None
    bytes: int
    dtypes: tuple[str, ...] = ()
    output: str = ""


def sum_flops(calls: Sequence[Call]) -> Flops:
    """Sum the operations and bytes of ``calls``."""
    by_operator: dict[str, int] = defaultdict(int)
    for call in calls:
        if call.flop:
            by_operator[call.name] += call.flop
    missing = tuple(sorted({call.name for call in calls if call.flop is None}))
    return Flops(sum(by_operator.values()), sum(call.bytes for call in calls), dict(by_operator), missing)


Run = Callable[[str, Any, Sequence[Any], Mapping[str, Any]], Any]
"""Calls an operator, given its name, itself and its arguments, and returns the output."""


def run_operator(name: str, operator: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    return operator(*args, **named)


def follows_compiled_code() -> bool:
    """Whether this torch intercepts the operators that code made by ``torch.compile`` calls, as from 2.10 on."""
    from torch.utils._python_dispatch import TorchDispatchMode

    return hasattr(TorchDispatchMode, "ignore_compile_internals")


def record_calls(call: Callable[[], object], run: Run = run_operator, device: str = "cpu") -> list[Call]:
    """Run ``call`` once and record every operator below autograd, in order.

    Args:
        call: one pass. Of a compiled model, generated code calls no operator.
        run: calls each operator.
        device: the kind of device that computes it, such as ``cuda``.

    Raises:
        FlopCountError: the pass failed under observation, for example because this torch cannot intercept operators.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    calls: list[Call] = []
    backend = _DISPATCH_KEYS.get(device, device.upper())
    try:
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        autocast_key = getattr(torch._C.DispatchKey, f"Autocast{backend}")
    except AttributeError as error:  # both are torch's own affair
        raise FlopCountError(f"operations could not be counted: {error}") from error

    @cache  # a pass calls the same operators thousands of times
    def is_composite(func: Any) -> bool:
        # An operator with a kernel of the device's own runs as it is.
        return bool(has_kernel(func.name(), "CompositeImplicitAutograd") and not has_kernel(func.name(), backend))

    def key_of_parts(name: str, func: Any, args: Sequence[Any]) -> str | None:
        """The key of an operator's kernel if that only calls other operators; ``None`` if it does more."""
        if is_composite(func):
            return "CompositeImplicitAutograd"
        if not calls_operators(name):
            return None
        keys = (f"NestedTensor{backend}",) if args[0].is_nested else (backend, "CompositeExplicitAutograd")
        return next((key for key in keys if has_kernel(func.name(), key)), None)

    class Recorder(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        is_cast = False

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True  # compiled code runs as it does unobserved, and the operators that it calls are intercepted

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            kwargs = kwargs or {}
            name = str(func.name()).split(".")[0] if hasattr(func, "name") else str(func)
            # In inference mode composite operators (linear, conv2d) are not decomposed: do it here.
            if (key := key_of_parts(name, func, args)) is not None:
                before, self.is_cast = self.is_cast, self.is_cast or has_kernel(func.name(), f"Autocast{backend}")
                # Autocast converts the parts that it would convert, unless it has converted the whole.
                is_inside = is_on[-1] and not self.is_cast
                guard: Any = torch._C._SetExcludeDispatchKeyGuard(autocast_key, False) if is_inside else nullcontext()
                with self, guard:
                    # ``decompose`` prefers decompositions in Python, which call other operators than a pass does (of an
                    # LSTM, oneDNN's layer whatever its data type).
                    whole = func._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)
                self.is_cast = before
                return whole
            output = run(name, func, args, kwargs)
            tensors = tensors_in([args, kwargs])
            calls.append(
                Call(
                    name=name,
                    shapes=tuple(tuple(x.shape) for x in tensors),
                    flop=call_flop(name, args, output),
                    bytes=_bytes_moved(name, tensors, output),
                    dtypes=tuple(map(dtype_name, tensors)),
                    output=next(map(dtype_name, tensors_in(output)), ""),
                )
            )
            return output

    if dynamo := sys.modules.get("torch._dynamo"):  # it must not compile this if it is called between a model's graphs
        Recorder.__torch_dispatch__ = dynamo.disable(Recorder.__torch_dispatch__)  # type: ignore[method-assign]
    try:
        with _autocast_followed(autocast_key) as is_on, Recorder():
            call()
    except Exception as error:  # any operator of any torch may refuse to be intercepted
        reason = f"operations could not be counted: {type(error).__name__}: {error}".splitlines()[0]
        raise FlopCountError(reason) from error
    return calls


_DISPATCH_KEYS = {"npu": "PrivateUse1"}
"""torch's dispatch keys of devices, where they are not the device's name in capital letters."""


def dtype_name(tensor: Any) -> str:
    """torch's name of its data type: ``float32``."""
    return str(tensor.dtype).removeprefix("torch.")


@contextmanager
def _autocast_followed(key: Any) -> Iterator[list[bool]]:
    """Yield whether autocast is on, of each of its contexts that are open; the innermost last. ``key`` is its own.

    torch switches it off while an operator is intercepted, so that it cannot be asked then. Graphs that were compiled
    under autocast run without it: what it would convert was converted in the graph.
    """
    import torch

    context, is_excluded = torch.autocast, torch._C._dispatch_tls_is_dispatch_key_excluded
    enter, leave, disable = context.__enter__, context.__exit__, torch._C._DisableAutocast
    is_on = [not is_excluded(key)]

    def entered(self: Any) -> Any:
        found = enter(self)
        is_on.append(not is_excluded(key))
        return found

    def left(self: Any, *error: Any) -> Any:
        is_on.pop()
        return leave(self, *error)

    @contextmanager
    def disabled() -> Iterator[None]:
        with disable():
            is_on.append(False)
            try:
                yield
            finally:
                is_on.pop()

    context.__enter__, context.__exit__, torch._C._DisableAutocast = entered, left, disabled
    try:
        yield is_on
    finally:
        context.__enter__, context.__exit__, torch._C._DisableAutocast = enter, leave, disable


@contextmanager
def layers_followed(module: Any) -> Iterator[tuple[Sequence[str], Mapping[str, int]]]:
    """Yield the paths of the modules whose forward is running, the innermost last, and how often each has run.

    Hooks of all modules are used, because torch calls other operators for some modules that have hooks of their own.
    """
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    running, ran = list[str](), Counter[str]()
    if module is None:
        yield running, ran
        return
    paths = {id(each): path for path, each in module.named_modules()}

    def enter(each: Any, args: Any) -> None:
        path = paths.get(id(each))
        ran.update([path] if path is not None else [])
        # A module that is not a part of the model, as one that forward makes, counts as what calls it.
        running.append(path if path is not None else running[-1] if running else "")

    def leave(each: Any, args: Any, output: Any) -> None:
        running.pop()

    with temporary_hooks([register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]):
        yield running, ran


_VIEWS = re.compile(
    r"::(view|view_as\w*(?<!_copy)|_unsafe_view|_reshape_alias|t|transpose|permute|expand|slice|select|as_strided|squeeze|"
    r"unsqueeze|detach|alias|split\w*(?<!_copy)|unbind|narrow|chunk|empty\w*|new_empty\w*|lift_fresh|unfold)_?$"
)
_LOOKUPS = re.compile(r"::(embedding|index|index_select|gather)$")


@cache
def is_view(name: str) -> bool:
    """Return whether an operator returns its argument's memory, or memory without values, and touches neither."""
    return bool(_VIEWS.search(name))


def _bytes_moved(name: str, inputs: Sequence[Any], output: Any) -> int:
    """Bytes read and written: none for views; a lookup reads only the rows that it returns."""
    if is_view(name):
        return 0
    written = sum(map(_size, tensors_in(output)))
    if _LOOKUPS.search(name):
        return 2 * written + sum(map(_size, inputs[1:]))
    return written + sum(map(_size, inputs))


def _size(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())


def call_flop(name: str, args: Sequence[Any], output: Any) -> int | None:
    """Return the operations of one call: 0 if the operator is known to be no product, ``None`` if not known."""
    kind = operator_class(name)
    if kind is None:
        return 0 if multiplies_nothing(name) else None
    base = base_name(name).removesuffix("_")
    shapes = [tuple(map(int, x.shape)) if hasattr(x, "shape") else () for x in args]
    first = output[0] if isinstance(output, (tuple, list)) and output else output
    written = tuple(map(int, first.shape)) or (1,) if hasattr(first, "shape") else ()
    if base in _QUANTIZED_GATES:
        return _quantized_rnn_flop(_QUANTIZED_GATES[base], args)
    if base == "mkldnn_rnn_layer":
        # At each step, the weights of all gates by the input, and the recurrent weights by the hidden state.
        return 2 * math.prod(shapes[0][:-1]) * (math.prod(shapes[1]) + math.prod(shapes[2]))
    if base == "_cudnn_rnn":
        # At each step, the weights of all layers and directions, which are matrices; biases are vectors.
        return 2 * math.prod(shapes[0][:-1]) * sum(int(each.numel()) for each in args[1] if each.dim() == 2)
    if kind is OperatorClass.CONV:
        if base not in _CONVOLUTIONS:
            return None
        is_transposed = base != "mkldnn_convolution" and len(args) > 6 and bool(args[6])
        return product_flop(kind, shapes, written, is_transposed=is_transposed)
    if base == "addbmm":
        written = (*shapes[1][:1], *written)  # it adds up the products of a batch
    is_listed = base in _PACKED or "scaled_dot_product" in base or named_precision(name) is not None
    if base in _OUTER or not (is_listed or shows_its_operands(name)):
        return None
    return product_flop(kind, shapes[base in _ADDING :], written)


def product_flop(
    kind: OperatorClass, inputs: Sequence[Shape], output: Shape, *, is_transposed: bool = False
) -> int | None:
    """Return the operations of one product, a multiplication and an addition being two; ``None`` if sizes are missing.

    A causal mask does not reduce those of attention, as in ``torch.utils.flop_counter.sdpa_flop_count``.

    Args:
        kind: what it computes.
        inputs: its operands. Groups of a convolution may be an axis of their own in the weights; the weights of a layer
            may be missing.
        output: what it computes.
        is_transposed: whether it is a transposed convolution.
    """
    left = inputs[0] if inputs else ()
    if not left or not output:
        return None
    if kind is OperatorClass.CONV:
        if len(inputs) < 2 or len(inputs[1]) < 3:
            return None
        # Each output (or, if transposed, each input) is multiplied by one filter: in channels × kernel.
        positions = left if is_transposed else output
        return 2 * math.prod(positions) * math.prod(inputs[1][1 + len(inputs[1]) - len(left) :])
    if kind is OperatorClass.ATTENTION:
        if len(inputs) < 3 or len(inputs[1]) != len(left) or len(left) < 3:
            return None
        return 2 * inputs[1][-2] * (math.prod(left) + math.prod(output))  # Q·Kᵀ and P·V
    # How many products each element of the output sums up; the left operand may be transposed.
    is_matrix = min(len(left), len(output)) > 1
    return 2 * math.prod(output) * (math.prod(left[-2:]) // max(output[-2], 1) if is_matrix else left[-1])


_QUANTIZED_GATES = {"quantized_lstm": 4, "quantized_gru": 3}
"""Recurrent layers whose weights are packed, and their gates."""


def _quantized_rnn_flop(gates: int, args: Sequence[Any]) -> int | None:
    """Of ``aten::quantized_lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, …)``.

    ``None`` for packed sequences, whose arguments are others.
    """
    layers, state = int(args[4]), tuple(map(int, tensors_in(args[1])[0].shape))
    if len(state) != 3:
        return None
    rows, directions, hidden = tuple(map(int, args[0].shape)), state[0] // layers, state[2]
    inputs = rows[-1] + (layers - 1) * directions * hidden  # those of the layers, one after the other
    per_step = directions * gates * hidden * (inputs + layers * hidden)
    return 2 * math.prod(rows[:-1]) * per_step


_ADDING = ("addmm", "addbmm", "addmv", "baddbmm", "_addmm_activation")
"""Products whose first argument is added to them."""
_PACKED = ("mkldnn_linear", "onednn_linear")
"""Layers whose weights may be packed, besides the quantized ones."""
_OUTER = ("addr", "ger")
_CONVOLUTIONS = ("convolution", "_convolution", "mkldnn_convolution", "convolution_overrideable")
