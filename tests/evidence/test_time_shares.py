"""Attributed time is summed up by kernel, precision and operator."""

from __future__ import annotations

import pytest

from modelzoo.evidence.coverage import Node, operator_uses, time_shares
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import OperatorClass, ProofSource

SHAPES = ((1, 8, 8, 8), (8, 8, 3, 3))
CONV = OperatorClass.CONV


def part(implementation: str, seconds: float, count: int = 1, kind: OperatorClass | None = CONV) -> Node:
    """A part of the time of one convolution."""
    return Node("aten::conv", kind, SHAPES, implementation, "fp32", ProofSource.BOTH, seconds, count)


PARTS = [part("jit", 3.0), part("brg", 1.0), part("jit", 3.0), part("set-up", 0.8, 0), part("view", 0.2, 1, None)]


def test_time_shares() -> None:
    """Rows are sorted by time; a row without time and calls is dropped."""
    parts = [*PARTS, part("nothing", 0.0, 0)]
    assert time_shares(parts, lambda each: each.implementation, 8.0) == (
        TimeShare("jit", 6.0, 0.75, 2),
        TimeShare("brg", 1.0, 0.125, 1),
        TimeShare("set-up", 0.8, pytest.approx(0.1), 0),
        TimeShare("view", 0.2, pytest.approx(0.025), 1),
    )


def test_time_outside_kernels_is_divided_among_an_operators_kernels() -> None:
    """Each kernel gets a part in proportion to its own time; operators that multiply nothing are left out."""
    jit, brg = operator_uses(PARTS)
    assert (jit.implementation, jit.count, jit.kernel_seconds) == ("jit", 2, 6.0)
    assert jit.seconds == pytest.approx(7.8 * 6 / 7)
    assert (brg.implementation, brg.count, brg.kernel_seconds) == ("brg", 1, 1.0)
    assert jit.seconds + brg.seconds == pytest.approx(7.8)
