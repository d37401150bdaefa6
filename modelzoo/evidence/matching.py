"""Match the profiler's operators with the primitives in oneDNN's log: which kernel ran in which call. Pure.

The log has no operator names and the profiler has no kernel names, but both are in the order of execution and both
have sizes.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import chain
from typing import Callable, Optional

import msgspec

from modelzoo.evidence.kernel_names import (
    base_name,
    leaves_it_to_others,
    named_precision,
    operand_type,
    operator_class,
    shows_its_operands,
)
from modelzoo.evidence.observation import Event, Replays
from modelzoo.evidence.onednn_log import Primitive, problem_dimensions
from modelzoo.records.evidence import OperatorClass, Product
from modelzoo.records.profile import Shape

Dimensions = tuple[Optional[int], ...]
"""Sizes as ``problem_dimensions`` returns them; ``None`` matches any size."""

# The operators that run oneDNN's other primitives, by the primitive's kind.
_OTHER_PRIMITIVES = {
    "eltwise": re.compile(r"gelu|relu|sigmoid|tanh|elu|swish|silu|hard|clamp|mish|exp|sqrt|abs"),
    "pooling": re.compile(r"pool"),
    "batch_normalization": re.compile(r"batch_norm"),
    "layer_normalization": re.compile(r"layer_norm"),
    "group_normalization": re.compile(r"group_norm"),
    "softmax": re.compile(r"softmax"),
    "binary": re.compile(r"::(add|mul|sub|div)_?$"),
    "sum": re.compile(r"::add_?$"),
    "concat": re.compile(r"cat"),
    "reduction": re.compile(r"::(sum|mean|max|min)"),
    "resampling": re.compile(r"upsample"),
    "shuffle": re.compile(r"shuffle"),
    "prelu": re.compile(r"prelu"),
}
_KINDS_WITHOUT_ELEMENT_COUNT = ("pooling", "batch_normalization", "resampling")
_PRODUCT_KINDS = {
    "matmul": "gemm",
    "inner_product": "inner",
    "gemm_api": "gemm",
    "convolution": "conv",
    "deconvolution": "conv",
    "rnn": "rnn",
    "brgemm": "microkernel",
}


def is_gemm(primitive: Primitive) -> bool:
    """Return whether ``primitive`` is a matrix product, not a convolution."""
    return _PRODUCT_KINDS.get(primitive.kind) in ("gemm", "inner", "microkernel")


def is_of_attention(primitive: Primitive) -> bool:
    """Return whether ``primitive`` is what attention calls: a matrix product, or the packing of a matrix for one."""
    return is_gemm(primitive) or primitive.kind == "transform"


def classify(events: Sequence[Event]) -> list[OperatorClass | None]:
    """Return the class of each event.

    If one operator of a class calls another (``linear`` calls ``addmm``), only the innermost has a class: the others
    dispatch. An operator that is not known to do so keeps its class, because it may multiply something itself.
    """
    classes = [operator_class(event.name) for event in events]
    for index in range(len(events) - 1, -1, -1):
        if operator_class(events[index].name) is None:
            continue
        caller = events[index].parent
        while caller >= 0:
            is_linear = operator_class(events[caller].name) is OperatorClass.LINEAR
            if is_linear and classes[index] is OperatorClass.MATMUL:
                classes[index] = OperatorClass.LINEAR  # Linear without a bias calls mm
            if leaves_it_to_others(events[caller].name):
                classes[caller] = None
            caller = events[caller].parent
    return classes


def match_primitives(
    events: Sequence[Event], classes: Sequence[OperatorClass | None], primitives: Sequence[Primitive]
) -> tuple[dict[int, Primitive], list[Primitive]]:
    """Find the primitive that ran in each operator: of the same kind and size, in the order of the log.

    Reorders are not matched.

    Returns:
        The primitive by index of the event, and the primitives that match no operator.
    """
    queues: dict[str, _PrimitiveQueue] = defaultdict(_PrimitiveQueue)
    for primitive in primitives:
        if primitive.kind != "reorder":
            queues[_PRODUCT_KINDS.get(primitive.kind, primitive.kind)].append(primitive)
    matches: dict[int, Primitive] = {}
    for index, (event, kind) in enumerate(zip(events, classes)):
        match = _take_match(queues, event, kind)
        if match is not None:
            matches[index] = match
    return matches, [primitive for queue in queues.values() for primitive in queue.remaining()]


def owners(events: Sequence[Event], replays: Replays, iterations: int) -> dict[int, int]:
    """Find the call of a product that each event is, or is a part of.

    The profiler and the recorded pass show the same operators in the same order, but the profiler shows what they call,
    too.

    Returns:
        The place in ``replays.products`` by index of the event; empty if the passes called other products than the
        recorded one.
    """
    names = {each.operator for each in replays.products}
    expected = list(replays.order) * iterations
    found: dict[int, int] = {}
    calls = 0
    for index, event in enumerate(events):
        if event.parent in found:
            found[index] = found[event.parent]
        elif event.name in names:
            if calls == len(expected) or not _is_call_of(replays.products[expected[calls]], event):
                return {}
            found[index] = expected[calls]
            calls += 1
    return found if calls == len(expected) else {}


def _is_call_of(product: Product, event: Event) -> bool:
    """Whether an event may be a call of ``product``: the profiler does not show all tensors of every operator."""
    wanted, shown = ([shape for shape in shapes if shape][:2] for shapes in (product.shapes, event.shapes))
    return product.operator == event.name and all(a == b for a, b in zip(wanted, shown))


class _Key(msgspec.Struct, frozen=True):
    """What tells primitives of one kind apart: size, whether it adds, and the type of the first operand."""

    size: Dimensions
    adds: bool
    source: str


class _PrimitiveQueue:
    """Primitives in the order of the log, indexed by size, because attention alone may leave thousands."""

    def __init__(self) -> None:
        self._by_key: dict[_Key, deque[tuple[int, Primitive]]] = {}
        self._length = 0

    def append(self, primitive: Primitive) -> None:
        key = _Key(problem_dimensions(primitive), primitive.adds, primitive.source_type)
        self._by_key.setdefault(key, deque()).append((self._length, primitive))
        self._length += 1

    def take(self, fits: Callable[[_Key], bool]) -> Primitive | None:
        """Remove and return the first primitive whose key ``fits``."""
        queues = [queue for key, queue in self._by_key.items() if queue and fits(key)]
        return min(queues, key=lambda queue: queue[0][0]).popleft()[1] if queues else None

    def take_size(self, wanted: Dimensions, event: Event) -> Primitive | None:
        return self.take(lambda key: _is_same_size(wanted, key.size) and _has_operand(event, key))

    def take_first(self) -> Primitive | None:
        return self.take(lambda key: True)

    def first(self) -> Primitive | None:
        heads = [queue[0] for queue in self._by_key.values() if queue]
        return min(heads, key=lambda head: head[0])[1] if heads else None

    def remaining(self) -> list[Primitive]:
        return [primitive for queue in self._by_key.values() for _, primitive in queue]


def _has_operand(event: Event, key: _Key) -> bool:
    """Whether a primitive may have the operands of ``event``: two layers of one size may differ in their types."""
    given = operand_type(event) if shows_its_operands(event.name) else named_precision(event.name) or "unknown"
    return "unknown" in (given, key.source) or given == key.source


def _take_match(queues: dict[str, _PrimitiveQueue], event: Event, kind: OperatorClass | None) -> Primitive | None:
    if kind is not None and not (shows_its_operands(event.name) or named_precision(event.name)):
        return None  # what runs in an unknown operator is not known: a primitive of its size may be another's
    if kind is OperatorClass.CONV:
        return _take_convolution(queues["conv"], event) or _take_unfolded(queues["gemm"], event)
    if base_name(event.name) == "mkldnn_rnn_layer":
        return queues["rnn"].take_first()  # its arguments do not show the size as the log does
    if kind in (OperatorClass.LINEAR, OperatorClass.MATMUL):
        return _take_product(queues["gemm"], queues["inner"], event)
    if kind is None and "::" in event.name:
        return _take_other(queues, event)
    return None


def _take_convolution(queue: _PrimitiveQueue, event: Event) -> Primitive | None:
    found = queue.take_size(_convolution_dimensions(event), event)
    return _take_if_onednn(queue, event) if found is None else found


def _take_product(queue: _PrimitiveQueue, inner: _PrimitiveQueue, event: Event) -> Primitive | None:
    """The first product of the operator's size; earlier ones of other sizes belong to other operators (attention).

    Inner products (``inner``) are what oneDNN's own Linear runs: a matmul of the same size ran something else.
    """
    wanted = _product_dimensions(event)
    if "mkldnn" in event.name:
        sized = (each.take_size(wanted, event) for each in (inner, queue))
        first = (each.take_first() for each in (inner, queue))  # its arguments do not show the size
        return next((each for each in chain(sized, first) if each is not None), None)
    if named_precision(event.name):
        # A quantized Linear adds its bias in the primitive, if it has one.
        return queue.take_size(wanted, event) or inner.take_size(wanted, event)
    # mm and addmm of the same size may run in different libraries; only addmm's primitive adds something.
    is_sum = "add" in base_name(event.name)
    found = queue.take(lambda key: key.adds == is_sum and _is_same_size(wanted, key.size) and _has_operand(event, key))
    return queue.take_size(wanted, event) if found is None and is_sum else found


def _take_if_onednn(queue: _PrimitiveQueue, event: Event) -> Primitive | None:
    """A oneDNN operator always runs a primitive, even if its arguments do not show the size."""
    return queue.take_first() if "mkldnn" in event.name else None


def _take_unfolded(queue: _PrimitiveQueue, event: Event) -> Primitive | None:
    """The product of a convolution that torch unfolds itself: weights (out × in · kernel) by columns of pixels.

    torch unfolds small images in a batch of one; on ARM with fast math, oneDNN computes the product.
    """
    weight = event.shapes[1] if len(event.shapes) > 1 else ()
    if "slow_conv" not in event.name or len(weight) < 3:
        return None
    outputs, inputs = weight[0], math.prod(weight[1:])
    weights_first, weights_last = (1, outputs, inputs, None), (1, None, inputs, outputs)
    found = queue.take_size(weights_first, event)
    return queue.take_size(weights_last, event) if found is None else found


def _take_other(queues: dict[str, _PrimitiveQueue], event: Event) -> Primitive | None:
    """A primitive that is not a product: by the operator's name and the number of elements of its first tensor."""
    if not event.shapes or not event.shapes[0]:
        return None
    for kind, pattern in _OTHER_PRIMITIVES.items():
        first = queues[kind].first() if kind in queues and pattern.search(event.name) else None
        if first is None:
            continue
        elements = math.prod(int(size) for size in re.findall(r"\d+", first.problem))
        if kind in _KINDS_WITHOUT_ELEMENT_COUNT or elements == math.prod(event.shapes[0]):
            return queues[kind].take_first()
    return None


def _convolution_dimensions(event: Event) -> Dimensions:
    """``problem_dimensions`` of a convolution; sizes that the arguments do not show (packed weights) are ``None``."""
    shapes = [shape for shape in event.shapes if len(shape) >= 3]
    if event.name.endswith("pointwise_"):
        shapes = shapes[1:]  # the sum's other operand comes first
    if not shapes:
        return ()
    image, *others = shapes
    # A sum's other operand comes before the weight, but in int8 after it.
    place = 1 if len(others) > 1 and not _is_quantized(event) else 0
    weight: Shape = others[place] if others else ()
    if len(weight) != len(image) or image[1] % max(weight[1], 1):
        return (image[0], image[1], None)
    # _convolution runs transposed convolutions itself, whose weights begin with the inputs.
    outputs = None if "transpose" in event.name or event.name == "aten::_convolution" else weight[0]
    return (image[0], image[1], outputs, *weight[2:], *image[2:])


def _product_dimensions(event: Event) -> Dimensions:
    """``problem_dimensions`` of a matrix product; sizes that the arguments do not show are ``None``."""
    base = base_name(event.name)
    shapes = event.shapes[1:] if "add" in base else event.shapes
    if not shapes or len(shapes[0]) < 2:
        return ()
    left, right = shapes[0], shapes[1] if len(shapes) > 1 else ()
    if "pointwise" in base and len(shapes) > 2 and len(shapes[2]) == 2:
        right = shapes[2]  # (input, other operand of the sum, weight)
    if operator_class(event.name) is OperatorClass.LINEAR and "addmm" not in base:
        # Linear's weight is (out, in), and leading dimensions are flattened. In int8 it is (in, out), after the scale
        # and the zero point of the input.
        if _is_quantized(event):
            right = next((shape for shape in shapes[1:] if len(shape) == 2), ())
        outputs = right[-1 if _is_quantized(event) else 0] if len(right) == 2 else None
        return (1, math.prod(left[:-1]), left[-1], outputs)
    if len(right) < 2:
        return ()
    return (math.prod(left[:-2]), left[-2], left[-1], right[-1])


def _is_quantized(event: Event) -> bool:
    """Whether it is one of oneDNN's int8 operators (``torch.ops.onednn``), whose arguments are in an order of their
    own."""
    return event.name.startswith("onednn::q")


def _is_same_size(wanted: Dimensions, logged: Dimensions) -> bool:
    if len(wanted) < 3 or len(logged) < 3:
        return False
    # oneDNN sees a one-dimensional convolution with another rank: only batch and channels can be compared.
    length = len(wanted) if len(wanted) == len(logged) else 3
    return all(a is None or b is None or a == b for a, b in zip(wanted[:length], logged[:length]))
