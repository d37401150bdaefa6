"""Tables of evidence and profiles, from records alone."""

from __future__ import annotations

import pytest

from modelzoo.document import lines
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.coverage import Coverage, TimeShare
from modelzoo.records.evidence import (
    ClassVerdict,
    Evidence,
    LogSource,
    NotReplayed,
    OperatorClass,
    Product,
    ProofSource,
    ProofVerdict,
    Subnormals,
)
from modelzoo.records.profile import Flops, LayerRow, OperatorRow, Profile
from modelzoo.views.kernel_tables import evidence_blocks, evidence_tables, product_table, profile_tables, shapes_text

EVIDENCE = Evidence(
    requested="bf16",
    bf16_method="cast",
    verdict=ProofVerdict.ACTIVE,
    reason=None,
    iterations=2,
    seconds=1.0,
    compute_seconds=0.8,
    compute_bf16_share=1.0,
    unattributed_share=0.05,
    reference_share=0.2,
    reference_kernels=("oneDNN ref:any",),
    classes=(
        ClassVerdict(OperatorClass.CONV, 0.8, 1.0, ("bf16",), (ProofSource.BOTH,), 1.8e-3, CanaryLevel.BF16),
        ClassVerdict(OperatorClass.MATMUL, 0.0, 0.0, ("fp32",), (ProofSource.DATA_TYPES,), None, None),
    ),
    by_implementation=(TimeShare("openblas sbgemm", 0.6, 0.6, 4), TimeShare("oneDNN ref:any", 0.4, 0.4, 2)),
    by_precision=(TimeShare("bf16", 0.8, 0.8, 6), TimeShare("unattributed", 0.2, 0.2, 0)),
    by_operator=tuple(TimeShare(f"aten::op{index}", 0.05, 0.05, 2) for index in range(20)),
    operators=(),
    onednn_version="3.7.1",
    onednn_isa="",
    blas="openblas 0.3.30 neoversen2",
    log_source=LogSource.RUNTIME_SWITCH,
    problems=(),
    coverage=Coverage(1000, 1.0, 1.0),
)
PROFILE = Profile(
    iterations=2,
    seconds=1.0,
    operators=(
        OperatorRow("aten::mm", ((4, 8), (8, 2)), 2, 0.5, 0.5, 10**9, 10**8, "mkl sgemm", "fp32"),
        OperatorRow("aten::view", (), 2, 0.0, 0.0),
    ),
    layers=(LayerRow("backbone.conv1", "Conv2d", 2, 0.6, 0.4, 0.6, 3 * 10**9),),
    flops=None,
    problems=("a problem",),
)


def test_evidence_is_shown_per_pass() -> None:
    """Times and calls are divided by the passes; notes name unattributed time and reference kernels."""
    by_implementation, by_precision, products, _ = evidence_tables(EVIDENCE)
    assert by_implementation.rows[0] == ("openblas sbgemm", "300.000", "60.0 %", "2")
    assert by_precision.note == "unattributed: 5.0 % of the time; reference kernels (oneDNN ref:any): 20.0 %"
    assert products.rows == [
        ("conv", "400.000", "100.0 %", "bf16", "1.8e-03 bf16", "both"),
        ("matmul", "0.000", "0.0 %", "fp32", "–", "data types"),
    ]


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


def test_each_product_has_a_row() -> None:
    """Where it is, which kernel ran, in which precision, for how long, and how that is known; the longest first."""
    products = (SILENT, CONV, replace(ODD, share=0.5))
    table = product_table(replace(EVIDENCE, products=products, replay_seconds=1.5))
    shapes, kernel = "1×8×8×8, 8×8×3×3, 8", "oneDNN jit:avx512_core"
    disagrees = "error; the log names fp32, the error shows bf16"
    assert table.rows == [
        ("odd", shapes, "1", "50.0 %", kernel, "bf16", "2.0e-03", disagrees),
        ("stem and 2 more", shapes, "3", "25.0 %", kernel, "fp32", "2.1e-07", "error and log"),
        (
            *("own::mm", shapes, "3", "–", "named by no log", "unknown precision", "–"),
            "nothing, not replayed: it raised an error (out of luck)",
        ),
    ]
    assert table.note == "error: of the product called again after the pass, against fp64; 1.5 s"


@pytest.mark.parametrize(
    ("subnormals", "known_by", "said"),
    [
        (Subnormals.FLUSHED, ProofSource.PROBE, "bf16 instructions (subnormal products are 0)"),
        (
            Subnormals.KEPT,
            ProofSource.KERNEL_LOG,
            "kernel log; bf16 instructions are not shown (subnormal products are kept)",
        ),
        (None, ProofSource.KERNEL_LOG, "kernel log"),
    ],
)
def test_what_subnormal_products_show_is_said(subnormals: Subnormals | None, known_by: ProofSource, said: str) -> None:
    """Beside what else decided the precision."""
    probed = replace(CONV, operands="bf16", subnormals=subnormals, known_by=known_by)
    table = product_table(replace(EVIDENCE, products=(probed,)))
    assert table.rows[0][-1] == said


def test_products_beyond_a_limit_are_summed_up() -> None:
    """What was not listed is said; without replays there is no table."""
    table = product_table(replace(EVIDENCE, products=(CONV, ODD, SILENT)), limit=1)
    assert (len(table.rows), table.note) == (1, "2 more products took 25.0 %")
    assert product_table(EVIDENCE).rows == []


def test_the_largest_error_of_a_class_is_that_of_its_products() -> None:
    """Where one showed none, that of the canary stands for it."""
    conv, matmul = EVIDENCE.classes
    asked = replace(EVIDENCE, products=(CONV, ODD), classes=(replace(conv, is_replayed=True), matmul))
    by_class = evidence_tables(asked)[2]
    assert [column.title for column in by_class.columns][4] == "largest error"
    assert [row[4] for row in by_class.rows] == ["2.0e-03 bf16", "–"]
    partly = evidence_tables(replace(asked, classes=(conv, matmul)))[2]
    assert partly.rows[0][4] == "1.8e-03 bf16 (canary)"


def test_further_operators_are_summed_up() -> None:
    """Only the longest operators are listed, and the table still adds up."""
    table = evidence_tables(EVIDENCE, operators=3)[-1]
    assert table.rows[-1] == ("17 others", "425.000", "85.0 %", "17")
    assert len(table.rows) == 4


def test_what_did_not_run_has_no_table() -> None:
    """A model without products has no kernels of products."""
    titles = [table.caption for table in evidence_tables(replace(EVIDENCE, classes=()))]
    assert titles == ["Kernels, by implementation", "By compute precision", "By operator"]


def test_the_blas_is_named_if_one_of_its_kernels_ran() -> None:
    """The note has its version and core, which decide its kernels."""
    assert evidence_tables(EVIDENCE)[0].note == "BLAS: openblas 0.3.30 neoversen2"
    native = replace(EVIDENCE, by_implementation=(TimeShare("native bf16", 1.0, 1.0, 2),))
    assert evidence_tables(native)[0].note == ""


def test_profile_by_operator_and_layer() -> None:
    """Rates stand beside the times; an operator without operations has none."""
    by_operator, by_layer = profile_tables(PROFILE)
    assert by_operator.rows == [
        ("aten::mm", "4×8, 8×2", "250.000", "50.0 %", "1", "2.0", "0.2", "10.0", "mkl sgemm", "fp32"),
        ("aten::view", "", "0.000", "0.0 %", "1", "–", "–", "–", "", ""),
    ]
    assert by_operator.note == "a problem"
    assert by_layer.rows == [("backbone.conv1", "Conv2d", "200.000", "300.000", "60.0 %", "1", "5.0")]


def test_a_profile_without_layers_has_one_table() -> None:
    """Compiled models have no layers to show."""
    assert len(profile_tables(replace(PROFILE, layers=()))) == 1


def test_shapes_are_cut_after_three() -> None:
    """Long argument lists do not widen the table."""
    assert shapes_text(((1, 2), (3,), (4,), (5,))) == "1×2, 3, 4 …"


def test_what_could_not_be_read_or_counted_is_said() -> None:
    """Lines of a log, and operations of operators."""
    coverage = replace(EVIDENCE.coverage, unread=3)
    unread = replace(EVIDENCE, problems=("no [log]",), coverage=coverage, unread_lines=("onednn_verbose,x",))
    assert evidence_blocks(unread)[-1] == lines(
        "no [log]",
        "3 lines of oneDNN's output could not be read",
        "could not be read: onednn_verbose,x",
    )
    table, *_ = profile_tables(replace(PROFILE, flops=Flops(1, 1, missing=("own::mm",)), problems=("no trace",)))
    assert table.note == "no trace; operations not counted for own::mm"
