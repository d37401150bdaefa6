"""The median latency of every process in the order in which they ran, one panel per setting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo import stats
from modelzoo.document import Column
from modelzoo.formatting import seconds
from modelzoo.records.run import Run
from modelzoo.views.plots import panels
from modelzoo.views.plots.panels import Panel, PanelPoint
from modelzoo.views.plots.plot import Plot, captioned, few
from modelzoo.views.results_table import interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ProcessMedian(msgspec.Struct, frozen=True):
    """One process.

    Attributes:
        started: when it was started; UTC, ISO 8601.
        session: number of its session, from 0.
        round: number of its round within the session; the processes of a round sampled in alternating turns.
        seconds: the median of its steady samples.
    """

    started: str
    session: int
    round: int
    seconds: float


class ProcessSeries(msgspec.Struct, frozen=True):
    """The processes of one setting.

    Attributes:
        label: the setting.
        medians: of its processes, at least one.
        level: their level with its interval, as the tables show it.
    """

    label: str
    medians: tuple[ProcessMedian, ...]
    level: stats.Interval


class Processes(msgspec.Struct, frozen=True):
    """The settings of one workload."""

    workload: str
    series: tuple[ProcessSeries, ...]


def series(label: str, sessions: Sequence[Sequence[Run]], level: stats.Interval) -> ProcessSeries:
    """The processes of one setting that were timed.

    Args:
        label: the setting.
        sessions: the runs of each session, the oldest session first.
        level: of the processes.
    """
    medians = [
        ProcessMedian(run.started, session, run.round, median(run.steady))
        for session, runs in enumerate(sessions)
        for run in runs
        if run.steady
    ]
    return ProcessSeries(label, tuple(medians), level)


def columns(data: Processes) -> list[Column]:
    """The medians as a table, in the order in which the processes ran."""
    rows = sorted(
        ((each, one.label) for one in data.series for each in one.medians),
        key=lambda row: (row[0].session, row[0].round, row[0].started),
    )
    found = [
        Column("started (UTC)", tuple(each.started.replace("+00:00", "") for each, _ in rows)),
        Column("round", tuple(str(each.round + 1) for each, _ in rows), is_number=True),
        Column("setting", tuple(label for _, label in rows)),
        Column("median latency", tuple(seconds(each.seconds) for each, _ in rows), is_number=True),
    ]
    if len({each.session for each, _ in rows}) > 1:
        found.insert(0, Column("session", tuple(str(each.session + 1) for each, _ in rows), is_number=True))
    return found


def plot(data: Processes) -> Optional[Plot]:
    """Return the plot of the processes; a dashed vertical line separates two sessions. ``None`` without processes."""
    timed = [one for one in data.series if one.medians]
    drawn = few(timed)
    if not drawn:
        return None
    rounds = sorted({(each.session, each.round) for one in drawn for each in one.medians})
    place = {each: number for number, each in enumerate(rounds, 1)}
    breaks = tuple(place[b] - 0.5 for a, b in zip(rounds, rounds[1:]) if a[0] != b[0])
    found = [
        Panel(
            f"{one.label}: {interval(one.level)}",
            one.level.value,
            tuple(PanelPoint(place[each.session, each.round], each.seconds) for each in one.medians),
            one.level,
            breaks,
        )
        for one in drawn
    ]
    caption = (
        "Median latency of each process, in the order in which they ran; every panel has the same relative scale. Line "
        "and band: the level with its 95 % interval."
    )
    title = f"{data.workload}: median latency of each process"
    return Plot(title, captioned(caption, timed), columns(data), panels.height(found), partial(_draw, found))


def _draw(found: Sequence[Panel], figure: Figure) -> None:
    from matplotlib.ticker import MaxNLocator

    for each in panels.draw(figure, found, "round, in the order in which they ran"):
        each.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
