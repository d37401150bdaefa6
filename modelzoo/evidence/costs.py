"""Find what an operator of a profile costs in the calls that were recorded of the same pass. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Optional

from modelzoo.evidence.flops import Call
from modelzoo.evidence.matching import classify
from modelzoo.evidence.observation import Event
from modelzoo.records.evidence import OperatorClass
from modelzoo.records.profile import Shape

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
