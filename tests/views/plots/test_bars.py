"""Stacked bars: stages, kernels, and the products along a network."""

from __future__ import annotations


import pytest
from drawn import checked, columns, filled, svg, texts
from fake_runs import evidence
from matplotlib.figure import Figure
from shown_documents import staged

from modelzoo.document import theme
from modelzoo.frozen import replace
from modelzoo.records.coverage import TimeShare
from modelzoo.records.evidence import OperatorClass, OperatorUse, Product, ProofSource, ProofVerdict
from modelzoo.records.timing import MODEL
from modelzoo.results.pipeline import pipelines
from modelzoo.views.plots import bars
from modelzoo.views.plots.bars import NO_PRODUCT, Key, Segment

FP32: dict[Key, float] = {("jit:avx512", "fp32"): 0.6, ("native", NO_PRODUCT): 0.4}
BF16: dict[Key, float] = {
    ("jit_bf16:avx512", "bf16"): 0.5,
    ("native", NO_PRODUCT): 0.3,
    ("jit:avx512", "fp32"): 0.2,
}
CONV = Product(
    "aten::convolution", OperatorClass.CONV, ((1, 3, 8, 8),), "fp32", 1, ("stem",), precision="fp32", share=0.3
)
HEAD = replace(CONV, operator="aten::addmm", layers=("head",), precision="bf16", share=0.1)


def test_segments_follow_each_other_and_a_wide_label_does_not_squeeze_them() -> None:
    """The axis ends with the longest bar; matplotlib would make room for the label at the expense of the axes."""
    look = (theme.SKY, "")
    first = ("W" * 60, (Segment("long", 300, look, 1), Segment("short", 100, look, 2)))
    figure = Figure(figsize=(6, 4), layout="constrained")
    bars.draw([first, ("second", (Segment("long", 200, look, 1),))], "time in ms", figure)
    (axes,) = figure.axes
    assert [(patch.get_x(), patch.get_width()) for patch in axes.patches] == [(0, 300), (300, 100), (0, 200)]
    assert axes.get_xlim() == pytest.approx((0, 400))
    figure.draw_without_rendering()
    assert axes.get_position().width > 0.8


def test_every_stage_is_in_the_plot_with_its_place() -> None:
    """The bar has the sum of the stages above it; the table has seconds and shares, one column per setting."""
    plot = bars.stages("toy", pipelines(staged()))
    assert {"1 decode, on the host", "fp32 stages: 100.0 ms", "time per batch in ms"} <= set(texts(checked(plot)))
    assert columns(plot) == {
        "stage": ("decode", MODEL, "answer"),
        "on": ("host", "device", "host"),
        "fp32 stages": ("20.00 ms (20.0 %)", "70.00 ms (70.0 %)", "10.00 ms (10.0 %)"),
    }


def test_a_kernel_that_ran_in_two_precisions_is_divided() -> None:
    """By the time of its products; what multiplies nothing has no precision, and what took no time is left out."""
    uses = (
        OperatorUse("aten::mm", OperatorClass.MATMUL, (), "mkl", precision, ProofSource.BOTH, 1, seconds, seconds)
        for precision, seconds in (("bf16", 0.3), ("fp32", 0.1))
    )
    audit = replace(
        evidence(ProofVerdict.PARTLY),
        by_implementation=(TimeShare("mkl", 8.0, 0.8, 4), TimeShare("native", 2.0, 0.2, 9), TimeShare("x", 0.0, 0, 0)),
        operators=tuple(uses),
    )
    shares = bars.kernel_shares(audit)
    assert list(shares) == [("mkl", "bf16"), ("mkl", "fp32"), ("native", NO_PRODUCT)]
    assert list(shares.values()) == pytest.approx([0.6, 0.2, 0.2]), "no seconds, which do not compare with latencies"


def test_segments_are_numbered_as_in_the_legend() -> None:
    """Two settings share its entries; a precision is a colour, a hatch and a word; what did not run has no share."""
    plot = bars.kernels("toy", [("fp32", FP32), ("bf16", BF16)])
    text = checked(plot)
    shown = texts(text)
    assert {"fp32: 60 % fp32, 40 % no matrix product", "1 jit:avx512, fp32", "3 native"} <= set(shown)
    assert [shown.count(number) for number in ("1", "2", "3")] == [2, 1, 2]
    assert text.count("<pattern") == 1, "a hatch where colours are not seen"
    assert filled(svg(bars.kernels("toy", [("fp32", FP32)])), "--plot-blue") == 2  # one segment, one entry
    found = columns(plot)
    assert found["precision"] == ("fp32", "bf16", NO_PRODUCT)
    assert found["fp32"] == ("60.0 %", "–", "40.0 %")


def test_many_kernels_are_summed_up() -> None:
    """The longest are kept; the bars keep their length; the table has all. Without kernels there is no plot."""
    plot = bars.kernels("toy", [("fp32", {(f"kernel {i}", "fp32"): (i + 1) / 820 for i in range(40)})])
    text = checked(plot)
    shown = texts(text)
    assert "12 others" in shown and "1 kernel 39, fp32" in shown and "kernel 0" not in " ".join(shown)
    assert len(columns(plot)["kernel"]) == 40
    assert bars.kernels("toy", [("fp32", {})]) is None


def test_the_products_of_a_network_are_shares_of_their_time() -> None:
    """The table has all of them, also what the audit has no time for; without replays there is no plot."""
    unknown = replace(HEAD, share=None)
    plot = bars.network("toy", [("fp32", (CONV, replace(HEAD, precision="fp32"))), ("bf16", (HEAD, CONV, unknown))])
    shown = texts(checked(plot))
    assert {"fp32: 100 % fp32", "bf16: 75 % fp32, 25 % bf16"} <= set(shown)
    assert [each for each in shown if each in ("fp32", "bf16", "unknown precision")] == ["fp32", "bf16"]
    found = columns(plot)
    assert found["setting"] == ("fp32",) * 2 + ("bf16",) * 3
    assert found["layer"] == ("stem", "head", "head", "stem", "head")
    assert found["share"] == ("30.0 %", "10.0 %", "10.0 %", "30.0 %", "–")
    assert bars.network("toy", [("fp32", ()), ("bf16", (replace(CONV, share=None),))]) is None
