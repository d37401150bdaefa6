"""Throughput against latency: a mark for every configuration, and the frontier of those that no other one beats."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo.document import Column, Text, theme
from modelzoo.formatting import MISSING, seconds, significant, time_unit
from modelzoo.records.run import Result
from modelzoo.records.serving import LatencyBound
from modelzoo.results import throughput as results
from modelzoo.views.plots.plot import Plot, add_legend, height_of, log_scale, number_marks, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARGIN = 1.15
"""The axes end this factor beyond the outermost marks."""
_WIDEST = 2.0
"""Intervals are drawn up to this multiple of the highest throughput; what is farther out is an arrow at the edge."""


class Mark(msgspec.Struct, frozen=True):
    """One configuration.

    Attributes:
        name: of the configuration.
        latency: the median of a batch, or its percentile of the bound, in seconds.
        rate: items per second, with the ends of its interval; ``None`` without one.
        low: likewise.
        high: likewise.
        on_frontier: whether no other configuration has more throughput at the same or a lower latency.
        is_best: whether it is the one that is recommended.
        meets: whether the bound is met; ``None`` if it is not known or there is none.
    """

    name: str
    latency: float
    rate: float
    low: Optional[float]
    high: Optional[float]
    on_frontier: bool
    is_best: bool
    meets: Optional[bool]


class Frontier(msgspec.Struct, frozen=True):
    """What is drawn.

    Attributes:
        workload: the workload's name.
        unit: of the throughput, without "per second".
        marks: by ascending latency.
        bound: drawn as a line; ``None`` without one.
    """

    workload: str
    unit: str
    marks: tuple[Mark, ...]
    bound: Optional[LatencyBound] = None

    @property
    def latency_name(self) -> str:
        """Which latency is shown."""
        return "median" if self.bound is None else self.bound.name


def of_result(result: Result) -> Optional[Frontier]:
    """Return what is drawn of a result; ``None`` if no configuration was measured.

    With a bound, the latencies are its percentile if every configuration has enough samples for it, else medians.
    """
    found, rows = results.of(result), results.rows(result)
    known = [row for row in rows if row.throughput is not None and row.latency is not None]
    if not known:
        return None
    bound = found.bound if all(row.bounded is not None for row in known) else None
    latency = {row.index: (row.bounded if bound is not None else row.latency) or 0.0 for row in known}
    recommended = results.recommendation(result)
    marks, highest = [], 0.0
    for row in sorted(known, key=lambda row: (latency[row.index], -_rate(row))):
        finite = row.throughput is not None and math.isfinite(row.throughput.high)
        marks.append(
            Mark(
                name=row.configuration.name + (f", {row.setting}" if row.setting else ""),
                latency=latency[row.index],
                rate=_rate(row),
                low=row.throughput.low if finite and row.throughput is not None else None,
                high=row.throughput.high if finite and row.throughput is not None else None,
                on_frontier=_rate(row) > highest,
                is_best=recommended is not None and row.index == recommended.row.index,
                meets=row.meets,
            )
        )
        highest = max(highest, _rate(row))
    return Frontier(found.workload, found.unit, tuple(marks), bound)


def _rate(row: results.Row) -> float:
    return row.throughput.value if row.throughput is not None else 0.0


def plot(data: Frontier) -> Plot:
    """Return the plot of the configurations."""
    caption = (
        f"Throughput of all instances together against the {data.latency_name} latency of a batch; vertical bars are "
        "95 % intervals over the rounds, with an arrow if they reach beyond the plot. The line joins the "
        "configurations that no other one beats in both; the diamond is the one that is recommended."
    )
    entries = [_entry(number, mark) for number, mark in enumerate(data.marks, 1)]
    title = f"{data.workload}: throughput against latency"
    height = 330 + height_of(entries) + (18 if data.bound is not None else 0)
    return Plot(title, Text(caption), columns(data), height, partial(_draw, data))


def columns(data: Frontier) -> list[Column]:
    """The marks as a table, with their numbers."""
    return [
        Column("", tuple(map(str, range(1, len(data.marks) + 1))), is_number=True),
        Column("configuration", tuple(mark.name for mark in data.marks)),
        Column(f"{data.latency_name} latency", tuple(seconds(mark.latency) for mark in data.marks), is_number=True),
        Column(f"{data.unit}/s", tuple(significant(mark.rate) for mark in data.marks), is_number=True),
        Column("frontier", tuple("yes" if mark.on_frontier else MISSING for mark in data.marks)),
    ]


def _entry(number: int, mark: Mark) -> str:
    said = [] if mark.meets is None else ["meets the bound" if mark.meets else "over the bound"]
    said += ["one round: no interval"] if mark.high is None else []
    return wrapped(f"{number}: {mark.name}" + (f" ({', '.join(said)})" if said else ""), 0.85)


def highest(data: Frontier) -> float:
    """The end of the axis of throughputs: all of them, and their intervals as far as these are not much wider."""
    widest = _WIDEST * max(mark.rate for mark in data.marks)
    return _MARGIN * max(min(mark.high or mark.rate, widest) for mark in data.marks)


def _draw(data: Frontier, figure: Figure) -> None:
    axes = figure.add_subplot()
    unit, factor = time_unit(max(mark.latency for mark in data.marks))
    latencies = [factor * mark.latency for mark in data.marks]
    latencies += [factor * data.bound.seconds] if data.bound is not None else []
    log_scale(axes.xaxis, min(latencies) / _MARGIN, max(latencies) * _MARGIN)
    top = highest(data)
    axes.set_ylim(0, top)
    axes.set_xlabel(f"{data.latency_name} latency of a batch in {unit} (log scale)")
    axes.set_ylabel(f"{data.unit} per second")
    front = [mark for mark in data.marks if mark.on_frontier]
    xs, ys = [factor * mark.latency for mark in front], [mark.rate for mark in front]
    axes.plot(xs, ys, color=theme.BLUE, lw=1.5, drawstyle="steps-post", zorder=3)
    for number, mark in enumerate(data.marks, 1):
        x, colour = factor * mark.latency, theme.BLUE if mark.on_frontier else theme.FAINT
        if mark.low is not None and mark.high is not None:
            axes.plot([x, x], [max(0.0, mark.low), min(mark.high, top)], color=colour, lw=1.2, zorder=3)
            if mark.high > top:
                axes.plot(x, top, color=colour, marker="^", ms=6, clip_on=False, zorder=3)
        shape, size = ("D", 11) if mark.is_best else ("o", 8)
        label = _entry(number, mark)
        axes.plot(x, mark.rate, marker=shape, color=colour, ms=size, ls="none", zorder=4, label=label)
    number_marks(axes, [(factor * mark.latency, mark.rate) for mark in data.marks])
    if data.bound is not None:
        dashes = (0, (4, 3))
        axes.axvline(factor * data.bound.seconds, color=theme.VERMILLION, lw=1.5, ls=dashes, label=data.bound.text)
    add_legend(figure)
