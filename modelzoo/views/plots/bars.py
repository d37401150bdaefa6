"""Stacked bars, one per setting: stages of pipelines, kernels of audited passes, and the products along a network.

Kernels are shares only: logging makes some passes slower than others, so the seconds of two settings say nothing about
their speed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from modelzoo.document import theme
from modelzoo.formatting import MISSING, seconds, share, time_unit
from modelzoo.records.evidence import Evidence, Product
from modelzoo.records.timing import Place
from modelzoo.results.parts import PipelineLevels
from modelzoo.views.kernel_tables import layers_text, shapes_text
from modelzoo.views.plots import Plot, add_legend, captioned, columns, draw_lanes, few, write_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NUMBERED_FROM = 0.04
"""Share of the longest bar from which on a segment has its number in it."""
MOST_KERNELS = 12
"""Kernels of one plot; the others are summed up."""
NO_PRODUCT = "no matrix product"
"""In place of the precision of what multiplies no matrices: memory movement, dispatch, element-wise operators."""
OTHERS = ("others", NO_PRODUCT)
_HEIGHT = 28.0
"""Of a bar in CSS pixels."""
_PLACES = {Place.HOST: (theme.ORANGE, "////"), Place.DEVICE: (theme.SKY, "")}

Key = tuple[str, str]
"""A kernel and the precision of its products."""


class Segment(msgspec.Struct, frozen=True):
    """A part of a bar.

    Attributes:
        name: in the legend.
        length: on the axis; 0 if the bar lacks it.
        look: colour and hatch.
        number: written into it and before its name; 0: none is.
    """

    name: str
    length: float
    look: tuple[str, str]
    number: int = 0


def draw(bars: Sequence[tuple[str, Sequence[Segment]]], axis: str, figure: Figure) -> float:
    """Draw the bars, each with the text above it and its segments; ``axis``: what their length is, with its unit."""
    end = max(sum(each.length for each in segments) for _, segments in bars)
    axes: Axes = figure.add_subplot(xlim=(0, end), xlabel=axis)
    middles, height = draw_lanes(axes, [(label, "") for label, _ in bars], _HEIGHT)
    named: set[str] = set()
    for (_, segments), middle in zip(bars, middles):
        left = 0.0
        for each in segments:
            name = f"{each.number} {each.name}" if each.number else each.name
            label = None if name in named else name
            named.add(name)
            colour, hatch = each.look
            (bar,) = axes.barh(middle, each.length, _HEIGHT, left=left, label=label, color=colour, hatch=hatch)
            bar.set(edgecolor=theme.PAGE, linewidth=0.5)
            if each.number and each.length >= NUMBERED_FROM * end:
                write_number(axes, each.number, (left + each.length / 2, middle))
            left += each.length
    add_legend(figure)
    return height


def stages(workload: str, found: Sequence[PipelineLevels]) -> Plot:
    """Return the plot of the stages of at least one pipeline."""
    levels = [
        {(each.name, each.place): (level.value, one.share(each)) for each, level in one.stages.items()} for one in found
    ]
    keys = list(dict.fromkeys(key for own in levels for key in own))
    unit, scale = time_unit(max(one.sum for one in few(found)))
    bars = []
    for one, own in zip(few(found), levels):
        lengths = [scale * own[key][0] if key in own else 0.0 for key in keys]
        parts = enumerate(zip(keys, lengths), 1)
        segments = [Segment(f"{name}, on the {on}", length, _PLACES[on], n) for n, ((name, on), length) in parts]
        bars.append((f"{one.label}: {seconds(one.sum)}", segments))
    cells = [
        [f"{seconds(own[key][0])} ({share(own[key][1])})" if key in own else MISSING for own in levels] for key in keys
    ]
    labels = [one.label for one in found]
    rows = [(name, str(place), *texts) for (name, place), texts in zip(keys, cells)]
    caption = captioned("Seconds of each stage per batch, the level of the processes' medians.", found)
    table = columns(("stage", "on", *labels), rows, numbers=labels)
    return Plot(f"{workload}: time by stage", caption, table, partial(draw, bars, f"time per batch in {unit}"))


def kernel_shares(evidence: Evidence) -> dict[Key, float]:
    """The share of the audited passes that each kernel took in each precision, the largest first.

    The audit has the time by kernel, and for products the time by kernel and precision; a kernel that computed
    products in several precisions is divided by the latter.
    """
    products: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for use in evidence.operators:
        products[use.implementation][use.precision] += use.kernel_seconds
    total, shares = sum(row.seconds for row in evidence.by_implementation), {}
    for row in evidence.by_implementation:
        parts = products.get(row.name) or {NO_PRODUCT: 1.0}
        whole = sum(parts.values())
        for precision, part in parts.items():
            of_kernel = part / whole if whole else 1 / len(parts)
            if row.seconds * of_kernel:
                shares[row.name, precision] = row.seconds * of_kernel / total
    return dict(sorted(shares.items(), key=lambda each: -each[1]))


def kernels(workload: str, audits: Sequence[tuple[str, dict[Key, float]]]) -> Plot | None:
    """Return the plot of the kernels of each setting, as ``kernel_shares`` has them; ``None`` without any."""
    audited = [(label, shares) for label, shares in audits if shares]
    if not audited:
        return None
    keys = _ordered(shares for _, shares in few(audited))
    if len(keys) > MOST_KERNELS:
        largest = {key: max(shares.get(key, 0.0) for _, shares in few(audited)) for key in keys}
        smallest = sorted(keys, key=lambda key: -largest[key])[MOST_KERNELS - 1 :]
        keys = [*(key for key in keys if key not in smallest), OTHERS]
    bars = []
    for label, shares in few(audited):
        found = {key: shares.get(key, 0.0) for key in keys}
        if OTHERS in keys:
            found[OTHERS] = sum(shares.values()) - sum(found.values())
        segments = [
            Segment(name, 100 * value, (theme.GREY, ""), number)
            if precision == NO_PRODUCT
            else Segment(f"{name}, {precision}", 100 * value, theme.precision_style(precision), number)
            for number, ((name, precision), value) in enumerate(found.items(), 1)
        ]
        by_precision = _by_precision((precision, value) for (_, precision), value in found.items())
        bars.append((f"{label}: {by_precision}", segments))
    caption = (
        "Share of the time of the audited passes by kernel and precision. Audited passes run after the timed ones and "
        "log every kernel, so their length says nothing about the latency and is not shown."
    )
    labels = [label for label, _ in audited]
    rows = [
        (*key, *(share(shares[key]) if key in shares else MISSING for _, shares in audited))
        for key in _ordered(shares for _, shares in audited)
    ]
    table = columns(("kernel", "precision", *labels), rows, numbers=labels)
    title = f"{workload}: time by kernel and precision"
    axis = "share of the audited passes in %"
    return Plot(title, captioned(caption, audited), table, partial(draw, bars, axis))


def _ordered(found: Iterable[dict[Key, float]]) -> list[Key]:
    """All kernels: products by precision first, then the rest; within these the largest first."""
    largest: dict[Key, float] = defaultdict(float)
    for shares in found:
        for key, value in shares.items():
            largest[key] = max(largest[key], value)
    return sorted(largest, key=lambda key: (key[1] == NO_PRODUCT, -largest[key]))


def _by_precision(parts: Iterable[tuple[str, float]]) -> str:
    """``62 % bf16, 38 % no matrix product``."""
    shares: dict[str, float] = defaultdict(float)
    for precision, value in parts:
        shares[precision] += value
    ordered = sorted(shares.items(), key=lambda part: (part[0] == NO_PRODUCT, -part[1]))
    return ", ".join(f"{share(value, 0)} {precision}" for precision, value in ordered if value)


def network(workload: str, settings: Sequence[tuple[str, Sequence[Product]]]) -> Plot | None:
    """Return the plot of the products of each setting, in the order of their first calls.

    Args:
        workload: its name.
        settings: label and products of each; ``None`` is returned if those of none were replayed.
    """
    found = [(label, products) for label, products in settings if any(each.share for each in products)]
    if not found:
        return None
    bars = []
    for label, products in few(found):
        total = sum(each.share or 0.0 for each in products)
        parts = [(each.precision, (each.share or 0.0) / total) for each in products]
        segments = [Segment(kind, 100 * part, theme.precision_style(kind)) for kind, part in parts]
        bars.append((f"{label}: {_by_precision(parts)}", segments))
    caption = (
        "Each segment is one product with its own shape, or several calls of it, in the order in which they first ran. "
        "Its length is its share of the audited passes' time in products, its colour the precision that was shown."
    )
    rows = [
        (label, layers_text(each), each.operator, shapes_text(each.shapes[:2]), share(each.share), each.precision)
        for label, products in found
        for each in products
    ]
    titles = ("setting", "layer", "operator", "shapes", "share", "precision")
    draw_all = partial(draw, bars, "share of the time in products in %, from first to last")
    table = columns(titles, rows, numbers=("share",))
    return Plot(f"{workload}: precision along the network", captioned(caption, found), table, draw_all)
