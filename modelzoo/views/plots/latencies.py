"""The latency of every setting with its interval, the settings of a workload below each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo.document import Column, Text, theme
from modelzoo.formatting import MISSING, capitalized, time_unit
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import Interval
from modelzoo.views.differences import by_workload, short_names
from modelzoo.views.plots import forest
from modelzoo.views.plots.forest import ForestRow
from modelzoo.views.plots.plot import Plot
from modelzoo.views.results_table import interval, timed_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 16
"""Settings that are drawn, so that the table below is not far away; the table has all of them."""


class LatencyRow(msgspec.Struct, frozen=True):
    """One setting.

    Attributes:
        workload: the name of its workload; empty if there is only one.
        name: of the setting.
        latency: with its interval, in seconds.
    """

    workload: str
    name: str
    latency: Interval


class Latencies(msgspec.Struct, frozen=True):
    """The settings of a result, and what was timed."""

    rows: tuple[LatencyRow, ...]
    timed: str


def of_rows(shown: Sequence[SummaryRow]) -> Latencies:
    """The settings of a result that were timed, by workload."""
    groups = by_workload(shown)
    rows = [
        LatencyRow(workload if len(groups) > 1 else "", name, row.latency)
        for workload, own in groups.items()
        for name, row in zip(short_names(own), own)
        if row.latency is not None
    ]
    timed = dict.fromkeys(timed_unit(row) for row in shown if row.latency is not None)
    return Latencies(tuple(rows), ", or of ".join(timed))


def plot(data: Latencies) -> Optional[Plot]:
    """Return the plot; ``None`` if nothing was timed."""
    drawn = data.rows[:MOST_ROWS]
    if not drawn:
        return None
    unit, factor = time_unit(max(each.latency.value for each in drawn))
    names = list(dict.fromkeys(each.name for each in data.rows))
    rows = [_row(each, names.index(each.name), factor) for each in drawn]
    title = f"latency of {data.timed}"
    caption = f"{capitalized(title)} with its 95 % interval; shorter is better."
    if len(drawn) < len(data.rows):
        caption += f" Drawn are the first {MOST_ROWS} of {len(data.rows)} settings; the table has all of them."
    return Plot(title, Text(caption), columns(data), forest.height(rows), partial(_draw, rows, unit))


def _row(each: LatencyRow, number: int, factor: float) -> ForestRow:
    style, found = theme.series_style(number), each.latency
    scaled = Interval(factor * found.value, factor * found.low, factor * found.high)
    return ForestRow(f"{each.workload} {each.name}".strip(), interval(found), scaled, style.colour, style.marker)


def columns(data: Latencies) -> list[Column]:
    """The latencies as a table."""
    return [
        Column("workload", tuple(each.workload or MISSING for each in data.rows)),
        Column("setting", tuple(each.name for each in data.rows)),
        Column("latency", tuple(interval(each.latency) for each in data.rows), is_number=True),
    ]


def _draw(rows: Sequence[ForestRow], unit: str, figure: Figure) -> None:
    ends = forest.limits([row.value for row in rows])
    forest.draw(figure, rows, ends, None).set_xlabel(f"← faster;  latency in {unit}, log scale")
