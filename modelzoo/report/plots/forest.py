"""Forest plot: every ratio of a comparison with its interval, on a logarithmic axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelzoo import formatting, stats
from modelzoo.comparison.model import Comparison, Metric, Outcome
from modelzoo.document import Column, theme
from modelzoo.formatting import MISSING
from modelzoo.records.run import Result
from modelzoo.report.plots import canvas
from modelzoo.report.plots.ticks import log_ticks
from modelzoo.results import summary

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
_AXIS_HEIGHT = 44.0
"""Of the ticks and the directions; the lines of the title come below."""
_BAR = 20.0
_GAP = 10.0


@dataclass(frozen=True)
class ForestRow:
    """One ratio.

    Attributes:
        label: what is compared.
        ratio: how many times better the other side is; ``None`` if the sides cannot be compared.
        verdict: ``FASTER``, ``NOT COMPARABLE`` …
        reason: of the verdict, for the table.
    """

    label: str
    ratio: stats.Interval | None
    verdict: str
    reason: str = ""


@dataclass(frozen=True)
class Forest:
    """All ratios of a comparison.

    Attributes:
        rows: in their order.
        axis: what the ratio is: ``speedup over base``.
        worse: what a ratio below 1 means: ``slower``.
        better: what a ratio above 1 means: ``faster``.
        mean: the geometric mean of the ratios with its interval; ``None`` if it is not shown.
    """

    rows: tuple[ForestRow, ...]
    axis: str = "speedup"
    worse: str = "slower"
    better: str = "faster"
    mean: stats.Interval | None = None


def of_comparison(comparison: Comparison) -> Forest:
    """The rows of a comparison of stored results."""
    rows = []
    for row in comparison.rows:
        other = f" / {row.other_label}" if row.other_label != row.label else ""
        ratio = row.estimate.ratio if row.estimate is not None and row.outcome is not Outcome.NOT_COMPARABLE else None
        rows.append(ForestRow(f"{row.workload} {row.label}{other}", ratio, str(row.outcome), row.reason))
    axis, worse, better = {
        Metric.LATENCY: ("speed relative to", "slower", "faster"),
        Metric.COLD_START: ("speed of the cold start relative to", "slower", "faster"),
        Metric.THROUGHPUT: ("throughput relative to", "less", "more"),
        Metric.MEMORY: ("saving of memory relative to", "more memory", "less memory"),
    }[comparison.metric]
    return Forest(tuple(rows), f"{axis} {comparison.base.name}", worse, better, comparison.mean)


def of_result(result: Result) -> Forest:
    """The settings of one result, each compared with the first setting of its workload."""
    found = summary.rows(result)
    baselines = {row.workload: row.label for row in found if row.is_baseline}
    rows = []
    for row in found:
        if row.verdict is not None:
            label = f"{row.workload} {row.label} / {baselines.get(row.workload, MISSING)}"
            rows.append(ForestRow(label, row.speedup, str(row.verdict.outcome), row.verdict.reason))
    return Forest(tuple(rows), "speed relative to the workload's first setting")


def columns(data: Forest) -> list[Column]:
    """The ratios as a table."""
    rows = [*data.rows, *([ForestRow("geometric mean", data.mean, "")] if data.mean else [])]
    found = [
        Column("", tuple(row.label for row in rows)),
        Column(data.axis, tuple(_text(row.ratio) or MISSING for row in rows), is_number=True),
        Column("verdict", tuple(row.verdict for row in rows)),
    ]
    if any(row.reason for row in rows):
        found.append(Column("reason", tuple(row.reason for row in rows)))
    return found


def svg(data: Forest, name: str, width: float = canvas.NARROW) -> str:
    """Draw the ratios; one without an interval is only named, with its verdict.

    Without rows the result is empty.
    """
    if not data.rows:
        return ""
    with canvas.drawing():
        placed, height = _placed(data, width)
        below = _AXIS_HEIGHT + canvas.LINE * len(_axis_title(data, width))
        figure = canvas.new_figure(width, height + below)
        left, right = _plot_edges(width)
        axes = canvas.new_axes(figure, left, 0, right - left, height)
        axes.set_xscale("log")
        axes.set_xlim(limits(data))
        axes.set_ylim(height, 0)
        _draw_axis(figure, axes, data, width)
        for each in placed:
            _draw_row(figure, axes, each, width)
        return canvas.element(figure, name, f"Forest plot: {data.axis}", _description(data))


def _description(data: Forest) -> str:
    shown = "; ".join(f"{row.label}: {_text(row.ratio)} {row.verdict}".replace("  ", " ") for row in data.rows)
    return f"{data.axis}, each with its 95 % interval, on a logarithmic axis. {shown}"


def _text(ratio: stats.Interval | None) -> str:
    return formatting.ratio(ratio.value, ratio.low, ratio.high) if ratio is not None else ""


# Layout


@dataclass(frozen=True)
class _Placed:
    """A row with the lines of its label, and where it is, in CSS pixels from the top."""

    row: ForestRow
    lines: tuple[str, ...]
    top: float
    bar: float
    is_mean: bool = False


def _is_wide(width: float) -> bool:
    return width >= canvas.WIDE_FROM


def _plot_edges(width: float) -> tuple[float, float]:
    return (0.3 * width, width - 270) if _is_wide(width) else (8, width - 8)


def _placed(data: Forest, width: float) -> tuple[list[_Placed], float]:
    """Place the rows below each other; return them and their height."""
    rows = [*data.rows, *([ForestRow("geometric mean", data.mean, "")] if data.mean is not None else [])]
    wide = _is_wide(width)
    found, top = [], 6.0
    for index, row in enumerate(rows):
        lines = tuple(canvas.wrapped(row.label, _plot_edges(width)[0] - 12 if wide else width - 16))
        # On a narrow figure the label is above the bar, and the numbers in a line of their own.
        text = canvas.LINE * (len(lines) if wide else len(lines) + 1)
        height = max(text, _BAR) if wide else text + (_BAR if row.ratio is not None else 0)
        found.append(_Placed(row, lines, top, top + (height / 2 if wide else text + _BAR / 2), index >= len(data.rows)))
        top += height + _GAP
    return found, top


def limits(data: Forest) -> tuple[float, float]:
    """The ends of the axis: all ratios, and their intervals as far as these are not much wider than that."""
    ratios = [row.ratio for row in data.rows if row.ratio is not None]
    values = [1 - 2 * stats.EQUIVALENCE, 1 + 2 * stats.EQUIVALENCE, *(each.value for each in ratios)]
    values = [value for value in values if 0 < value < math.inf]
    low, high = min(values) / WIDEST_BEYOND, max(values) * WIDEST_BEYOND
    shown = [*values, *(max(each.low, low) for each in ratios), *(min(each.high, high) for each in ratios)]
    margin = (max(shown) / min(shown)) ** 0.06
    return min(shown) / margin, max(shown) * margin


# Drawing


def _draw_axis(figure: Figure, axes: Axes, data: Forest, width: float) -> None:
    left, right = _plot_edges(width)
    ticks = log_ticks(*axes.get_xlim(), right - left, 40)
    canvas.set_ticks(axes.xaxis, ticks, suffix="×")
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.axvspan(1 - stats.EQUIVALENCE, 1 + stats.EQUIVALENCE, color=theme.BAND, lw=0, zorder=0)
    axes.axvline(1, color=theme.FAINT, lw=1, zorder=1)
    bottom = axes.get_ylim()[0]
    canvas.write(figure, left, bottom + 38, f"← {data.worse}", size=canvas.SMALL)
    canvas.write(figure, right, bottom + 38, f"{data.better} →", align="right", size=canvas.SMALL)
    for index, line in enumerate(_axis_title(data, width)):
        y = bottom + _AXIS_HEIGHT + 10 + index * canvas.LINE
        canvas.write(figure, (left + right) / 2, y, line, align="center", size=canvas.SMALL)


def _axis_title(data: Forest, width: float) -> list[str]:
    left, right = _plot_edges(width)
    return [*canvas.wrapped(data.axis, right - left), f"log scale; shaded: same (±{100 * stats.EQUIVALENCE:g} %)"]


def _draw_row(figure: Figure, axes: Axes, each: _Placed, width: float) -> None:
    baseline = each.bar - (len(each.lines) - 1) * canvas.LINE / 2 + 4 if _is_wide(width) else each.top + 12
    for index, line in enumerate(each.lines):
        canvas.write(figure, 8, baseline + index * canvas.LINE, line, has_halo=True)
    _write_verdict(figure, each, width)
    if each.row.ratio is not None:
        _draw_interval(axes, each.row.ratio, each)


def _write_verdict(figure: Figure, each: _Placed, width: float) -> None:
    x, y = 8.0, each.top + 12 + len(each.lines) * canvas.LINE
    if _is_wide(width):
        x, y = width - 258, each.bar + 4
    text = _text(each.row.ratio)
    canvas.write(figure, x, y, f"{text} {each.row.verdict}".strip(), has_halo=True, is_bold=True)


def _draw_interval(axes: Axes, ratio: stats.Interval, each: _Placed) -> None:
    left, right = axes.get_xlim()
    colour, marker = (theme.INK, "s") if each.is_mean else _MARKS.get(each.row.verdict, _UNDECIDED)
    low, high = max(ratio.low, left), min(ratio.high, right)
    axes.plot([low, high], [each.bar, each.bar], color=colour, lw=2, solid_capstyle="butt")
    for end, limit, arrow in ((ratio.low, left, "<"), (ratio.high, right, ">")):
        beyond = end < left or end > right
        axes.plot(
            [limit if beyond else end],
            [each.bar],
            color=colour,
            marker=arrow if beyond else "|",
            ms=9,
            mew=2,
            clip_on=False,
        )
    axes.plot([ratio.value], [each.bar], color=colour, marker=marker, ms=9, mec=theme.PAGE, mew=1.2, clip_on=False)
