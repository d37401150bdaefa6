"""The time by kernel and precision."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import HOSTILE, check, filled, svg, texts
from fake_runs import evidence
from stored_results import STORED, unpacked

from modelzoo.frozen import replace
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import OperatorClass, OperatorUse, ProofSource, ProofVerdict
from modelzoo.results import store
from modelzoo.views.plots import kernels
from modelzoo.views.plots.kernels import NO_PRODUCT, KernelBar, Kernels, KernelShare

FP32 = KernelBar("fp32", (KernelShare("jit:avx512", "fp32", 0.6), KernelShare("native", NO_PRODUCT, 0.4)))
BF16 = KernelBar(
    "bf16",
    (
        KernelShare("jit_bf16:avx512", "bf16", 0.5),
        KernelShare("native", NO_PRODUCT, 0.3),
        KernelShare("jit:avx512", "fp32", 0.2),
    ),
)
DATA = Kernels("toy", (FP32, BF16))


def _use(implementation: str, precision: str, seconds: float) -> OperatorUse:
    return OperatorUse(
        "aten::mm", OperatorClass.MATMUL, (), implementation, precision, ProofSource.BOTH, 1, seconds, seconds
    )


def test_a_kernel_that_ran_in_two_precisions_is_divided() -> None:
    """By the time of its products; what multiplies nothing has no precision."""
    audit = replace(
        evidence(ProofVerdict.PARTLY),
        iterations=2,
        by_implementation=(TimeShare("mkl", 0.8, 0.8, 4), TimeShare("native", 0.2, 0.2, 9), TimeShare("x", 0.0, 0, 0)),
        operators=(_use("mkl", "bf16", 0.3), _use("mkl", "fp32", 0.1)),
    )
    one = kernels.bar("bf16", audit)
    assert [(each.kernel, each.precision) for each in one.shares] == [
        ("mkl", "bf16"),
        ("mkl", "fp32"),
        ("native", NO_PRODUCT),
    ]
    assert [each.share for each in one.shares] == pytest.approx([0.6, 0.2, 0.2])


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_the_kernels_of_real_audits_add_up(path: Path, tmp_path: Path) -> None:
    """To the whole pass."""
    audits = [
        run.report.observed.evidence
        for run in store.read(unpacked(path, tmp_path)).runs
        if run.report and run.report.observed.evidence
    ]
    for audit in audits:
        assert sum(each.share for each in kernels.bar("a", audit).shares) == pytest.approx(1)


def test_segments_are_numbered_as_in_the_legend() -> None:
    """Two settings share the entries of the legend; the precision is a colour, a hatch and a word."""
    text = svg(kernels.plot(DATA))
    check(text)
    shown = texts(text)
    assert "fp32: 60 % fp32, 40 % no matrix product" in shown
    assert {"1 jit:avx512, fp32", "2 jit_bf16:avx512, bf16", "3 native", "share of the audited passes in %"} <= set(
        shown
    )
    assert [shown.count(number) for number in ("1", "2", "3")] == [2, 1, 2]
    assert svg(kernels.plot(DATA)) == text


def test_audited_passes_do_not_look_like_latencies() -> None:
    """A setting whose audited passes take ten times as long has a bar of the same length, and no seconds."""
    audit = replace(evidence(ProofVerdict.FP32), iterations=1, by_implementation=(TimeShare("a", 1.0, 1.0, 1),))
    slower = replace(audit, by_implementation=(TimeShare("a", 10.0, 1.0, 1),))
    found = kernels.plot(Kernels("toy", (kernels.bar("fp32", audit), kernels.bar("bf16", slower))))
    assert found is not None
    assert [column.cells for column in found.columns[2:]] == [("100.0 %",), ("100.0 %",)]
    assert "slower" not in str(found.caption)


def test_hatches_tell_the_precisions_apart_without_colours() -> None:
    """Segments and entries of bf16 refer to a pattern."""
    assert svg(kernels.plot(DATA)).count("<pattern") == 1
    assert svg(kernels.plot(Kernels("toy", (FP32,)))).count("<pattern") == 0
    assert filled(svg(kernels.plot(Kernels("toy", (FP32,)))), "--plot-blue") == 2  # one segment, one entry


def test_many_kernels_are_summed_up() -> None:
    """The longest are kept; the bars keep their length."""
    many = KernelBar("fp32", tuple(KernelShare(f"kernel {i}", "fp32", (i + 1) / 820) for i in range(40)))
    text = svg(kernels.plot(Kernels("toy", (many,))))
    check(text)
    shown = texts(text)
    assert "12 others" in shown and "1 kernel 39, fp32" in shown and "kernel 0" not in " ".join(shown)
    assert len(kernels.columns(Kernels("toy", (many,)))[0].cells) == 40


def test_without_audits_there_is_no_plot() -> None:
    """Nor for a setting without kernels."""
    assert svg(kernels.plot(Kernels("toy", ()))) == ""
    assert svg(kernels.plot(Kernels("toy", (KernelBar("fp32", ()),)))) == ""
    check(svg(kernels.plot(Kernels("toy", (FP32,)))))


def test_the_table_has_time_and_share_of_every_kernel() -> None:
    """A kernel that a setting did not run has no value."""
    found = {column.title: column.cells for column in kernels.columns(DATA)}
    assert found["kernel"] == ("jit:avx512", "jit_bf16:avx512", "native")
    assert found["precision"] == ("fp32", "bf16", NO_PRODUCT)
    assert found["fp32"] == ("60.0 %", "–", "40.0 %")


def test_hostile_names_are_text() -> None:
    """In the legend and above the bar."""
    one = KernelBar(HOSTILE, (KernelShare(HOSTILE, HOSTILE, 0.1),))
    assert "<script>" in "".join(texts(svg(kernels.plot(Kernels(HOSTILE, (one,))))))
