"""Forest plot: every ratio of a comparison with its interval, on a logarithmic axis."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo import formatting, stats
from modelzoo.comparison.compare import Comparison
from modelzoo.comparison.model import Metric
from modelzoo.document import Column, Text, Tone, theme
from modelzoo.formatting import MISSING, capitalized
from modelzoo.records.run import Result
from modelzoo.results import summary, tuning
from modelzoo.stats import EQUIVALENCE, Outcome
from modelzoo.views.plots.plot import Plot, log_scale, wrapped
from modelzoo.views.plots.svg import HALO
from modelzoo.views.results_table import OUTCOME_TONE
from modelzoo.views.speed import reason, row_reason

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST_BEYOND = 3.0
"""An interval may reach beyond all ratios by this factor; what is farther out is an arrow at the edge."""
_MARKS = {
    "FASTER": (theme.BLUE, "^"),
    "LESS": (theme.BLUE, "^"),
    "SLOWER": (theme.VERMILLION, "v"),
    "MORE": (theme.VERMILLION, "v"),
    "SAME": (theme.INK, "o"),
}
_UNDECIDED = (theme.FAINT, "D")
_TONES = {str(outcome): tone for outcome, tone in OUTCOME_TONE.items()}
_LINE = 16.0
"""Height of a line of text in CSS pixels."""
MEAN = "geometric mean"


class RatioRow(msgspec.Struct, frozen=True):
    """One ratio.

    Attributes:
        label: what is compared.
        ratio: how many times better the other side is; ``None`` if the sides cannot be compared.
        verdict: ``FASTER``, ``NOT COMPARABLE`` …; empty for the mean, and for the steps of a search.
        reason: of the verdict, for the table.
    """

    label: str
    ratio: Optional[stats.Interval]
    verdict: str = ""
    reason: str = ""


class Ratios(msgspec.Struct, frozen=True):
    """All ratios of a comparison.

    Attributes:
        rows: in their order, the mean last.
        axis: what the ratio is: ``speedup over base``.
        worse: what a ratio below 1 means: ``slower``.
        better: what a ratio above 1 means: ``faster``.
    """

    rows: tuple[RatioRow, ...]
    axis: str = "speedup"
    worse: str = "slower"
    better: str = "faster"


def of_comparison(comparison: Comparison) -> Ratios:
    """The rows of a comparison of stored results."""
    rows = []
    for row in comparison.rows:
        other = f" / {row.other_label}" if row.other_label != row.label else ""
        ratio = row.estimate.ratio if row.estimate is not None and row.outcome is not Outcome.NOT_COMPARABLE else None
        rows.append(RatioRow(f"{row.workload} {row.label}{other}", ratio, str(row.outcome), row_reason(row)))
    axis, worse, better = {
        Metric.LATENCY: ("speed relative to", "slower", "faster"),
        Metric.COLD_START: ("speed of the cold start relative to", "slower", "faster"),
        Metric.THROUGHPUT: ("throughput relative to", "less", "more"),
        Metric.MEMORY: ("saving of memory relative to", "more memory", "less memory"),
    }[comparison.metric]
    if comparison.mean is not None:
        rows.append(RatioRow(MEAN, comparison.mean))
    return Ratios(tuple(rows), f"{axis} {comparison.base.name}", worse, better)


def of_result(result: Result) -> Ratios:
    """The settings of one result, each compared with the first setting of its workload."""
    found = summary.rows(result)
    baselines = {row.workload: row.label for row in found if row.is_baseline}
    rows = []
    for row in found:
        if row.speed is not None:
            label = f"{row.workload} {row.label} / {baselines.get(row.workload, MISSING)}"
            rows.append(RatioRow(label, row.speed.ratio, str(row.speed.verdict.outcome), reason(row.speed)))
    return Ratios(tuple(rows), "speed relative to the workload's first setting")


def of_search(result: Result) -> Ratios:
    """The steps of a confirmation: how much faster each is than the one before, and all of them together."""
    steps = tuning.steps(result)
    rows = [RatioRow(f"{step.label} / {before.label}", step.gain) for before, step in zip(steps, steps[1:])]
    if len(steps) > 2:
        rows.append(RatioRow(f"{steps[-1].label} / {result.label(0)}", steps[-1].speed))
    return Ratios(tuple(rows), "speed relative to the step before, measured again")


def plot(data: Ratios) -> Optional[Plot]:
    """Return the plot of all ratios; ``None`` if there are none."""
    caption = (
        f"{capitalized(data.axis)}, with 95 % intervals: above 1 is {data.better}. SAME: the whole interval lies in "
        "the band around 1. The intervals are not corrected for the number of ratios, the verdicts are."
    )
    return _plot(data, caption)


def steps(data: Ratios) -> Optional[Plot]:
    """Return the plot of the steps to the winner of a search; ``None`` if there are none."""
    caption = (
        "Each step from the default to the winner, by one option, with its 95 % interval: above 1 is faster than the "
        "step before. All were measured again, in processes that took no part in the choice."
    )
    return _plot(data, caption)


def _plot(data: Ratios, caption: str) -> Optional[Plot]:
    if not data.rows:
        return None
    return Plot(data.axis, Text(caption), columns(data), sum(_heights(data)) + 46, partial(_draw, data))


def columns(data: Ratios) -> list[Column]:
    """The ratios as a table."""
    rows = data.rows
    tones = tuple(_TONES.get(row.verdict, Tone.PLAIN) for row in rows)
    found = [
        Column("", tuple(row.label for row in rows)),
        Column(data.axis, tuple(_text(row.ratio) or MISSING for row in rows), is_number=True),
    ]
    if any(row.verdict for row in rows):
        found.append(Column("verdict", tuple(row.verdict for row in rows), tones=tones))
    if any(row.reason for row in rows):
        found.append(Column("reason", tuple(row.reason for row in rows)))
    return found


def _text(ratio: Optional[stats.Interval]) -> str:
    return formatting.ratio(ratio.value, ratio.low, ratio.high) if ratio is not None else ""


def limits(data: Ratios) -> tuple[float, float]:
    """The ends of the axis: all ratios, and their intervals as far as these are not much wider than that."""
    ratios = [row.ratio for row in data.rows if row.ratio is not None]
    values = [1 - 2 * EQUIVALENCE, 1 + 2 * EQUIVALENCE, *(each.value for each in ratios)]
    values = [value for value in values if 0 < value < math.inf]
    low, high = min(values) / WIDEST_BEYOND, max(values) * WIDEST_BEYOND
    shown = [*values, *(max(each.low, low) for each in ratios), *(min(each.high, high) for each in ratios)]
    margin = (max(shown) / min(shown)) ** 0.06
    return min(shown) / margin, max(shown) * margin


def _label(row: RatioRow) -> str:
    return wrapped(row.label, 0.95, lines=2)


def _heights(data: Ratios) -> list[float]:
    """Of the rows, in CSS pixels: label, verdict, and the interval below them."""
    return [_LINE * ((3.4 if row.ratio is not None else 2.4) + _label(row).count("\n")) for row in data.rows]


def _draw(data: Ratios, figure: Figure) -> None:
    axes = figure.add_subplot()
    log_scale(axes.xaxis, *limits(data))
    heights = _heights(data)
    axes.set_ylim(sum(heights), 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.axvspan(1 - EQUIVALENCE, 1 + EQUIVALENCE, color=theme.BAND, lw=0, zorder=0)
    axes.axvline(1, color=theme.FAINT, lw=1, zorder=1)
    band = f"log scale; shaded: same (±{100 * EQUIVALENCE:g} %)"
    axes.set_xlabel(f"← {data.worse};  {band};  {data.better} →")
    where, top = axes.get_yaxis_transform(), 0.0
    for row, height in zip(data.rows, heights):
        label, said = _label(row), f"{_text(row.ratio)} {row.verdict}".strip()
        below = top + _LINE * (1 + label.count("\n"))
        axes.text(0, top, label, transform=where, va="top", gid=HALO, in_layout=False)
        axes.text(0, below, said, transform=where, va="top", fontweight="bold", gid=HALO)
        if row.ratio is not None:
            _draw_interval(axes, row.ratio, below + 1.6 * _LINE, row)
        top += height


def _draw_interval(axes: Axes, ratio: stats.Interval, y: float, row: RatioRow) -> None:
    left, right = axes.get_xlim()
    colour, marker = (theme.INK, "s") if not row.verdict else _MARKS.get(row.verdict, _UNDECIDED)
    low, high = max(ratio.low, left), min(ratio.high, right)
    axes.plot([low, high], [y, y], color=colour, lw=2, solid_capstyle="butt")
    for end, limit, arrow in ((ratio.low, left, "<"), (ratio.high, right, ">")):
        beyond = end < left or end > right
        shape = arrow if beyond else "|"
        axes.plot([limit if beyond else end], [y], color=colour, marker=shape, mec=colour, mew=2, clip_on=False)
    axes.plot([ratio.value], [y], color=colour, marker=marker, ms=9, clip_on=False)
