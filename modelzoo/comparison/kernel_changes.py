"""Which kernels computed the products of one side, and which those of the other, shape by shape. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from modelzoo.comparison.model import Row
from modelzoo.records.evidence import OperatorClass
from modelzoo.records.run import RunReport

Shapes = tuple[tuple[int, ...], ...]


class ShapeUse(msgspec.Struct, frozen=True):
    """What one side did with one set of shapes.

    Attributes:
        kernels: the kernels that ran, with their precision, the one that took the most time first; empty if none did.
        seconds: per audited pass, reorders and set-up included.
        calls: per audited pass.
    """

    kernels: tuple[str, ...] = ()
    seconds: float = 0.0
    calls: float = 0.0


class KernelChange(msgspec.Struct, frozen=True):
    """Shapes of which the two sides computed the product in different kernels.

    Attributes:
        operator_class: what is computed.
        shapes: of the inputs.
        base: what the baseline did.
        other: what the other side did.
    """

    operator_class: OperatorClass
    shapes: Shapes
    base: ShapeUse
    other: ShapeUse

    @property
    def change(self) -> float:
        """Seconds per pass that the other side takes more."""
        return self.other.seconds - self.base.seconds


class KernelChanges(msgspec.Struct, frozen=True):
    """The products of a row.

    Attributes:
        workload: of the row.
        label: of the row.
        changes: the shapes that have other kernels, the largest change of time first.
        shapes: number of different shapes that were audited on either side.
    """

    workload: str
    label: str
    changes: tuple[KernelChange, ...]
    shapes: int


def kernel_changes(row: Row) -> KernelChanges | None:
    """Return which shapes have other kernels; ``None`` if a side was not audited, or its audit names no product.

    The operator's name is no part of what is compared: releases of torch call the same product by different names.
    """
    if row.base is None or row.other is None:
        return None
    base, other = _uses(row.base.reports), _uses(row.other.reports)
    if not base or not other:
        return None
    nothing = ShapeUse()
    found = [
        KernelChange(*key, base.get(key, nothing), other.get(key, nothing))
        for key in {**base, **other}
        if set(base.get(key, nothing).kernels) != set(other.get(key, nothing).kernels)
    ]
    changes = sorted(found, key=lambda each: (-abs(each.change), each.operator_class, each.shapes))
    return KernelChanges(row.workload, row.setting, tuple(changes), len({**base, **other}))


_Key = tuple[OperatorClass, Shapes]


def _uses(reports: Sequence[RunReport]) -> dict[_Key, ShapeUse]:
    """What the audited processes of a side did with each set of shapes, the mean of their passes."""
    audits = [each.observed.evidence for each in reports if each.observed.evidence is not None]
    passes = sum(each.iterations for each in audits)
    if not passes:
        return {}
    seconds: dict[_Key, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    calls: dict[_Key, int] = defaultdict(int)
    for audit in audits:
        for use in audit.operators:
            key = (use.operator_class, use.shapes)
            seconds[key][f"{use.implementation} ({use.precision})"] += use.seconds
            calls[key] += use.count
    return {
        key: ShapeUse(
            kernels=tuple(sorted(found, key=lambda name: (-found[name], name))),
            seconds=sum(found.values()) / passes,
            calls=calls[key] / passes,
        )
        for key, found in seconds.items()
    }
