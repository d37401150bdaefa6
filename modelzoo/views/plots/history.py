"""The level of each session over time, one panel per setting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo import stats
from modelzoo.document import Column
from modelzoo.views.plots import panels
from modelzoo.views.plots.panels import Panel, PanelPoint
from modelzoo.views.plots.plot import Plot, captioned, few
from modelzoo.views.results_table import interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNKNOWN_TIME = datetime.min.replace(tzinfo=timezone.utc)
"""Sorts before all others. A session without a time is in the table and not in the plot."""


class SessionPoint(msgspec.Struct, frozen=True):
    """One session.

    Attributes:
        created: when it began; ISO 8601.
        level: of its processes, with the interval within the session.
    """

    created: str
    level: stats.Interval


class HistorySeries(msgspec.Struct, frozen=True):
    """The sessions of one setting.

    Attributes:
        label: the setting.
        points: the sessions, oldest first, at least one.
    """

    label: str
    points: tuple[SessionPoint, ...]


class History(msgspec.Struct, frozen=True):
    """The settings of one workload."""

    workload: str
    series: tuple[HistorySeries, ...]


def moment(iso: str) -> datetime:
    """The time that a result stores, in UTC; ``UNKNOWN_TIME`` if the text is not a time."""
    try:
        found = datetime.fromisoformat(iso)
    except ValueError:
        return UNKNOWN_TIME
    return found.astimezone(timezone.utc) if found.tzinfo else found.replace(tzinfo=timezone.utc)


def columns(data: History) -> list[Column]:
    """The levels as a table, setting by setting."""
    rows = [(one, each) for one in data.series for each in one.points]
    return [
        Column("setting", tuple(one.label for one, _ in rows)),
        Column("session (UTC)", tuple(each.created.replace("+00:00", "") for _, each in rows)),
        Column("latency", tuple(interval(each.level) for _, each in rows), is_number=True),
    ]


def plot(data: History, caption: str) -> Optional[Plot]:
    """Return the plot of the sessions; ``None`` without any whose time is known."""
    dated = [(one.label, [each for each in one.points if moment(each.created) > UNKNOWN_TIME]) for one in data.series]
    timed = [HistorySeries(label, tuple(points)) for label, points in dated if points]
    if not timed:
        return None
    found = [_panel(one) for one in few(timed)]
    title = f"{data.workload}: latency by session"
    return Plot(title, captioned(caption, timed), columns(data), panels.height(found), partial(_draw, found))


def _draw(found: Sequence[Panel], figure: Figure) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    for each in panels.draw(figure, found, "start of the session (UTC)"):
        locator = AutoDateLocator(minticks=2, maxticks=7)
        each.xaxis.set_major_locator(locator)
        each.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _panel(one: HistorySeries) -> Panel:
    from matplotlib.dates import date2num

    places = [float(date2num(moment(each.created))) for each in one.points]
    points = tuple(
        PanelPoint(x, each.level.value, each.level.low, each.level.high) for x, each in zip(places, one.points)
    )
    latest = one.points[-1].level
    return Panel(f"{one.label}: {interval(latest)} in the latest session", latest.value, points)
