"""Which shapes have other kernels."""

from __future__ import annotations

from interleaved_sides import CLASSIFIER, SHAPES, audited, checked, use

from modelzoo.comparison.compare import compare_interleaved
from modelzoo.comparison.explanations import KernelChanges, kernel_changes
from modelzoo.comparison.model import StoredResult
from modelzoo.frozen import replace
from modelzoo.records.evidence import Evidence
from modelzoo.records.run import Run


def changes(base: Evidence | None, head: Evidence | None) -> KernelChanges | None:
    """Those between two audits."""
    result = checked({"toy": [1.0] * 2})
    runs = tuple(_with(run, head if run.group else base) for run in result.runs)
    found = compare_interleaved(StoredResult("check.json", replace(result, runs=runs)), ("base", "head"))
    return kernel_changes(found.rows[0])


def _with(run: Run, found: Evidence | None) -> Run:
    return replace(run, report=replace(run.report, observed=replace(run.report.observed, evidence=found)))


def test_a_shape_that_one_side_does_not_compute_is_a_change() -> None:
    """A product may have been fused into another one; the largest change of time comes first."""
    found = changes(audited(use("a"), use("b", CLASSIFIER, seconds=3.0)), audited(use("c")))
    assert [(each.shapes, each.other.kernels) for each in found.changes] == [
        (CLASSIFIER, ()),
        (SHAPES, ("c (fp32)",)),
    ]


def test_without_an_audit_of_both_sides_nothing_is_said() -> None:
    """No kernels are not the same kernels."""
    assert changes(audited(use("a")), None) is None
    assert changes(audited(use("a")), audited()) is None
    assert changes(audited(use("a")), audited(use("a"))) == KernelChanges("toy", "fp32", (), 1)
