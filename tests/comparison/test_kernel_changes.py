"""Which shapes have other kernels."""

from __future__ import annotations

from interleaved_sides import CLASSIFIER, SHAPES, audited, checked, use

from modelzoo.comparison.compare import compare_interleaved
from modelzoo.comparison.explanations import KernelChanges, kernel_changes
from modelzoo.comparison.model import StoredResult
from modelzoo.frozen import replace
from modelzoo.records.evidence import Evidence, OperatorClass
from modelzoo.records.run import Run


def changes(base: Evidence | None, head: Evidence | None) -> KernelChanges | None:
    """Those between two audits."""
    result = checked({"toy": [1.0] * 2})
    runs = tuple(_with(run, head if run.group else base) for run in result.runs)
    found = compare_interleaved(StoredResult("check.json", replace(result, runs=runs)), ("base", "head"))
    return kernel_changes(found.rows[0])


def _with(run: Run, found: Evidence | None) -> Run:
    assert run.report is not None
    return replace(run, report=replace(run.report, observed=replace(run.report.observed, evidence=found)))


def test_a_shape_with_another_kernel_is_named() -> None:
    """With its kernels, and the seconds and calls of a pass; the operator's name does not matter."""
    before = audited(use("brgconv:avx512_core"), use("brgemm:avx512_core", CLASSIFIER))
    after = audited(
        use("jit:avx2", seconds=0.5, operator="aten::convolution"), use("brgemm:avx512_core", CLASSIFIER, seconds=0.9)
    )
    found = changes(before, after)
    assert found is not None
    (change,) = found.changes
    assert (found.shapes, change.operator_class, change.shapes) == (2, OperatorClass.CONV, SHAPES)
    assert (change.base.kernels, change.other.kernels) == (("brgconv:avx512_core (fp32)",), ("jit:avx2 (fp32)",))
    assert (change.base.calls, change.base.seconds, change.other.seconds) == (2.0, 0.1, 0.25)
    assert change.change == 0.15


def test_a_shape_that_one_side_does_not_compute_is_a_change() -> None:
    """A product may have been fused into another one; the largest change of time comes first."""
    found = changes(audited(use("a"), use("b", CLASSIFIER, seconds=3.0)), audited(use("c")))
    assert found is not None
    assert [(each.shapes, each.other.kernels) for each in found.changes] == [
        (CLASSIFIER, ()),
        (SHAPES, ("c (fp32)",)),
    ]


def test_without_an_audit_of_both_sides_nothing_is_said() -> None:
    """No kernels are not the same kernels."""
    assert changes(audited(use("a")), None) is None
    assert changes(audited(use("a")), audited()) is None
    assert changes(audited(use("a")), audited(use("a"))) == KernelChanges("toy", "fp32", (), 1)
