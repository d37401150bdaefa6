"""Join the profiler's operators with the primitives in oneDNN's log: which kernel ran in which call. Pure.

The log has no operator names and the profiler no kernel names, but both are in the order of execution and
both tell sizes.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, Callable

from modelzoo.evidence.audit import Event
from modelzoo.evidence.onednn_log import Primitive, dimensions

COMPUTE_CLASSES = ("conv", "linear", "matmul", "attention")
"""The classes of operators that multiply matrices."""

_CLASS_PATTERNS = (
    ("attention", re.compile(r"attention|sdpa|flash_att")),
    ("conv", re.compile(r"conv(?!ert|_tbc_backward)")),
    ("linear", re.compile(r"(^|_)linear(_|$)|addmm|addmv|mkldnn_rnn_layer|(^|_)(lstm|gru)(_|$)")),
    ("matmul", re.compile(r"(^|_)(mm|bmm|matmul|baddbmm|addbmm|mv|dot|vdot|ger|addr)(_|$)")),
)
_NOT_COMPUTE_NAME = re.compile(r"upsample|interpolate|resolve_conj|backward")
# Which other primitives an operator's name stands for, where oneDNN runs more than products.
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
_PRODUCT_KINDS = {"matmul": "gemm", "inner_product": "gemm", "convolution": "conv", "deconvolution": "conv"}


def operator_class(name: str) -> str:
    """``conv``, ``linear``, ``matmul`` or ``attention`` for an operator that may do such work, else empty."""
    plain = name.split("::")[-1].split(".")[0]
    if "::" not in name or _NOT_COMPUTE_NAME.search(plain):
        return ""
    for word, pattern in _CLASS_PATTERNS:
        if pattern.search(plain):
            return word
    return ""


def is_gemm(primitive: Primitive) -> bool:
    """Whether it is a matrix product, not a convolution."""
    return _PRODUCT_KINDS.get(primitive.kind) == "gemm"


def classify(events: Sequence[Event]) -> list[str]:
    """Each event's class (``COMPUTE_CLASSES``), empty for callers of another such operator: they dispatch."""
    classes = [operator_class(event.name) for event in events]
    for index in range(len(events) - 1, -1, -1):
        if not operator_class(events[index].name):
            continue
        above = events[index].parent
        while above >= 0:
            if classes[index] == "matmul" and operator_class(events[above].name) == "linear":
                classes[index] = "linear"  # Linear without a bias calls mm
            classes[above] = ""
            above = events[above].parent
    return classes


def join(
    events: Sequence[Event], classes: Sequence[str], primitives: Sequence[Primitive]
) -> tuple[dict[int, Primitive], list[Primitive]]:
    """Give each operator the primitive that ran in it: same kind, same size, in the order of the log.

    Returns the primitive by event index, and the primitives that no operator claims (reorders apart).
    """
    queues: dict[str, _Queue] = defaultdict(_Queue)
    for primitive in primitives:
        if primitive.kind != "reorder":
            queues[_PRODUCT_KINDS.get(primitive.kind, primitive.kind)].put(primitive)
    matches: dict[int, Primitive] = {}
    for index, event in enumerate(events):
        word = classes[index]
        if word in ("conv", "linear", "matmul"):
            found = _take(queues["conv" if word == "conv" else "gemm"], event, word)
            if found is None and word == "conv":
                found = _take_unfolded(queues["gemm"], event)
        elif not word and "::" in event.name:
            found = _take_other(queues, event)
        else:
            found = None
        if found is not None:
            matches[index] = found
    return matches, [primitive for queue in queues.values() for primitive in queue.rest()]


class _Queue:
    """Primitives in the order of the log, found by their size (attention alone may leave thousands)."""

    def __init__(self) -> None:
        self._by_size: dict[tuple[Any, ...], deque[tuple[int, Primitive]]] = {}
        self._put = 0

    def put(self, primitive: Primitive) -> None:
        key = (dimensions(primitive), primitive.adds)
        self._by_size.setdefault(key, deque()).append((self._put, primitive))
        self._put += 1

    def take(self, fits: Callable[[tuple[int | None, ...], bool], bool]) -> Primitive | None:
        """Remove and return the first primitive whose ``(dimensions, adds)`` fit."""
        keys = [key for key, waiting in self._by_size.items() if waiting and fits(*key)]
        if not keys:
            return None
        return self._by_size[min(keys, key=lambda key: self._by_size[key][0][0])].popleft()[1]

    def first(self) -> Primitive | None:
        waiting = [each[0] for each in self._by_size.values() if each]
        return min(waiting, key=lambda each: each[0])[1] if waiting else None

    def rest(self) -> list[Primitive]:
        return [primitive for waiting in self._by_size.values() for _, primitive in waiting]


def _take(queue: _Queue, event: Event, word: str) -> Primitive | None:
    """The first of that size; those passed over belong to other operators (products inside attention)."""
    wanted = _event_dimensions(event, word)
    if word == "conv" or "mkldnn" in event.name:
        found = queue.take(lambda size, adds: _same(wanted, size))
        if found is None and "mkldnn" in event.name:
            # A oneDNN operator always leaves a primitive; its arguments need not tell the size.
            found = queue.take(lambda size, adds: True)
        return found
    # mm and addmm of one size may go to different libraries, and only addmm's adds something.
    wants = "add" in event.name.split("::")[-1]
    found = queue.take(lambda size, adds: adds == wants and _same(wanted, size))
    if found is None and wants:
        found = queue.take(lambda size, adds: _same(wanted, size))
    return found


def _take_unfolded(queue: _Queue, event: Event) -> Primitive | None:
    """The product of a convolution that torch unfolds itself: weights (out × in · kernel) by the columns of pixels.

    Small pictures in a batch of one take that way; on ARM its product goes to oneDNN where fast math is on.
    """
    weight = event.shapes[1] if len(event.shapes) > 1 else ()
    if "slow_conv" not in event.name or len(weight) < 3:
        return None
    first, second = (1, weight[0], _product(weight[1:]), None), (1, None, _product(weight[1:]), weight[0])
    return queue.take(lambda size, adds: _same(first, size) or _same(second, size))


def _take_other(queues: dict[str, _Queue], event: Event) -> Primitive | None:
    """Non-product primitives: by the operator's name, and by the number of elements of its first tensor."""
    for kind, pattern in _OTHER_PRIMITIVES.items():
        queue = queues.get(kind)
        first = queue.first() if queue and pattern.search(event.name) else None
        if queue is not None and first is not None and event.shapes and event.shapes[0]:
            elements = _product(event.shapes[0])
            sizes = [int(size) for size in re.findall(r"\d+", first.problem)]
            if kind in ("pooling", "batch_normalization", "resampling") or elements == _product(sizes):
                return queue.take(lambda size, adds: True)
    return None


def _event_dimensions(event: Event, word: str) -> tuple[int | None, ...]:
    """The same form as ``onednn.dimensions``; ``None`` where the arguments do not tell (packed weights)."""
    name = event.name
    if word == "conv":
        shapes = [shape for shape in event.shapes if len(shape) >= 3]
        if name.endswith("pointwise_"):
            shapes = shapes[1:]  # the sum's other operand comes first
        if not shapes:
            return ()
        image = shapes[0]
        weight = shapes[2] if len(shapes) > 2 else shapes[1] if len(shapes) > 1 else ()
        if len(weight) != len(image) or image[1] % max(weight[1], 1):
            return (image[0], image[1], None)
        if "transpose" in name:
            return (image[0], image[1], None, *weight[2:], *image[2:])
        return (image[0], image[1], weight[0], *weight[2:], *image[2:])
    shapes = list(event.shapes)
    if "add" in name.split("::")[-1]:
        shapes = shapes[1:]
    if not shapes or len(shapes[0]) < 2:
        return ()
    left, right = shapes[0], shapes[1] if len(shapes) > 1 else ()
    if "pointwise" in name and len(shapes) > 2 and len(shapes[2]) == 2:
        right = shapes[2]  # (input, other operand of the sum, weight)
    if operator_class(name) == "linear" and "addmm" not in name:
        # Linear's weight is (out, in), and leading dimensions are flattened.
        return (1, _product(left[:-1]), left[-1], right[0] if len(right) == 2 else None)
    if len(right) < 2:
        return ()
    return (_product(left[:-2]), left[-2], left[-1], right[-1])


def _same(wanted: Sequence[int | None], seen: Sequence[int | None]) -> bool:
    if len(wanted) < 3 or len(seen) < 3:
        return False
    # A one-dimensional convolution reaches oneDNN with another rank: batch and channels must do.
    length = len(wanted) if len(wanted) == len(seen) else 3
    return all(a is None or b is None or a == b for a, b in zip(wanted[:length], seen[:length]))


def _product(sizes: Iterable[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result
