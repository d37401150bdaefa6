"""The history of each workload: its level in every session of a directory, and where it changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath

import msgspec

from modelzoo import stats
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Block, Column, Section, Table, lines
from modelzoo.formatting import MISSING, percent
from modelzoo.records.run import Result, RunReport
from modelzoo.results import summary
from modelzoo.stats import trend
from modelzoo.views.plots.history import History, HistorySeries, SessionPoint, moment, plot
from modelzoo.views.results_table import interval


class SessionLevel(msgspec.Struct, frozen=True):
    """What one session measured of one setting.

    Attributes:
        name: of the file.
        created: when the session began; UTC, ISO 8601.
        workload: the workload's name.
        label: the setting as it was run.
        machine: what tells the machine from others; levels of different machines are different series.
        cpu: of the machine.
        latency: with the interval within the session.
        versions: what may explain a change: name and value.
    """

    name: str
    created: str
    workload: str
    label: str
    machine: str
    cpu: str
    latency: stats.Interval
    versions: tuple[tuple[str, str], ...]


def start(result: Result) -> datetime:
    """When the session began."""
    return moment(result.created)


def section(name: str, sessions: Sequence[StoredResult], mark: str) -> Section:
    """Return the histories of all workloads.

    Args:
        name: of the directory.
        sessions: what is in it, oldest first.
        mark: id of the section.
    """
    found = [level for each in sessions for level in _levels(PurePath(each.path).name, each.result)]
    machines = list(dict.fromkeys(each.machine for each in found))
    blocks: list[Block] = [lines(_how(len(sessions)))]
    for workload in dict.fromkeys(each.workload for each in found):
        own = [each for each in found if each.workload == workload]
        blocks.append(_workload(workload, own, machines, f"{mark}-{len(blocks)}"))
    return Section(f"History of {name}", tuple(blocks), mark)


def _levels(name: str, result: Result) -> list[SessionLevel]:
    """What one session measured."""
    found = []
    for row in summary.rows(result):
        report = row.first
        if row.latency is not None and report is not None:
            machine = report.provenance.fingerprint or report.provenance.machine.cpu
            found.append(
                SessionLevel(
                    name,
                    result.created,
                    row.workload,
                    row.label,
                    machine,
                    report.provenance.machine.cpu,
                    row.latency,
                    _versions(result, report),
                )
            )
    return found


def _how(sessions: int) -> str:
    said = (
        f"{sessions} session{'s' * (sessions > 1)}. The levels are not normalized by the calibration workload. Their "
        "intervals hold within a session, and do not cover what changes between sessions."
    )
    if not trend.can_find_changes():
        return f"{said} Change points are not searched for: that needs the package ruptures (pip install ruptures)."
    return (
        f"{said} Change points are searched for in settings with at least {trend.LEAST_LEVELS} sessions (PELT on the "
        "logarithms of the latencies)."
    )


def _workload(workload: str, own: Sequence[SessionLevel], machines: Sequence[str], mark: str) -> Section:
    series: dict[tuple[str, str], list[SessionLevel]] = {}
    for each in own:
        series.setdefault((each.machine, each.label), []).append(each)
    drawn, said = [], []
    for (machine, label), members in series.items():
        shown = label if len(machines) == 1 else f"{label}, machine {1 + machines.index(machine)}"
        values = [each.latency.value for each in members]
        changes = trend.find_changes(values) if trend.can_find_changes() else ()
        points = tuple(SessionPoint(each.created, each.latency) for each in members)
        drawn.append(HistorySeries(shown, points, changes, _segments(values, changes)))
        said += [_change(shown, members, values, changes, number) for number in range(len(changes))]
    said += _too_few(drawn)
    data = History(workload, tuple(drawn))
    caption = "Latency in each session with its interval; a dashed vertical line is a change of the level."
    figure = plot(data, caption)
    blocks: list[Block] = [figure.figure(mark)] if figure is not None else []
    if said:
        blocks.insert(0, lines(*said))
    return Section(workload, (*blocks, _table(own, machines)))


def _segments(values: Sequence[float], changes: Sequence[int]) -> tuple[stats.Interval, ...]:
    edges = [0, *changes, len(values)]
    return tuple(stats.level_interval(values[a:b]) for a, b in zip(edges, edges[1:])) if changes else ()


def _too_few(series: Sequence[HistorySeries]) -> list[str]:
    short = [one.label for one in series if len(one.points) < trend.LEAST_LEVELS]
    if not short or not trend.can_find_changes():
        return []
    return [f"Fewer than {trend.LEAST_LEVELS} sessions, so no changes are searched for: {'; '.join(short)}."]


def _change(
    label: str, members: Sequence[SessionLevel], values: Sequence[float], changes: Sequence[int], number: int
) -> str:
    """One change of the level, and which versions changed at the same time."""
    edges = [0, *changes, len(values)]
    place = changes[number]
    before = stats.geometric_mean(values[edges[number] : place])
    after = stats.geometric_mean(values[place : edges[number + 2]])
    earlier, later = dict(members[place - 1].versions), dict(members[place].versions)
    changed = [
        f"{name} {earlier.get(name, MISSING)} → {later[name]}" for name in later if earlier.get(name) != later[name]
    ]
    word = "slower" if after > before else "faster"
    cause = f"; at the same time changed: {', '.join(changed)}" if changed else "; no recorded version changed"
    return f"{label}: {percent(abs(after / before - 1))} {word} from {members[place].created} on{cause}."


def _table(own: Sequence[SessionLevel], machines: Sequence[str]) -> Table:
    names = list(dict.fromkeys(name for each in own for name, _ in each.versions))
    columns = [
        Column("session (UTC)", tuple(each.created.replace("+00:00", "") for each in own)),
        Column("setting", tuple(each.label for each in own)),
        Column("latency", tuple(interval(each.latency) for each in own), True),
        Column("file", tuple(each.name for each in own)),
    ]
    if len(machines) > 1:
        columns.insert(2, Column("machine", tuple(f"{1 + machines.index(each.machine)}: {each.cpu}" for each in own)))
    columns += [Column(name, tuple(dict(each.versions).get(name, MISSING) for each in own)) for name in names]
    return Table("Sessions", tuple(columns))


def _versions(result: Result, report: RunReport) -> tuple[tuple[str, str], ...]:
    found = [("torch", report.provenance.versions.get("torch", MISSING)), ("modelzoo", _suite(result))]
    found.append(("kernel", report.provenance.machine.kernel))
    found.append(("weights", (report.prepared.weights.sha256 or MISSING)[:8]))
    return tuple(found)


def _suite(result: Result) -> str:
    """The commit of the suite, abbreviated, with ``+`` if files had been changed; its version if it was installed."""
    commit = result.commit or ""
    return f"{commit[:10]}{'+' * commit.endswith('+')}" if commit else result.version
