"""A precision is proven only if enough of the pass is known; its time is summed up by kernel and operator."""

from __future__ import annotations

from typing import Any

import pytest

from modelzoo.evidence import coverage as coverages
from modelzoo.evidence.coverage import AttributedAudit, Node, can_be_compared, operator_uses, time_shares
from modelzoo.evidence.kernel_names import BETWEEN_OPERATORS, UNKNOWN, UNKNOWN_KERNEL
from modelzoo.records.coverage import DISPATCH, Coverage, TimeShare
from modelzoo.records.evidence import LogSource, OperatorClass, ProofSource
from modelzoo.records.profile import Flops

COUNTED = Flops(100, 0, {"aten::convolution": 60, "aten::addmm": 40})


def part(
    precision: str,
    seconds: float,
    flop: int | None = None,
    *,
    name: str = "aten::x",
    kernel: str = "x",
    conv: bool = False,
) -> Node:
    """A product if it has operations, otherwise anything else."""
    kind = OperatorClass.CONV if conv else OperatorClass.LINEAR
    return Node(name, None if flop is None else kind, (), kernel, precision, ProofSource.KERNEL_LOG, seconds, flop=flop)


def coverage(
    parts: list[Node], iterations: int, counted: Flops | None, *, requested: str = "fp32", **facts: Any
) -> Coverage:
    """That of an audit with these parts."""
    audit = AttributedAudit(parts, iterations, LogSource.RUNTIME_SWITCH, "oneDNN", None, counted, **facts)
    return coverages.coverage(audit, requested)


CONV, LINEAR = part("fp32", 1.0, 60, conv=True), part("fp32", 1.0, 40)


def test_more_of_one_kind_makes_up_for_no_other() -> None:
    """A product that is counted twice must not hide another one."""
    found = coverage([part("fp32", 1.0, 140)], 1, COUNTED)
    assert found.known_arithmetic == 0.4


@pytest.mark.parametrize(("flop", "enough"), [(5, True), (6, False)])
def test_five_percent_of_the_arithmetic_may_be_unknown(flop: int, enough: bool) -> None:
    """Its precision, that is: the product itself was seen."""
    unknown = part(UNKNOWN, 0.0, flop)
    found = coverage([CONV, part("fp32", 1.0, 40 - flop), unknown], 1, COUNTED)
    assert found.is_enough is enough


@pytest.mark.parametrize(("seconds", "enough"), [(0.1, True), (0.11, False)])
def test_five_percent_of_the_time_may_be_unknown_where_everything_is_listed(seconds: float, enough: bool) -> None:
    """As the kernels of an accelerator, whose sizes are not known."""
    parts = [part("fp32", 2.0 - seconds, 60), part(UNKNOWN, seconds, name="my::op")]
    found = coverage(parts, 1, None, lists_all=True)
    assert [each.name for each in found.unknown] == ["my::op"]
    assert found.is_enough is enough
    other = coverage([*parts, part(UNKNOWN_KERNEL, 0.0, name="your::op")], 1, None, lists_all=True)
    assert (other.uncounted, other.is_enough) == (("your::op",), False)


def test_operators_that_cannot_be_counted_do_not_shrink_what_was_counted() -> None:
    """They must be seen, and products among them with a known precision."""
    counted = Flops(100, 0, COUNTED.by_operator, ("quantized::conv2d",))
    whole = [CONV, LINEAR, part(DISPATCH, 0.1, kernel=BETWEEN_OPERATORS)]
    hidden = coverage(whole, 1, counted)
    assert (hidden.uncounted, hidden.is_enough) == (("quantized::conv2d",), False)
    unknown = coverage([*whole, part(UNKNOWN, 0.0, 0, name="quantized::conv2d")], 1, counted)
    assert (unknown.uncounted, unknown.is_enough) == (("quantized::conv2d",), False)
    seen = coverage([*whole, part("int8", 0.0, 0, name="quantized::conv2d")], 1, counted)
    assert (seen.uncounted, seen.is_enough) == ((), True)


def convolved(kernel: str, seconds: float, count: int = 1, kind: OperatorClass | None = OperatorClass.CONV) -> Node:
    """A part of the time of one convolution."""
    shapes = ((1, 8, 8, 8), (8, 8, 3, 3))
    return Node("aten::conv", kind, shapes, kernel, "fp32", ProofSource.BOTH, seconds, count)


JIT, BRG, SETUP = convolved("jit", 3.0), convolved("brg", 1.0), convolved("set-up", 0.8, 0)
PARTS = [JIT, BRG, JIT, SETUP, convolved("view", 0.2, 1, None)]


def test_time_outside_kernels_is_divided_among_an_operators_kernels() -> None:
    """Each kernel gets a part in proportion to its own time; operators that multiply nothing are left out."""
    jit, brg = operator_uses(PARTS)
    assert (jit.implementation, jit.count, jit.kernel_seconds) == ("jit", 2, 6.0)
    assert jit.seconds == pytest.approx(7.8 * 6 / 7)
    assert (brg.implementation, brg.count, brg.kernel_seconds) == ("brg", 1, 1.0)
    assert jit.seconds + brg.seconds == pytest.approx(7.8)


def test_all_of_a_pass_is_known() -> None:
    """Time between operators counts as none of a product if the products account for the arithmetic."""
    between = part(DISPATCH, 3.0, name="modelzoo::pass", kernel=BETWEEN_OPERATORS)
    found = coverage([CONV, LINEAR, between], 1, COUNTED)
    assert (found.counted, found.known_arithmetic, found.known_time) == (100, 1.0, 1.0)
    assert found.is_enough
    assert not coverage([CONV, LINEAR, between], 2, COUNTED).is_enough
    assert coverage([CONV, LINEAR] * 2, 2, COUNTED).is_enough


def test_narrow_types_in_the_log_need_a_product() -> None:
    """A reorder to int8 is made for something; one to bf16 for a product in bf16."""
    found = coverage([CONV, LINEAR], 1, COUNTED, logged=frozenset({"fp32", "int8", "int32"}))
    assert (found.unexplained, found.is_enough) == (("int8",), False)
    parts = [CONV, part("bf16", 1.0, 40)]
    assert coverage(parts, 1, COUNTED, logged=frozenset({"bf16"})).unexplained == ()
    assert coverage([CONV, LINEAR], 1, COUNTED, logged=frozenset({"bf16"}), requested="bf16").unexplained == ()


def test_without_a_count_only_a_complete_list_is_enough() -> None:
    """An accelerator's driver lists every kernel; nothing else does."""
    parts = [CONV, LINEAR]
    assert not coverage(parts, 1, None).is_enough
    assert coverage(parts, 1, None, lists_all=True).is_enough
    assert can_be_compared(parts, COUNTED)
    assert not can_be_compared(parts, None)
    assert not can_be_compared([*parts, Node("y", OperatorClass.CONV, (), "y", "fp32", ProofSource.BOTH, 1.0)], COUNTED)
    assert not can_be_compared(parts, Flops(100, 0, {}, ("aten::lstm",)))


def test_time_shares() -> None:
    """Rows are sorted by time; a row without time and calls is dropped."""
    parts = [*PARTS, convolved("nothing", 0.0, 0)]
    assert time_shares(parts, lambda each: each.implementation, 8.0) == (
        TimeShare("jit", 6.0, 0.75, 2),
        TimeShare("brg", 1.0, 0.125, 1),
        TimeShare("set-up", 0.8, pytest.approx(0.1), 0),
        TimeShare("view", 0.2, pytest.approx(0.025), 1),
    )
