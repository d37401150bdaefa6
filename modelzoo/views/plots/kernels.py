"""How the audited passes divide by kernel and precision, one bar per setting.

Shares only: logging makes some passes slower than others, so the seconds of two settings say nothing about their speed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Optional

import msgspec

from modelzoo.document import Column, theme
from modelzoo.formatting import MISSING
from modelzoo.records.evidence import Evidence
from modelzoo.views.plots import bars
from modelzoo.views.plots.bars import Key, Look, StackedBar
from modelzoo.views.plots.plot import Plot, captioned, few

MOST_KERNELS = 12
"""Kernels of one plot; the others are summed up."""
NO_PRODUCT = "no matrix product"
"""In place of the precision of what multiplies no matrices: memory movement, dispatch, element-wise operators."""
OTHERS = "others"
_LOOK = Look(
    "share of the audited passes",
    style=lambda precision: (theme.GREY, "") if precision == NO_PRODUCT else theme.precision_style(precision),
    kind=lambda precision: "" if precision == NO_PRODUCT else precision,
    is_share=True,
)


class KernelShare(msgspec.Struct, frozen=True):
    """One kernel in one precision.

    Attributes:
        kernel: its name.
        precision: that of its products; ``NO_PRODUCT`` if it multiplies no matrices.
        share: of the passes, 0 to 1.
    """

    kernel: str
    precision: str
    share: float


class KernelBar(msgspec.Struct, frozen=True):
    """One setting.

    Attributes:
        label: the setting.
        shares: of its kernels, the largest first; they add up to 1.
    """

    label: str
    shares: tuple[KernelShare, ...]


class Kernels(msgspec.Struct, frozen=True):
    """The settings of one workload."""

    workload: str
    bars: tuple[KernelBar, ...]


def bar(label: str, evidence: Evidence) -> KernelBar:
    """The kernels of one audit, by precision.

    The audit has the time by kernel, and for products the time by kernel and precision; a kernel that computed
    products in several precisions is divided by the latter.
    """
    products: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for use in evidence.operators:
        products[use.implementation][use.precision] += use.kernel_seconds
    total, shares = sum(row.seconds for row in evidence.by_implementation), []
    for row in evidence.by_implementation:
        parts = products.get(row.name) or {NO_PRODUCT: 1.0}
        whole = sum(parts.values())
        for precision, part in parts.items():
            of_kernel = part / whole if whole else 1 / len(parts)
            if row.seconds * of_kernel:
                shares.append(KernelShare(row.name, precision, row.seconds * of_kernel / total))
    return KernelBar(label, tuple(sorted(shares, key=lambda each: -each.share)))


def columns(data: Kernels) -> list[Column]:
    """The kernels as a table: their shares of the audited passes, for every setting."""
    keys = _ordered(data.bars)
    shown = [Column("kernel", tuple(key[0] for key in keys)), Column("precision", tuple(key[1] for key in keys))]
    for one in data.bars:
        shares = _by_key(one)
        cells = tuple(f"{100 * shares[key]:.1f} %" if key in shares else MISSING for key in keys)
        shown.append(Column(one.label, cells, is_number=True))
    return shown


def _by_key(one: KernelBar) -> dict[Key, float]:
    return {(each.kernel, each.precision): each.share for each in one.shares}


def _ordered(drawn: Sequence[KernelBar]) -> list[Key]:
    """All kernels: products by precision first, then the rest; within these the largest first."""
    largest: dict[Key, float] = defaultdict(float)
    for one in drawn:
        for key, share in _by_key(one).items():
            largest[key] = max(largest[key], share)
    return sorted(largest, key=lambda key: (key[1] == NO_PRODUCT, -largest[key]))


def _summed_up(drawn: Sequence[KernelBar]) -> list[KernelBar]:
    """The bars with at most ``MOST_KERNELS`` kernels; the smallest ones become ``OTHERS``."""
    keys = _ordered(drawn)
    if len(keys) <= MOST_KERNELS:
        return list(drawn)
    largest = {key: max(_by_key(one).get(key, 0.0) for one in drawn) for key in keys}
    kept = set(sorted(keys, key=lambda key: -largest[key])[: MOST_KERNELS - 1])
    shortened = []
    for one in drawn:
        rest = sum(each.share for each in one.shares if (each.kernel, each.precision) not in kept)
        shares = [each for each in one.shares if (each.kernel, each.precision) in kept]
        shortened.append(KernelBar(one.label, (*shares, KernelShare(OTHERS, NO_PRODUCT, rest))))
    return shortened


def plot(data: Kernels) -> Optional[Plot]:
    """Return the plot of the bars; ``None`` without audits."""
    audited = [one for one in data.bars if one.shares]
    if not audited:
        return None
    drawn = _summed_up(few(audited))
    keys = _ordered(drawn)
    stacks = [StackedBar(f"{one.label}: {_shares(one)}", _by_key(one)) for one in drawn]
    caption = (
        "Share of the time of the audited passes by kernel and precision. Audited passes run after the timed ones and "
        "log every kernel, so their length says nothing about the latency and is not shown."
    )
    title = f"{data.workload}: time by kernel and precision"
    draw, height = partial(bars.draw, stacks, keys, _LOOK), bars.height(stacks, keys, _LOOK)
    return Plot(title, captioned(caption, audited), columns(Kernels(data.workload, tuple(audited))), height, draw)


def _shares(one: KernelBar) -> str:
    """``62 % bf16, 38 % no matrix product``."""
    shares: dict[str, float] = defaultdict(float)
    for each in one.shares:
        shares[each.precision] += each.share
    ordered = sorted(shares.items(), key=lambda part: (part[0] == NO_PRODUCT, -part[1]))
    return ", ".join(f"{100 * share:.0f} % {precision}" for precision, share in ordered)
