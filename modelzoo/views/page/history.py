"""The history of each workload: its level in every session of a directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from modelzoo import stats
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Block, Column, Section, Table, lines
from modelzoo.formatting import MISSING, counted
from modelzoo.records.run import Result, RunReport
from modelzoo.results import summary
from modelzoo.views.differences import grouped
from modelzoo.views.intervals import interval
from modelzoo.views.plots.lines import history


class SessionLevel(NamedTuple):
    """What one session measured of one setting: in which file, its label as run, its first process, its latency."""

    file: str
    result: Result
    label: str
    report: RunReport
    latency: stats.Interval

    @property
    def machine(self) -> str:
        """What tells the machine from others; levels of different machines are different series."""
        return self.report.provenance.fingerprint or self.report.provenance.machine.cpu

    @property
    def versions(self) -> dict[str, str]:
        """What may explain a change. Of the suite the commit, with ``+`` if files had been changed, or the version."""
        commit = self.result.commit or ""
        return {
            "torch": self.report.provenance.versions.get("torch", MISSING),
            "modelzoo": f"{commit[:10]}{'+' * commit.endswith('+')}" if commit else self.result.version,
            "kernel": self.report.provenance.machine.kernel,
            "weights": (self.report.prepared.weights.sha256 or MISSING)[:8],
        }


def section(name: str, sessions: Sequence[StoredResult], mark: str) -> Section:
    """Return the histories of all workloads.

    Args:
        name: of the directory.
        sessions: what is in it, oldest first.
        mark: id of the section.
    """
    found = grouped(
        (row.workload, SessionLevel(PurePath(each.path).name, each.result, row.label, row.first, row.latency))
        for each in sessions
        for row in summary.rows(each.result)
        if row.latency is not None and row.first is not None
    )
    machines = list(dict.fromkeys(each.machine for own in found.values() for each in own))
    said = "Their intervals hold within a session, and do not cover what changes between sessions."
    blocks: list[Block] = [lines(f"{counted(len(sessions), 'session')}. {said}")]
    for number, (workload, own) in enumerate(found.items(), 1):
        names = (f", machine {1 + machines.index(each.machine)}" if len(machines) > 1 else "" for each in own)
        series = grouped((f"{each.label}{name}", (each.result.created, each.latency)) for each, name in zip(own, names))
        plot = history(workload, series)
        drawn: list[Block] = [plot.figure(f"{mark}-{number}")] if plot is not None else []
        blocks.append(Section(workload, (*drawn, _table(own, machines))))
    return Section(f"History of {name}", tuple(blocks), mark)


def _table(own: Sequence[SessionLevel], machines: Sequence[str]) -> Table:
    columns = [
        Column("session (UTC)", tuple(each.result.created.replace("+00:00", "") for each in own)),
        Column("setting", tuple(each.label for each in own)),
        Column("latency", tuple(interval(each.latency) for each in own), True),
        Column("file", tuple(each.file for each in own)),
    ]
    if len(machines) > 1:
        cpus = (f"{1 + machines.index(each.machine)}: {each.report.provenance.machine.cpu}" for each in own)
        columns.insert(2, Column("machine", tuple(cpus)))
    columns += [Column(name, tuple(each.versions[name] for each in own)) for name in own[0].versions]
    return Table("Sessions", tuple(columns))
