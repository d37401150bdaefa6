"""The time of the audited passes by kernel and precision, one bar per setting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Optional

import msgspec

from modelzoo.document import Column, theme
from modelzoo.formatting import MISSING, seconds
from modelzoo.records.evidence import Evidence
from modelzoo.views.plots import bars
from modelzoo.views.plots.bars import Key, Look, StackedBar
from modelzoo.views.plots.plot import Plot, captioned, few

MOST_KERNELS = 12
"""Kernels of one plot; the others are summed up."""
NO_PRODUCT = "no matrix product"
"""In place of the precision of what multiplies no matrices: memory movement, dispatch, element-wise operators."""
OTHERS = "others"
_STYLES = {"fp32": (theme.SKY, ""), "bf16": (theme.ORANGE, "////"), NO_PRODUCT: (theme.GREY, "")}
_OTHER_PRECISION = (theme.PURPLE, "....")
_LOOK = Look(
    "time per audited pass",
    style=lambda precision: _STYLES.get(precision, _OTHER_PRECISION),
    kind=lambda precision: "" if precision == NO_PRODUCT else precision,
)


class KernelTime(msgspec.Struct, frozen=True):
    """One kernel in one precision.

    Attributes:
        kernel: its name.
        precision: that of its products; ``NO_PRODUCT`` if it multiplies no matrices.
        seconds: per pass.
    """

    kernel: str
    precision: str
    seconds: float


class KernelBar(msgspec.Struct, frozen=True):
    """One setting.

    Attributes:
        label: the setting.
        times: of its kernels, the longest first; they add up to the time of a pass.
    """

    label: str
    times: tuple[KernelTime, ...]

    @property
    def total(self) -> float:
        """Seconds of a pass."""
        return sum(each.seconds for each in self.times)


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
    passes, times = max(evidence.iterations, 1), []
    for row in evidence.by_implementation:
        parts = products.get(row.name) or {NO_PRODUCT: 1.0}
        whole = sum(parts.values())
        for precision, part in parts.items():
            share = part / whole if whole else 1 / len(parts)
            times.append(KernelTime(row.name, precision, row.seconds * share / passes))
    return KernelBar(label, tuple(sorted((each for each in times if each.seconds), key=lambda each: -each.seconds)))


def columns(data: Kernels) -> list[Column]:
    """The kernels as a table: time per audited pass and share of it, for every setting."""
    keys = _ordered(data.bars)
    shown = [Column("kernel", tuple(key[0] for key in keys)), Column("precision", tuple(key[1] for key in keys))]
    for one in data.bars:
        times = _by_key(one)
        cells = tuple(_cell(times[key], one.total) if key in times else MISSING for key in keys)
        shown.append(Column(one.label, cells, is_number=True))
    return shown


def _cell(spent: float, total: float) -> str:
    return f"{seconds(spent)} ({100 * spent / total:.1f} %)"


def _by_key(one: KernelBar) -> dict[Key, float]:
    return {(each.kernel, each.precision): each.seconds for each in one.times}


def _ordered(drawn: Sequence[KernelBar]) -> list[Key]:
    """All kernels: products by precision first, then the rest; within these the longest first."""
    longest: dict[Key, float] = defaultdict(float)
    for one in drawn:
        for key, spent in _by_key(one).items():
            longest[key] = max(longest[key], spent)
    return sorted(longest, key=lambda key: (key[1] == NO_PRODUCT, -longest[key]))


def _summed_up(drawn: Sequence[KernelBar]) -> list[KernelBar]:
    """The bars with at most ``MOST_KERNELS`` kernels; the shortest ones become ``OTHERS``."""
    keys = _ordered(drawn)
    if len(keys) <= MOST_KERNELS:
        return list(drawn)
    longest = {key: max(_by_key(one).get(key, 0.0) for one in drawn) for key in keys}
    kept = set(sorted(keys, key=lambda key: -longest[key])[: MOST_KERNELS - 1])
    shortened = []
    for one in drawn:
        rest = sum(each.seconds for each in one.times if (each.kernel, each.precision) not in kept)
        times = [each for each in one.times if (each.kernel, each.precision) in kept]
        shortened.append(KernelBar(one.label, (*times, KernelTime(OTHERS, NO_PRODUCT, rest))))
    return shortened


def plot(data: Kernels) -> Optional[Plot]:
    """Return the plot of the bars; ``None`` without audits."""
    audited = [one for one in data.bars if one.times]
    if not audited:
        return None
    drawn = _summed_up(few(audited))
    keys = _ordered(drawn)
    stacks = [StackedBar(f"{one.label}: {_shares(one)}", _by_key(one)) for one in drawn]
    caption = (
        "Time of one audited pass by kernel and precision. Audited passes are slower than timed ones, because every "
        "kernel is logged."
    )
    title = f"{data.workload}: time by kernel and precision"
    draw, height = partial(bars.draw, stacks, keys, _LOOK), bars.height(stacks, keys, _LOOK)
    return Plot(title, captioned(caption, audited), columns(Kernels(data.workload, tuple(audited))), height, draw)


def _shares(one: KernelBar) -> str:
    """``62 % bf16, 38 % no matrix product``."""
    shares: dict[str, float] = defaultdict(float)
    for each in one.times:
        shares[each.precision] += each.seconds / one.total
    ordered = sorted(shares.items(), key=lambda part: (part[0] == NO_PRODUCT, -part[1]))
    return ", ".join(f"{100 * share:.0f} % {precision}" for precision, share in ordered)
