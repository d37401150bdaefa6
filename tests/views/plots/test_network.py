"""The precision along the network."""

from __future__ import annotations

from drawn import check, svg, texts

from modelzoo.document import theme
from modelzoo.frozen import replace
from modelzoo.records.evidence import OperatorClass, Product
from modelzoo.views.plots import network
from modelzoo.views.plots.plot import Plot

CONV = Product(
    "aten::convolution", OperatorClass.CONV, ((1, 3, 8, 8),), "fp32", 1, ("stem",), precision="fp32", share=0.3
)
HEAD = replace(CONV, operator="aten::addmm", layers=("head",), precision="bf16", share=0.1)


def drawn(*settings: network.Network) -> Plot:
    found = network.plot("toy", settings)
    assert found is not None
    return found


def test_segments_are_shares_of_the_time_in_products() -> None:
    """Each setting says how much ran in which precision; colours, hatches and words are those of the legend."""
    plot = drawn(("fp32", (CONV, replace(HEAD, precision="fp32"))), ("bf16", (HEAD, CONV)))
    text = svg(plot)
    check(text)
    shown = texts(text)
    assert {"fp32: 100 % fp32", "bf16: 75 % fp32, 25 % bf16"} <= set(shown)
    assert [each for each in shown if each in ("fp32", "bf16", "unknown precision")] == ["fp32", "bf16"]
    assert svg(plot) == text
    assert theme.BLUE in text and theme.VERMILLION in text, "the colours of the roofline"


def test_all_of_it_is_a_table() -> None:
    """In the order of the network, also what the audit has no time for."""
    plot = drawn(("fp32", (CONV, replace(HEAD, share=None))))
    assert [column.cells for column in plot.columns] == [
        ("fp32", "fp32"),
        ("stem", "head"),
        ("aten::convolution", "aten::addmm"),
        ("1×3×8×8", "1×3×8×8"),
        ("30.0 %", "–"),
        ("fp32", "bf16"),
    ]


def test_without_replays_there_is_no_plot() -> None:
    """Compiled models, and other engines."""
    assert network.plot("toy", [("fp32", ()), ("bf16", (replace(CONV, share=None),))]) is None
