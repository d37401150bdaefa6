"""What explains the difference of two rows, from their audits and profiles."""

from __future__ import annotations

from typing import Any

import pytest
from fake_runs import changed, evidence, make, result_of
from hypothesis import given
from hypothesis import strategies as st
from proven_results import CLASSIFIER, SHAPES, audited, checked, row_of, side_setting, use

from modelzoo.comparison.compare import compare_interleaved
from modelzoo.comparison.estimate import Row, StoredResult
from modelzoo.comparison.explanations import (
    EVERYTHING_ELSE,
    MOST_PARTS,
    Explanation,
    explanation,
    kernel_changes,
)
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.frozen import replace
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import Evidence, OperatorClass, OperatorUse, ProofSource, ProofVerdict
from modelzoo.records.profile import BETWEEN_OPERATORS, OTHERS, OperatorRow, Profile
from modelzoo.results.refusals import Metric
from modelzoo.setting import Setting
from modelzoo.stats import Outcome

CONV = "aten::mkldnn_convolution"


def audit(kernel: str, operators: dict[str, float], inside: float = 0.0, iterations: int = 1) -> Evidence:
    """An audit with these seconds of each operator; the convolution spent ``inside`` in ``kernel``."""
    use = OperatorUse(CONV, OperatorClass.CONV, (), kernel, "fp32", ProofSource.BOTH, 1, operators.get(CONV, 0), inside)
    shares = tuple(TimeShare(name, seconds, 0.0, 1) for name, seconds in operators.items())
    return replace(
        evidence(ProofVerdict.FP32),
        iterations=iterations,
        seconds=sum(operators.values()),
        operators=(use,) if CONV in operators else (),
        by_operator=shares,
    )


def profile(operators: dict[str, float], iterations: int = 1) -> Profile:
    """A profile with these seconds of each operator."""
    rows = tuple(OperatorRow(name, (), 1, seconds, 0.0, kernel="a kernel") for name, seconds in operators.items())
    return Profile(iterations, sum(operators.values()), rows, (), None, ())


def row_with(base: Evidence | None, other: Evidence | None, outcome: Outcome = Outcome.FASTER) -> Row:
    """A row whose sides are one process with these audits."""
    return row_of(
        side_setting(result_of(make([2.0], evidence=base))),
        side_setting(result_of(make([1.0], evidence=other))),
        outcome=outcome,
    )


def changes(found: Explanation | None) -> dict[str, float]:
    """The change by operation."""
    return {part.name: pytest.approx(part.change) for part in found.parts}


def test_products_are_compared_by_what_they_compute() -> None:
    """Kernels with different names are one operation; the time around them is another."""
    base = audit("oneDNN jit:avx512_core", {CONV: 5.0, "aten::relu_": 1.0, PASS_EVENT: 0.5}, inside=4.0)
    other = audit("openblas sgemm", {CONV: 8.5, "aten::relu_": 1.25, PASS_EVENT: 0.5}, inside=8.0)
    found = explanation(row_with(base, other, Outcome.SLOWER), Metric.LATENCY)
    around = {"conv: reorders and set-up": -0.5, "aten::relu_": 0.25, EVERYTHING_ELSE: 0.0}
    assert changes(found) == {"conv: kernels": 4.0, **around}
    assert found.parts[-1].base == pytest.approx(0.5), "what did not change is a part of everything else"
    kernels = (found.parts[0].base_kernels, found.parts[0].other_kernels)
    assert kernels == (("oneDNN jit:avx512_core",), ("openblas sgemm",))
    assert (found.source, found.base_timed, found.other_timed) == ("audited", 2.0, 1.0)


def test_operators_that_call_a_product_are_dispatch() -> None:
    """Its name depends on the version of torch; its time is no product's."""
    base = audit("a kernel", {CONV: 5.0, "aten::conv2d": 0.5, "aten::convolution": 0.25}, inside=5.0)
    found = explanation(row_with(base, audit("a kernel", {CONV: 5.0}, inside=5.0)), Metric.LATENCY)
    assert changes(found)["dispatch of products"] == -0.75


def test_seconds_are_those_of_one_pass_and_of_all_audited_processes() -> None:
    """Two processes with 2 and 1 passes: the mean of three passes."""
    first, second = (audit("k", {"aten::add": seconds}, iterations=n) for seconds, n in ((4.0, 2), (5.0, 1)))
    base = side_setting(
        result_of(make([2.0], evidence=first), make([2.0], evidence=None), make([8.0], evidence=second))
    )
    other = side_setting(result_of(make([1.0], evidence=audit("k", {"aten::add": 1.0}))))
    found = explanation(row_of(base, other), Metric.LATENCY)
    assert changes(found) == {"aten::add": -2.0, EVERYTHING_ELSE: 0.0}
    assert (found.base_passes, found.other_passes) == (3, 1)
    assert found.base_timed == pytest.approx(32 ** (1 / 3)), "the geometric mean of the processes"


def test_profiles_are_used_if_a_side_was_not_audited() -> None:
    """What the profile does not list by name is a part of everything else."""
    base = make([2.0], profile=profile({CONV: 3.0, "aten::relu": 1.0, OTHERS: 0.5, BETWEEN_OPERATORS: 0.5}))
    other = make([1.0], evidence=audit("k", {}), profile=profile({"aten::_slow_conv2d_forward": 4.0, OTHERS: 1.0}, 2))
    found = explanation(row_of(side_setting(result_of(base)), side_setting(result_of(other))), Metric.LATENCY)
    assert changes(found) == {"conv": -1.0, "aten::relu": -1.0, "between operators": -0.5, EVERYTHING_ELSE: 0.0}
    assert found.source == "profiled"


ADD = audit("k", {"aten::add": 1.0})
BATCHES = [side_setting(result_of(make([1.0], setting=Setting(batch=batch), evidence=ADD))) for batch in (1, 8)]


@pytest.mark.parametrize(
    ("row", "metric"),
    [
        (row_with(ADD, None), Metric.LATENCY),
        (row_with(ADD, ADD, Outcome.SAME), Metric.LATENCY),
        (row_with(ADD, ADD, Outcome.NOT_COMPARABLE), Metric.LATENCY),
        (replace(row_with(ADD, None), other=None), Metric.LATENCY),
        (row_of(*BATCHES), Metric.LATENCY),
        (row_with(ADD, ADD), Metric.COLD_START),
        (row_with(ADD, ADD), Metric.MEMORY),
    ],
)
def test_there_may_be_nothing_to_explain(row: Row, metric: Metric) -> None:
    """No evidence on one side, no difference, no other side, no common batch, or nothing that a steady pass shows."""
    assert explanation(row, metric) is None


SECONDS = st.dictionaries(
    st.sampled_from([f"aten::operator{number}" for number in range(2 * MOST_PARTS)] + [CONV, "aten::conv2d"]),
    st.floats(0, 1e3),
    min_size=1,
)


@given(SECONDS, SECONDS, st.integers(1, 3), st.floats(0, 1))
def test_the_parts_add_up_to_the_difference(
    base: dict[str, float], other: dict[str, float], iterations: int, inside: float
) -> None:
    """Whatever ran: on each side the parts are the whole pass, and the largest change comes first."""
    sides = [audit("k", each, inside * each.get(CONV, 0.0), iterations) for each in (base, other)]
    found = explanation(row_with(sides[0], sides[1]), Metric.LATENCY)
    assert found.base == pytest.approx(sum(base.values()) / iterations)
    assert found.other == pytest.approx(sum(other.values()) / iterations)
    assert sum(part.change for part in found.parts) == pytest.approx(found.other - found.base, abs=1e-6)
    *listed, rest = found.parts
    assert rest.name == EVERYTHING_ELSE
    assert len(listed) <= MOST_PARTS
    assert [abs(part.change) for part in listed] == sorted((abs(part.change) for part in listed), reverse=True)
    opposite = explanation(row_with(sides[1], sides[0]), Metric.LATENCY)
    assert {part.name: part.base for part in opposite.parts} == {part.name: part.other for part in found.parts}


def changed_kernels(base: Evidence | None, head: Evidence | None) -> Any:
    """Those between two audits."""
    result = checked({"toy": [1.0] * 2})
    audits = (head if run.group else base for run in result.runs)
    runs = [replace(run, report=changed(run.report, evidence=each)) for run, each in zip(result.runs, audits)]
    found = compare_interleaved(StoredResult("check.json", replace(result, runs=tuple(runs))), ("base", "head"))
    return kernel_changes(found.rows[0])


def test_a_shape_that_one_side_does_not_compute_is_a_change() -> None:
    """A product may have been fused into another one; the largest change of time comes first."""
    found, _ = changed_kernels(audited(use("a"), use("b", CLASSIFIER, seconds=3.0)), audited(use("c")))
    assert [(shapes, part.other_kernels) for shapes, part in found] == [
        (CLASSIFIER, ()),
        (SHAPES, ("c (fp32)",)),
    ]


def test_without_an_audit_of_both_sides_nothing_is_said() -> None:
    """No kernels are not the same kernels."""
    assert changed_kernels(audited(use("a")), None) is None
    assert changed_kernels(audited(use("a")), audited()) is None
    assert changed_kernels(audited(use("a")), audited(use("a"))) == ([], 1)
