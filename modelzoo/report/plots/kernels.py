"""The time of the audited passes by kernel and precision, one bar per setting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelzoo.formatting import MISSING, seconds
from modelzoo.records.evidence import Evidence
from modelzoo.report.plots import canvas, theme
from modelzoo.report.plots.svg import HALO
from modelzoo.report.table import Column

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_KERNELS = 12
"""Kernels of one plot; the others are summed up."""
NO_PRODUCT = "no matrix product"
"""In place of the precision of what multiplies no matrices: memory movement, dispatch, element-wise operators."""
OTHERS = "others"
NUMBERED_FROM = 15.0
"""Width in CSS pixels from which on a segment has its number in it."""
_STYLES = {"fp32": (theme.SKY, ""), "bf16": (theme.ORANGE, "////"), NO_PRODUCT: (theme.GREY, "")}
_OTHER_PRECISION = (theme.PURPLE, "....")
_LABEL, _BAR, _GAP, _AXIS, _ENTRY = 18.0, 30.0, 12.0, 44.0, 19.0


@dataclass(frozen=True)
class KernelTime:
    """One kernel in one precision.

    Attributes:
        kernel: its name.
        precision: that of its products; ``NO_PRODUCT`` if it multiplies no matrices.
        seconds: per pass.
    """

    kernel: str
    precision: str
    seconds: float


@dataclass(frozen=True)
class KernelBar:
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


@dataclass(frozen=True)
class Kernels:
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
    found = [Column("kernel", tuple(key[0] for key in keys)), Column("precision", tuple(key[1] for key in keys))]
    for one in data.bars:
        times = _by_key(one)
        cells = tuple(_cell(times[key], one.total) if key in times else MISSING for key in keys)
        found.append(Column(one.label, cells, is_number=True))
    return found


def _cell(spent: float, total: float) -> str:
    return f"{seconds(spent)} ({100 * spent / total:.1f} %)"


Key = tuple[str, str]
"""Kernel and precision."""


def _by_key(one: KernelBar) -> dict[Key, float]:
    return {(each.kernel, each.precision): each.seconds for each in one.times}


def _ordered(bars: Sequence[KernelBar]) -> list[Key]:
    """All kernels: products by precision first, then the rest; within these the longest first."""
    longest: dict[Key, float] = defaultdict(float)
    for one in bars:
        for key, spent in _by_key(one).items():
            longest[key] = max(longest[key], spent)
    return sorted(longest, key=lambda key: (key[1] == NO_PRODUCT, -longest[key]))


def _summed_up(data: Kernels) -> list[KernelBar]:
    """The bars with at most ``MOST_KERNELS`` kernels; the shortest ones become ``OTHERS``."""
    keys = _ordered(data.bars)
    if len(keys) <= MOST_KERNELS:
        return list(data.bars)
    longest = {key: max(_by_key(one).get(key, 0.0) for one in data.bars) for key in keys}
    kept = set(sorted(keys, key=lambda key: -longest[key])[: MOST_KERNELS - 1])
    found = []
    for one in data.bars:
        rest = sum(each.seconds for each in one.times if (each.kernel, each.precision) not in kept)
        times = [each for each in one.times if (each.kernel, each.precision) in kept]
        found.append(KernelBar(one.label, (*times, KernelTime(OTHERS, NO_PRODUCT, rest))))
    return found


def svg(data: Kernels, name: str, width: float = canvas.NARROW) -> str:
    """Draw the bars, with the kernels as a numbered list below. Without audits the result is empty."""
    bars = [one for one in _summed_up(data) if one.times]
    if not bars:
        return ""
    keys = _ordered(bars)
    with canvas.drawing():
        heights = len(bars) * (_LABEL + _BAR + _GAP)
        entries = [canvas.wrapped(f"{number} {key[0]}", _list_width(width) - 88) for number, key in enumerate(keys, 1)]
        legend = sum(_ENTRY + (len(lines) - 1) * canvas.LINE for lines in entries)
        figure = canvas.new_figure(width, heights + _AXIS + legend + 8)
        axes = canvas.new_axes(figure, 8, 0, width - 22, heights)
        scale, unit = canvas.time_unit([one.total for one in bars])
        _draw_bars(figure, axes, bars, keys, scale)
        axis = f"time per audited pass in {unit}"
        canvas.write(figure, width - 14, heights + 34, axis, align="right", size=canvas.SMALL)
        _draw_legend(figure, keys, entries, heights + _AXIS + 8)
        title = f"{data.workload}: time by kernel and precision"
        return canvas.element(figure, name, title, _description(bars))


def _draw_bars(figure: Figure, axes: Axes, bars: Sequence[KernelBar], keys: Sequence[Key], scale: float) -> None:
    longest = max(one.total for one in bars) * scale
    axes.set_xlim(0, longest)
    height = len(bars) * (_LABEL + _BAR + _GAP)
    axes.set_ylim(height, 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=6)
    pixels = (figure.get_size_inches()[0] * 72 - 22) / longest
    for index, one in enumerate(bars):
        top, left, times = index * (_LABEL + _BAR + _GAP), 0.0, _by_key(one)
        label = f"{one.label}: {_shares(one)}"
        canvas.write(figure, 8, top + 14, canvas.wrapped(label, figure.get_size_inches()[0] * 72 - 16, 1)[0])
        for number, key in enumerate(keys, 1):
            spent = times.get(key, 0.0) * scale
            colour, hatch = _STYLES.get(key[1], _OTHER_PRECISION)
            if spent:
                middle = top + _LABEL + _BAR / 2
                axes.barh(middle, spent, _BAR, left=left, color=colour, hatch=hatch, ec=theme.PAGE, lw=1)
                if spent * pixels >= NUMBERED_FROM:
                    _write_number(axes, left + spent / 2, middle, number)
            left += spent


def _write_number(axes: Axes, x: float, y: float, number: int) -> None:
    axes.text(x, y, str(number), ha="center", va="center_baseline", fontweight="bold", gid=HALO)


def _shares(one: KernelBar) -> str:
    """``62 % bf16, 38 % no matrix product``."""
    found: dict[str, float] = defaultdict(float)
    for each in one.times:
        found[each.precision] += each.seconds / one.total
    ordered = sorted(found.items(), key=lambda part: (part[0] == NO_PRODUCT, -part[1]))
    return ", ".join(f"{100 * share:.0f} % {precision}" for precision, share in ordered)


def _draw_legend(figure: Figure, keys: Sequence[Key], entries: Sequence[Sequence[str]], top: float) -> None:
    from matplotlib.patches import Rectangle

    width, height = figure.get_size_inches() * 72
    for (_, precision), lines in zip(keys, entries):
        colour, hatch = _STYLES.get(precision, _OTHER_PRECISION)
        corner = (8 / width, 1 - (top + 13) / height)
        patch = Rectangle(corner, 20 / width, 13 / height, fc=colour, hatch=hatch, ec=theme.PAGE, lw=1)
        patch.set_transform(figure.transFigure)
        figure.add_artist(patch)
        for index, line in enumerate(lines):
            canvas.write(figure, 34, top + 11 + index * canvas.LINE, line)
        if precision != NO_PRODUCT:
            canvas.write(figure, _list_width(width) - 14, top + 11, precision, align="right")
        top += _ENTRY + (len(lines) - 1) * canvas.LINE


def _list_width(width: float) -> float:
    """A precision at the far end of a wide line would be hard to tell from its neighbours."""
    return min(width, 480.0)


def _description(bars: Sequence[KernelBar]) -> str:
    shown = "; ".join(f"{one.label}: {seconds(one.total)} per pass, {_shares(one)}" for one in bars)
    return f"Stacked bars of the time by kernel, numbered as in the list below them. {shown}"
