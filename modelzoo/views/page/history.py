"""The history of each workload: its level in every session of a directory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath

import msgspec

from modelzoo import stats
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Block, Column, Section, Table, lines
from modelzoo.formatting import MISSING, counted
from modelzoo.records.run import Result, RunReport
from modelzoo.results import summary
from modelzoo.views.plots.panels import history, moment
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
    count = counted(sessions, "session")
    return f"{count}. Their intervals hold within a session, and do not cover what changes between sessions."


def _workload(workload: str, own: Sequence[SessionLevel], machines: Sequence[str], mark: str) -> Section:
    series: dict[tuple[str, str], list[SessionLevel]] = {}
    for each in own:
        series.setdefault((each.machine, each.label), []).append(each)
    drawn = {
        label if len(machines) == 1 else f"{label}, machine {1 + machines.index(machine)}": [
            (each.created, each.latency) for each in members
        ]
        for (machine, label), members in series.items()
    }
    plot = history(workload, drawn)
    blocks: list[Block] = [plot.figure(mark)] if plot is not None else []
    return Section(workload, (*blocks, _table(own, machines)))


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
