"""The products of a network in the order in which they first run, coloured by precision: one bar per setting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Optional

from modelzoo.document import Column, theme
from modelzoo.formatting import MISSING
from modelzoo.records.evidence import Product
from modelzoo.views.plots.plot import Plot, add_legend, captioned, few, height_of, wrapped
from modelzoo.views.plots.svg import HALO
from modelzoo.views.products import layers_text, shapes_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINE, _BAR, _GAP = 16.0, 28.0, 10.0
"""Heights in CSS pixels."""

Network = tuple[str, Sequence[Product]]
"""The label of a setting, and its products in the order of their first calls."""


def plot(workload: str, settings: Sequence[Network]) -> Optional[Plot]:
    """Return the plot of the settings whose products were replayed; ``None`` if those of none were."""
    found = [(label, products) for label, products in settings if any(each.share for each in products)]
    if not found:
        return None
    drawn = few(found)
    kinds = _kinds(drawn)
    caption = (
        "Each segment is one product with its own shape, or several calls of it, in the order in which they first ran. "
        "Its length is its share of the audited passes' time in products, its colour the precision that was shown."
    )
    height = sum(map(_height, drawn)) + 46 + height_of(kinds)
    draw = partial(_draw, drawn, kinds)
    return Plot(f"{workload}: precision along the network", captioned(caption, found), _columns(found), height, draw)


def _kinds(drawn: Sequence[Network]) -> list[str]:
    """The precisions, those that take the most time first."""
    shares: dict[str, float] = defaultdict(float)
    for _, products in drawn:
        for each in products:
            shares[each.precision] += each.share or 0.0
    return sorted(shares, key=lambda kind: -shares[kind])


def _label(one: Network) -> str:
    label, products = one
    total = sum(each.share or 0.0 for each in products)
    shares: dict[str, float] = defaultdict(float)
    for each in products:
        shares[each.precision] += (each.share or 0.0) / total
    ordered = sorted(shares.items(), key=lambda part: -part[1])
    return wrapped(f"{label}: " + ", ".join(f"{100 * share:.0f} % {kind}" for kind, share in ordered))


def _height(one: Network) -> float:
    return _LINE * (1 + _label(one).count("\n")) + _BAR + _GAP


def _draw(drawn: Sequence[Network], kinds: Sequence[str], figure: Figure) -> None:
    axes = figure.add_subplot()
    bottoms = list(accumulate(map(_height, drawn)))
    axes.set_xlim(0, 100)
    axes.set_ylim(bottoms[-1], 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("share of the time in products in %, from first to last")
    for kind in kinds:
        colour, hatch = theme.precision_style(kind)
        axes.barh([0], [0], 0, color=colour, hatch=hatch, ec=theme.PAGE, label=kind)
    for one, bottom in zip(drawn, bottoms):
        axes.text(0, bottom - _height(one), _label(one), va="top", gid=HALO, in_layout=False)
        shares = [each.share or 0.0 for each in one[1]]
        ends = list(accumulate(100 * share / sum(shares) for share in shares))
        for each, begin, end in zip(one[1], [0.0, *ends], ends):
            colour, hatch = theme.precision_style(each.precision)
            middle = bottom - _GAP - _BAR / 2
            axes.barh(middle, end - begin, _BAR, left=begin, color=colour, hatch=hatch, ec=theme.PAGE, lw=0.5)
    add_legend(figure)


def _columns(found: Sequence[Network]) -> list[Column]:
    rows = [(label, each) for label, products in found for each in products]
    return [
        Column("setting", tuple(label for label, _ in rows)),
        Column("layer", tuple(layers_text(each) for _, each in rows)),
        Column("operator", tuple(each.operator for _, each in rows)),
        Column("shapes", tuple(shapes_text(each.shapes[:2]) for _, each in rows)),
        Column(
            "share", tuple(MISSING if e.share is None else f"{100 * e.share:.1f} %" for _, e in rows), is_number=True
        ),
        Column("precision", tuple(each.precision for _, each in rows)),
    ]
