"""Values with their intervals below each other, on one logarithmic axis: latencies, and the ratios of a comparison."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from modelzoo.comparison.compare import Comparison
from modelzoo.document import Tone, theme
from modelzoo.formatting import MISSING, capitalized, time_unit
from modelzoo.records.run import Result
from modelzoo.results import tuning
from modelzoo.results.refusals import Metric
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import EQUIVALENCE, Interval
from modelzoo.views.comparison import cost_verdict
from modelzoo.views.differences import by_workload, short_names
from modelzoo.views.plots import Plot, captioned, columns, draw_lanes, log_scale
from modelzoo.views.speed import interval, outcome_text, ratio, reason
from modelzoo.views.tables import OUTCOME_TONE, timed_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST_BEYOND = 3.0
"""An interval may reach beyond all values by this factor; what is farther out is an arrow at the edge."""
MOST_LATENCIES = 16
"""Latencies that are drawn, so that the table below is not far away; the table has all of them."""
MEAN = "geometric mean"
_HEIGHT = 16.0
"""Of the lane of an interval in CSS pixels."""
_BAND = (1 / (1 + EQUIVALENCE), 1 + EQUIVALENCE)
_MARKS = {
    **dict.fromkeys(("FASTER", "LESS", "CHEAPER"), (theme.BLUE, "^")),
    **dict.fromkeys(("SLOWER", "MORE", "DEARER"), (theme.VERMILLION, "v")),
    "SAME": (theme.INK, "o"),
    "": (theme.INK, "s"),
}
_UNDECIDED = (theme.FAINT, "D")
_TONES = {str(outcome): tone for outcome, tone in OUTCOME_TONE.items()}
_AXES = {
    Metric.LATENCY: ("speedup over", "slower", "faster"),
    **dict.fromkeys((Metric.COLD_START, Metric.WARM_START), ("speedup of the first answer over", "slower", "faster")),
    Metric.THROUGHPUT: ("throughput relative to", "less", "more"),
    Metric.FIRST_TOKEN: ("speedup of the first token over", "slower", "faster"),
    Metric.PER_TOKEN: ("speedup per token over", "slower", "faster"),
    Metric.MEMORY: ("saving of memory relative to", "more memory", "less memory"),
}
"""What the ratio of a metric is, and what one below and one above 1 means."""


class ForestRow(msgspec.Struct, frozen=True):
    """One value.

    Attributes:
        label: what it is of; of a ratio, what is compared.
        value: where its mark is; of a ratio, how many times better the other side is. ``None`` if there is none.
        verdict: of a ratio: ``FASTER``, ``NOT COMPARABLE`` …; empty for the mean, and for the steps of a search.
        reason: of the verdict, for the table.
        said: the value as text.
        look: colour and marker; ``None``: those of the verdict.
        tone: of the verdict in the table; ``None``: that of its word.
    """

    label: str
    value: Interval | None
    verdict: str = ""
    reason: str = ""
    said: str = ""
    look: tuple[str, str] | None = None
    tone: Tone | None = None


def limits(found: Sequence[Interval | None], also: Sequence[float] = ()) -> tuple[float, float]:
    """The ends of the axis: all values, and their intervals as far as these are not much wider than that."""
    known = [each for each in found if each is not None]
    values = [value for value in (*also, *(each.value for each in known)) if 0 < value < math.inf]
    low, high = min(values) / WIDEST_BEYOND, max(values) * WIDEST_BEYOND
    shown = [*values, *(max(each.low, low) for each in known), *(min(each.high, high) for each in known)]
    margin = max((max(shown) / min(shown)) ** 0.06, 1.01)
    return min(shown) / margin, max(shown) * margin


def _draw(rows: Sequence[ForestRow], axis: str, is_ratio: bool, figure: Figure) -> float:
    """Draw the rows from top to bottom; behind ratios, the band of what is the same, and a line at 1."""
    axes: Axes = figure.add_subplot(xlabel=axis)
    around_one = (1 - 2 * EQUIVALENCE, 1 + 2 * EQUIVALENCE) if is_ratio else ()
    left, right = limits([row.value for row in rows], around_one)
    log_scale(axes.xaxis, left, right)
    middles, height = draw_lanes(axes, [(row.label, f"{row.said} {row.verdict}".strip()) for row in rows], _HEIGHT)
    for row, y in zip(rows, middles):
        if row.value is None:
            continue
        if is_ratio:
            axes.barh(y, _BAND[1] - _BAND[0], _HEIGHT, left=_BAND[0], color=theme.BAND, lw=0, zorder=0)
            axes.vlines([1], y - _HEIGHT / 2, y + _HEIGHT / 2, color=theme.FAINT, lw=1, zorder=1)
        colour, marker = row.look or _MARKS.get(row.verdict, _UNDECIDED)
        ends = [max(row.value.low, left), min(row.value.high, right)]
        axes.plot(ends, [y, y], color=colour, lw=2, solid_capstyle="butt")
        for end, limit, arrow in ((row.value.low, left, "<"), (row.value.high, right, ">")):
            shape, place = ("|", end) if left <= end <= right else (arrow, limit)
            axes.plot([place], [y], color=colour, marker=shape, mec=colour, mew=2, clip_on=False)
        axes.plot([row.value.value], [y], color=colour, marker=marker, ms=9, clip_on=False)
    return height


def latencies(shown: Sequence[SummaryRow]) -> Plot | None:
    """Return the plot of the latency of every setting; ``None`` if nothing was timed."""
    groups = by_workload(shown)
    found = [
        (workload if len(groups) > 1 else "", name, row.latency)
        for workload, own in groups.items()
        for name, row in zip(short_names(own), own)
        if row.latency is not None
    ]
    if not found:
        return None
    unit, factor = time_unit(max(latency.value for _, _, latency in found[:MOST_LATENCIES]))
    names = list(dict.fromkeys(name for _, name, _ in found))
    rows = []
    for workload, name, latency in found[:MOST_LATENCIES]:
        colour, marker, _ = theme.series_style(names.index(name))
        scaled = Interval(factor * latency.value, factor * latency.low, factor * latency.high)
        label, look = f"{workload} {name}".strip(), (colour, marker)
        rows.append(ForestRow(label, scaled, said=interval(latency), look=look))
    timed = ", or of ".join(dict.fromkeys(timed_unit(row) for row in shown if row.latency is not None))
    caption = f"Latency of {timed} with its 95 % interval; shorter is better."
    cells = [(workload or MISSING, name, interval(latency)) for workload, name, latency in found]
    table = columns(("workload", "setting", "latency"), cells, numbers=("latency",))
    draw = partial(_draw, rows, f"← faster;  latency in {unit}, log scale", False)
    return Plot(f"latency of {timed}", captioned(caption, found, MOST_LATENCIES), table, draw)


def of_comparison(comparison: Comparison) -> Plot | None:
    """Return the plot of the rows of a comparison of stored results, the mean last."""
    rows = []
    for row in comparison.rows:
        other = f" / {row.other_label}" if row.other_label != row.label else ""
        label = f"{row.workload} {row.label}{other}"
        rows.append(ForestRow(label, row.ratio, outcome_text(row.speed), reason(row.speed)))
    if comparison.mean is not None and len(rows) > 1:
        rows.append(ForestRow(MEAN, comparison.mean))
    axis, *ends = _AXES[comparison.metric]
    return ratios(rows, f"{axis} {comparison.base.name}", *ends)


def of_costs(comparison: Comparison) -> Plot | None:
    """Return the plot of what a million items cost on both sides, as ratios; ``None`` without verdicts on it."""
    rows = [
        ForestRow(
            f"{each.workload} {each.label}",
            each.ratio,
            cost_verdict(each.outcome, each.is_assumed, each.is_unproven),
            look=_MARKS.get(str(each.outcome)) if not each.is_unproven else _UNDECIDED,
            tone=OUTCOME_TONE[each.outcome],
        )
        for each in comparison.costs
        if each.outcome is not None
    ]
    return ratios(rows, f"times cheaper than {comparison.base.name}", "dearer", "cheaper")


def of_rows(shown: Sequence[SummaryRow]) -> Plot | None:
    """Return the plot of the settings of one result, each compared with the baseline of its workload."""
    rows = []
    for workload, own in by_workload(shown).items():
        names = short_names(own)
        base = next((name for name, row in zip(names, own) if row.is_baseline), MISSING)
        rows += [
            ForestRow(f"{workload} {name} / {base}", row.speed.ratio, outcome_text(row.speed), reason(row.speed))
            for name, row in zip(names, own)
            if row.speed is not None
        ]
    return ratios(rows, "speedup over the baseline")


def of_search(result: Result) -> Plot | None:
    """Return the plot of a confirmation: how much faster each step is than the one before, and all of them together."""
    steps = tuning.steps(result)
    rows = [ForestRow(f"{step.label} / {before.label}", step.gain) for before, step in itertools.pairwise(steps)]
    if len(steps) > 2:
        rows.append(ForestRow(f"{steps[-1].label} / {tuning.name(result, 0)}", steps[-1].speed))
    caption = (
        "Each step from the default to the winner, by one option, with its 95 % interval: above 1 is faster than the "
        "step before. All were measured again, in processes that took no part in the choice."
    )
    return ratios(rows, "speedup over the step before, measured again", caption=caption)


def ratios(
    rows: Sequence[ForestRow], title: str, worse: str = "slower", better: str = "faster", caption: str = ""
) -> Plot | None:
    """Return the plot of some ratios; ``None`` if there are none.

    Args:
        rows: from top to bottom.
        title: what the ratio is: ``speedup over base``.
        worse: what a ratio below 1 means.
        better: what one above 1 means.
        caption: by default how to read ratios with verdicts.
    """
    if not rows:
        return None
    caption = caption or (
        f"{capitalized(title)}, with 95 % intervals: above 1 is {better}. SAME: the whole interval lies in the band "
        "around 1. The intervals are not corrected for the number of ratios, the verdicts are."
    )
    axis = f"← {worse};  log scale; shaded: same (±{100 * EQUIVALENCE:g} %);  {better} →"
    drawn = [msgspec.structs.replace(row, said="" if row.value is None else ratio(row.value)) for row in rows]
    cells = [(row.label, row.said or MISSING, row.verdict, row.reason) for row in drawn]
    table = columns(("", title, "verdict", "reason"), cells, numbers=(title,))
    tones = tuple(row.tone or _TONES.get(row.verdict, Tone.PLAIN) for row in rows)
    table[2] = msgspec.structs.replace(table[2], tones=tones)
    table = [column for column in table if column.is_number or any(column.cells)]
    return Plot(title, caption, table, partial(_draw, drawn, axis, True))
