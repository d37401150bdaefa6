"""Stacked bars: stages, kernels, and the products along a network."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import HOSTILE, check, filled, svg, texts
from fake_runs import evidence
from fake_runs import result_of as result
from matplotlib.figure import Figure
from pipelines import pipeline_run
from stored_results import STORED, unpacked

from modelzoo.document import theme
from modelzoo.frozen import replace
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import OperatorClass, OperatorUse, Product, ProofSource, ProofVerdict
from modelzoo.records.timing import LATENCY, MODEL
from modelzoo.results import store
from modelzoo.results.pipeline import pipelines
from modelzoo.views.plots import bars
from modelzoo.views.plots.bars import NO_PRODUCT, Key, Segment
from modelzoo.views.plots.plot import Plot

FP32: dict[Key, float] = {("jit:avx512", "fp32"): 0.6, ("native", NO_PRODUCT): 0.4}
BF16: dict[Key, float] = {
    ("jit_bf16:avx512", "bf16"): 0.5,
    ("native", NO_PRODUCT): 0.3,
    ("jit:avx512", "fp32"): 0.2,
}
COLUMNS = {LATENCY: [0.1], "decode": [0.02], MODEL: [0.07], "answer": [0.01]}
CONV = Product(
    "aten::convolution", OperatorClass.CONV, ((1, 3, 8, 8),), "fp32", 1, ("stem",), precision="fp32", share=0.3
)
HEAD = replace(CONV, operator="aten::addmm", layers=("head",), precision="bf16", share=0.1)


def _kernels(*audits: tuple[str, dict[Key, float]]) -> Plot:
    found = bars.kernels("toy", audits)
    assert found is not None
    return found


DATA = _kernels(("fp32", FP32), ("bf16", BF16))


def test_segments_follow_each_other_and_a_wide_label_does_not_squeeze_them() -> None:
    """The axis ends with the longest bar; matplotlib would make room for the label at the expense of the axes."""
    look, other = (theme.SKY, ""), (theme.GREY, "////")
    first = ("W" * 60, (Segment("long", 300, look, 1), Segment("short", 100, other, 2)))
    second = ("second", (Segment("long", 200, look, 1), Segment("short", 0, other, 2)))
    figure = Figure(figsize=(6, 4), layout="constrained")
    bars.draw([first, second], "time in ms", figure)
    (axes,) = figure.axes
    drawn = [(patch.get_x(), patch.get_width()) for patch in axes.patches]
    assert [value for each in drawn for value in each] == pytest.approx([0, 300, 300, 100, 0, 200, 200, 0])
    assert axes.get_xlim() == pytest.approx((0, 400))
    figure.draw_without_rendering()
    assert axes.get_position().width > 0.8


def test_every_stage_is_in_the_plot_with_its_place() -> None:
    """The bar has the sum of the stages above it; the table has seconds and shares, one column per setting."""
    plot = bars.stages("toy", pipelines(result(pipeline_run(COLUMNS))))
    check(svg(plot))
    shown = {"1 decode, on the host", "2 model, on the device", "3 answer, on the host", "fp32 stages: 100.0 ms"}
    assert {*shown, "time per batch in ms"} <= set(texts(svg(plot)))
    cells = {column.title: column.cells for column in plot.columns}
    assert cells["stage"] == ("decode", MODEL, "answer")
    assert cells["on"] == ("host", "device", "host")
    assert cells["fp32 stages"] == ("20.00 ms (20.0 %)", "70.00 ms (70.0 %)", "10.00 ms (10.0 %)")


def _use(implementation: str, precision: str, seconds: float) -> OperatorUse:
    return OperatorUse(
        "aten::mm", OperatorClass.MATMUL, (), implementation, precision, ProofSource.BOTH, 1, seconds, seconds
    )


def test_a_kernel_that_ran_in_two_precisions_is_divided() -> None:
    """By the time of its products; what multiplies nothing has no precision, and what took no time is left out."""
    audit = replace(
        evidence(ProofVerdict.PARTLY),
        iterations=2,
        by_implementation=(TimeShare("mkl", 0.8, 0.8, 4), TimeShare("native", 0.2, 0.2, 9), TimeShare("x", 0.0, 0, 0)),
        operators=(_use("mkl", "bf16", 0.3), _use("mkl", "fp32", 0.1)),
    )
    shares = bars.kernel_shares(audit)
    assert list(shares) == [("mkl", "bf16"), ("mkl", "fp32"), ("native", NO_PRODUCT)]
    assert list(shares.values()) == pytest.approx([0.6, 0.2, 0.2])


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_the_kernels_of_real_audits_add_up(path: Path, tmp_path: Path) -> None:
    """To the whole pass."""
    for run in store.read(unpacked(path, tmp_path)).runs:
        if run.report and run.report.observed.evidence:
            assert sum(bars.kernel_shares(run.report.observed.evidence).values()) == pytest.approx(1)


def test_segments_are_numbered_as_in_the_legend() -> None:
    """Two settings share the entries of the legend; the precision is a colour, a hatch and a word."""
    text = svg(DATA)
    check(text)
    shown = texts(text)
    assert "fp32: 60 % fp32, 40 % no matrix product" in shown
    expected = {"1 jit:avx512, fp32", "2 jit_bf16:avx512, bf16", "3 native", "share of the audited passes in %"}
    assert expected <= set(shown)
    assert [shown.count(number) for number in ("1", "2", "3")] == [2, 1, 2]
    assert svg(DATA) == text
    only = svg(_kernels(("fp32", FP32)))
    assert (text.count("<pattern"), only.count("<pattern")) == (1, 0), "a hatch where colours are not seen"
    assert filled(only, "--plot-blue") == 2  # one segment, one entry


def test_audited_passes_do_not_look_like_latencies() -> None:
    """A setting whose audited passes take ten times as long has a bar of the same length, and no seconds."""
    audit = replace(evidence(ProofVerdict.FP32), iterations=1, by_implementation=(TimeShare("a", 1.0, 1.0, 1),))
    slower = replace(audit, by_implementation=(TimeShare("a", 10.0, 1.0, 1),))
    found = _kernels(("fp32", bars.kernel_shares(audit)), ("bf16", bars.kernel_shares(slower)))
    assert [column.cells for column in found.columns[2:]] == [("100.0 %",), ("100.0 %",)]


def test_many_kernels_are_summed_up() -> None:
    """The longest are kept; the bars keep their length; the table has all."""
    plot = _kernels(("fp32", {(f"kernel {i}", "fp32"): (i + 1) / 820 for i in range(40)}))
    text = svg(plot)
    check(text)
    shown = texts(text)
    assert "12 others" in shown and "1 kernel 39, fp32" in shown and "kernel 0" not in " ".join(shown)
    assert len(plot.columns[0].cells) == 40


def test_without_audits_there_is_no_plot() -> None:
    """Nor for a setting without kernels."""
    assert bars.kernels("toy", []) is None
    assert bars.kernels("toy", [("fp32", {})]) is None


def test_the_table_has_the_share_of_every_kernel() -> None:
    """A kernel that a setting did not run has no value; hostile names are text."""
    found = {column.title: column.cells for column in DATA.columns}
    assert found["kernel"] == ("jit:avx512", "jit_bf16:avx512", "native")
    assert found["precision"] == ("fp32", "bf16", NO_PRODUCT)
    assert found["fp32"] == ("60.0 %", "–", "40.0 %")
    assert "<script>" in "".join(texts(svg(_kernels((HOSTILE, {(HOSTILE, HOSTILE): 1.0})))))


def test_the_products_of_a_network_are_shares_of_their_time() -> None:
    """Each setting says how much ran in which precision; colours, hatches and words are those of the legend."""
    plot = bars.network("toy", [("fp32", (CONV, replace(HEAD, precision="fp32"))), ("bf16", (HEAD, CONV))])
    text = svg(plot)
    check(text)
    shown = texts(text)
    assert {"fp32: 100 % fp32", "bf16: 75 % fp32, 25 % bf16"} <= set(shown)
    assert [each for each in shown if each in ("fp32", "bf16", "unknown precision")] == ["fp32", "bf16"]
    assert theme.BLUE in text and theme.VERMILLION in text, "the colours of the roofline"


def test_all_of_a_network_is_a_table() -> None:
    """In its order, also what the audit has no time for; without replays there is no plot."""
    plot = bars.network("toy", [("fp32", (CONV, replace(HEAD, share=None)))])
    assert plot is not None
    assert [column.cells for column in plot.columns] == [
        ("fp32", "fp32"),
        ("stem", "head"),
        ("aten::convolution", "aten::addmm"),
        ("1×3×8×8", "1×3×8×8"),
        ("30.0 %", "–"),
        ("fp32", "bf16"),
    ]
    assert bars.network("toy", [("fp32", ()), ("bf16", (replace(CONV, share=None),))]) is None
