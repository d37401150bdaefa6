"""Tables of evidence and profiles beyond what ``tests/snapshots`` shows: single products, and what is not known."""

from __future__ import annotations

from collections.abc import Callable

from fake_runs import evidence, make, shown
from printed import cells, printed

from modelzoo.document import lines
from modelzoo.frozen import replace
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import NotReplayed, OperatorClass, Product, ProofSource, ProofVerdict, Subnormals
from modelzoo.records.profile import Flops, OperatorRow, Profile
from modelzoo.views.kernel_tables import evidence_blocks, kernel_parts, operator_parts, product_table

EVIDENCE = evidence(ProofVerdict.ACTIVE, reference_share=0.2)
CONV = Product(
    operator="aten::convolution",
    operator_class=OperatorClass.CONV,
    shapes=((1, 8, 8, 8), (8, 8, 3, 3), (8,)),
    operands="fp32",
    count=3,
    layers=("stem", "body.0", "body.1"),
    kernels=("oneDNN convolution jit:avx512_core",),
    logged="fp32",
    error=2.1e-7,
    shown="fp32",
    precision="fp32",
    known_by=ProofSource.BOTH,
    share=0.25,
)
ODD = replace(CONV, count=1, layers=("odd",), error=2e-3, shown="bf16", precision="bf16", known_by=ProofSource.REPLAY)
SILENT = replace(
    CONV,
    operator="own::mm",
    layers=(),
    kernels=(),
    logged=None,
    error=None,
    shown=None,
    not_replayed=NotReplayed.FAILED,
    detail="out of luck",
    precision="unknown precision",
    known_by=ProofSource.NOTHING,
    share=None,
)


def test_each_product_has_a_row(approved: Callable[[str, str], None]) -> None:
    """Where it is, which kernel ran, in which precision, for how long, how that is known; the longest first."""
    audit = replace(EVIDENCE, products=(SILENT, CONV, replace(ODD, share=0.5)), replay_seconds=1.5)
    approved("said/products.txt", printed([product_table(audit), product_table(audit, limit=1)], width=160))


def test_what_subnormal_products_show_is_said() -> None:
    """Beside what else decided the precision."""
    for subnormals, known_by, said in (
        (Subnormals.FLUSHED, ProofSource.PROBE, "bf16 instructions (subnormal products are 0)"),
        (Subnormals.KEPT, ProofSource.KERNEL_LOG, "kernel log; bf16 instructions are not shown (subnormal products"),
    ):
        probed = replace(CONV, operands="bf16", subnormals=subnormals, known_by=known_by)
        (found,) = cells(product_table(replace(EVIDENCE, products=(probed,))))["known by"]
        assert found.startswith(said)


def test_the_largest_error_of_a_class_is_that_of_its_products() -> None:
    """Where one showed none, that of the canary stands for it."""
    (linear,) = EVIDENCE.classes
    products = tuple(replace(each, operator_class=OperatorClass.LINEAR) for each in (CONV, ODD))
    for is_replayed, said in ((True, "2.0e-03 bf16"), (False, "2.9e-03 bf16 (canary)")):
        classes = (replace(linear, is_replayed=is_replayed),)
        _, table, *_ = evidence_blocks(replace(EVIDENCE, products=products, classes=classes))
        assert cells(table)["largest error"] == (said,)


def test_the_first_audit_and_profile_of_a_setting_are_shown_with_what_they_lack() -> None:
    """Lines of a log that could not be read, operators whose operations were not counted, reference kernels."""
    known, time = replace(EVIDENCE.coverage, unread=3), (TimeShare("gemm:jit", 1.0, 1.0, 4),)
    lacking = {"problems": ("no [log]",), "coverage": known, "unread_lines": ("onednn_verbose,x",)}
    audit = replace(EVIDENCE, by_implementation=time, **lacking)
    operator = OperatorRow("aten::mm", ((2, 3), (3, 2)), 4, 0.1, 0.5)
    profile = Profile(2, 0.2, (operator,), (), Flops(1, 1, missing=("own::mm",)), ("no trace",))
    (row,) = shown(make([1.0]), make([1.0], round=1, evidence=audit, profile=profile))
    [(_, (first, precisions, *_, said))] = kernel_parts(row, "fp32")
    assert cells(first)[""] == ("gemm:jit",)
    assert precisions.note == "unattributed: 0.0 % of the time; reference kernels (ref:any): 20.0 %"
    assert said == lines(
        "no [log]", "3 lines of oneDNN's output could not be read", "could not be read: onednn_verbose,x"
    )
    [(_, (table, *_))] = operator_parts(row, "fp32")
    assert table.note == "no trace; operations not counted for own::mm"
