"""Tables of evidence and profiles beyond what ``tests/snapshots`` shows, and operations that explain a difference."""

from __future__ import annotations

from collections.abc import Callable

from fake_runs import evidence, make, shown
from printed import cells, printed, sentences
from shown_documents import of_release

from modelzoo.comparison.explanations import Explanation, Part
from modelzoo.document import lines
from modelzoo.frozen import replace
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import NotReplayed, OperatorClass, Product, ProofSource, ProofVerdict, Subnormals
from modelzoo.records.profile import Flops, OperatorRow, Profile
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views.details import NAMED_ROWS, brief_explanations, explanation, explanation_sentence, explanations
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


def explained(*parts: Part, timed: tuple[float, float] = (1.0, 0.8)) -> Explanation:
    """Two audited passes and one, which took as long as their parts."""
    return Explanation("bert", "fp32", "audited", parts, 2, 1, *timed)


def said(base: float, other: float, **how: tuple[float, float]) -> str:
    """What is said of passes of these seconds."""
    return sentences([explanation(explained(Part("aten::mm", base, other), **how), ("xeon", "arm"))])[0]


def test_passes_may_not_explain_the_difference() -> None:
    """If they differ the other way round, or not at all, or if there is none; then nothing is divided by zero."""
    assert "They differ by −250.0 ms, 125 % of the timed difference (−200.0 ms). " in said(1.25, 1.0)
    for other in (1.1, 1.0):
        assert "so they do not explain the timed difference" in said(1.0, other)
        text = explanation_sentence(explained(Part("aten::mm", 1.0, other)))
        assert text.endswith("timed −200.0 ms: they do not explain the difference")
    assert "the timed ones by +0" in said(1.0, 0.9, timed=(1.0, 1.0))


def test_without_a_significant_difference_nothing_is_explained() -> None:
    """A share of what may be chance says nothing; one of 10,000 % was shown."""
    found = explained(Part("aten::mm", 1.0, 0.9), timed=(1.0, 0.999))
    assert "of the timed difference" not in printed([explanation(found, ("xeon", "arm"), is_decided=False)])


def test_a_sentence_names_what_changed_most() -> None:
    """With the kernels of both sides; what is below a tenth of the difference is among the details."""
    parts = (
        Part("linear: kernels", 0.1, 0.2, ("brg_matmul",), ("ref:any",)),
        Part("conv: kernels", 0.2, 0.22, ("brgconv",), ("brgconv",)),
        Part("aten::gelu", 0.05, 0.049),
        Part("everything else", 0.1, 0.2),
    )
    text = "audited passes +219.0 ms, timed +200.0 ms; linear: kernels +100.0 ms (brg_matmul → ref:any)"
    assert explanation_sentence(explained(*parts, timed=(0.4, 0.6))) == text
    many = (Part(f"aten::op{number}", 0.1, 0.109) for number in range(11))
    assert explanation_sentence(explained(*many, timed=(1.0, 1.1))).endswith("no operation changed by 10 % of that")


def precisions(factor: float, count: int = 1) -> list[summary.SummaryRow]:
    """fp32, and settings that take ``factor`` times as long."""
    settings = [Setting(), *(Setting("bf16", batch=4, seed=seed) for seed in range(count))]
    runs = [
        make(
            [0.1 * (factor if index else 1) * (1 + 0.001 * number)] * 30,
            setting=each,
            round=number,
            evidence=of_release(f"kernel {index}", {"aten::addmm": 0.1 if index else 0.3}),
        )
        for index, each in enumerate(settings)
        for number in range(8)
    ]
    return shown(*runs)


def test_what_a_faster_precision_changed_is_a_detail() -> None:
    """It is what it is used for; that it is slower is not. Of many rows some are explained, the others counted."""
    assert brief_explanations(precisions(0.3)).items == ()
    assert len(list(explanations(precisions(0.3)))) == 1
    assert len(brief_explanations(precisions(3.0)).items) == 1
    *_, last = (found := brief_explanations(precisions(3.0, NAMED_ROWS + 2))).items
    assert (len(found.items), last.name, last.text) == (NAMED_ROWS + 1, "2 more", "--details")
