"""The level of each session over time, one panel per setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from modelzoo import stats
from modelzoo.formatting import MISSING, seconds, seconds_within
from modelzoo.records.run import Result
from modelzoo.report.plots import canvas, panels
from modelzoo.report.plots.panels import Panel, PanelLevel, PanelPoint
from modelzoo.report.table import Column
from modelzoo.results import summary


@dataclass(frozen=True)
class SessionPoint:
    """One session.

    Attributes:
        created: when it began; ISO 8601.
        level: of its processes, with the interval within the session.
    """

    created: str
    level: stats.Interval


@dataclass(frozen=True)
class HistorySeries:
    """The sessions of one setting.

    Attributes:
        label: the setting.
        points: the sessions, oldest first, at least one.
        changes: indices of the sessions from which on the level is another one; empty if there are none.
        segments: the level of the sessions between two changes, one more than ``changes``; empty if they are not drawn.
    """

    label: str
    points: tuple[SessionPoint, ...]
    changes: tuple[int, ...] = ()
    segments: tuple[stats.Interval, ...] = ()


@dataclass(frozen=True)
class History:
    """The settings of one workload."""

    workload: str
    series: tuple[HistorySeries, ...]


def of_results(results: Sequence[Result], workload: str) -> History:
    """The levels of ``workload`` in sessions that need not have run the same settings; without change points."""
    found: dict[str, list[SessionPoint]] = {}
    for result in sorted(results, key=lambda each: moment(each.created)):
        for row in summary.rows(result):
            if row.workload == workload and row.latency is not None:
                found.setdefault(row.label, []).append(SessionPoint(result.created, row.latency))
    return History(workload, tuple(HistorySeries(label, tuple(points)) for label, points in found.items()))


def moment(iso: str) -> datetime:
    """The time in UTC; the earliest possible one if a stored text is not a time."""
    try:
        found = datetime.fromisoformat(iso)
    except ValueError:
        found = datetime.min
    return found.replace(tzinfo=found.tzinfo or timezone.utc)


def columns(data: History) -> list[Column]:
    """The levels as a table, setting by setting."""
    rows = [(one, index, each) for one in data.series for index, each in enumerate(one.points)]
    found = [
        Column("setting", tuple(one.label for one, _, _ in rows)),
        Column("session (UTC)", tuple(each.created.replace("+00:00", "") for _, _, each in rows)),
        Column("latency", tuple(_level_text(each.level) for _, _, each in rows), is_number=True),
    ]
    if any(one.changes for one in data.series):
        found.append(Column("change", tuple("new level" if i in one.changes else MISSING for one, i, _ in rows)))
    return found


def svg(data: History, name: str, width: float = canvas.NARROW) -> str:
    """Draw the sessions; a dashed vertical line is a change of the level. Without sessions the result is empty."""
    drawn = [one for one in data.series if one.points]
    if not drawn:
        return ""
    with canvas.drawing():
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        figure, axes = panels.draw([_panel(one) for one in drawn], width, "start of the session (UTC)")
        for each in axes:
            locator = AutoDateLocator(minticks=2, maxticks=5 if width < canvas.WIDE_FROM else 10)
            each.xaxis.set_major_locator(locator)
            each.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        return canvas.element(figure, name, f"{data.workload}: latency by session", _description(data))


def _panel(one: HistorySeries) -> Panel:
    from matplotlib.dates import date2num

    places = [float(date2num(moment(each.created))) for each in one.points]
    points = tuple(
        PanelPoint(x, each.level.value, each.level.low, each.level.high) for x, each in zip(places, one.points)
    )
    breaks = tuple((places[index - 1] + places[index]) / 2 for index in one.changes)
    edges = (None, *breaks, None)
    levels = tuple(PanelLevel(level, edges[i], edges[i + 1]) for i, level in enumerate(one.segments))
    return Panel(f"{one.label}: {_level_text(one.points[-1].level)} in the latest session", points, levels, breaks)


def _level_text(level: stats.Interval) -> str:
    return seconds_within(level.value, level.half_width) if level.half_width < 1 else seconds(level.value)


def _description(data: History) -> str:
    shown = "; ".join(
        f"{one.label}: {len(one.points)} sessions, {len(one.changes)} changes, "
        f"latest {_level_text(one.points[-1].level)}"
        for one in data.series
        if one.points
    )
    return f"One mark per session with its 95 % interval; dashed vertical lines: changes of the level. {shown}"
