"""Under which circumstances a result was measured: machine, libraries, settings, plan, and the command. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath
from statistics import median

from modelzoo.document import Block, Column, Command, Details, Table, lines, named
from modelzoo.formatting import DIGEST_DIGITS, MISSING, percent, seconds
from modelzoo.records.libraries import Libraries
from modelzoo.records.load import Load
from modelzoo.records.machine import Machine
from modelzoo.records.run import EnvironmentChanges, Result, RunReport
from modelzoo.records.throughput import Throughput
from modelzoo.records.timing import StopReason
from modelzoo.records.workload import Verification
from modelzoo.results.summary import SummaryRow
from modelzoo.views.differences import by_workload, full_names
from modelzoo.views.doctor import library_rows, machine_rows

_OF_THE_MOMENT = ("clock",)
"""Facts that change from process to process without anybody changing anything."""
_STOP_REASONS = {
    StopReason.FIXED: "their number was fixed",
    StopReason.PRECISE: "the intervals were narrow enough",
    StopReason.BUDGET: "the time was used up",
    StopReason.FAILED: "no setting could run",
    StopReason.INTERRUPTED: "it was interrupted",
}
_VERIFICATION = {
    Verification.FULL: "verified",
    Verification.PARTIAL: "partly verified",
    Verification.NONE: "unverified",
}


def machine(result: Result) -> list[Block]:
    """Return the facts about the machine and the libraries, and which of them differed between processes."""
    judged = [entry.report.provenance for entry in result.validity if entry.report is not None]
    where = [*(report.provenance for report in _reports(result)), *(each for each in judged if each is not None)]
    seen = [(each.machine, each.libraries) for each in where]
    if isinstance(result.payload, (Load, Throughput)):
        # An instance sees only its own CPUs.
        seen = [(result.payload.machine, seen[0][1] if seen else None)]
    if not seen:
        return []
    first = _rows(*seen[0])
    others = [dict(_rows(*each)) for each in seen[1:]]
    changing = [
        name
        for name, value in first
        if name not in _OF_THE_MOMENT and any(other.get(name, value) != value for other in others)
    ]
    said = f"Not the same in all processes (shown: of the first one): {', '.join(changing)}."
    return [named(first), *([lines(said)] if changing else [])]


def settings(shown: Sequence[SummaryRow]) -> list[Block]:
    """Return how each setting was resolved, and which weights, inputs and variables it had."""
    if not shown:
        return []
    settings, reports = [each.setting for each in shown], [each.first for each in shown]
    columns = (
        Column("workload", tuple(each.workload for each in shown)),
        Column("setting", tuple(full_names(shown, with_workload=False))),
        Column("batch", tuple(str(each.batch or MISSING) for each in settings), True),
        Column("threads", tuple(str(each.threads or MISSING) for each in settings), True),
        Column("mode", tuple(each.mode for each in settings)),
        Column("backend", tuple(each.backend for each in settings)),
        Column("device", tuple(each.device for each in settings)),
        Column("weights", tuple(_weights(each) if each else MISSING for each in reports)),
        Column("inputs", tuple(_digest(each.inputs_digest) if each else MISSING for each in reports)),
        Column("variables", tuple(_variables(each.provenance.environment) if each else MISSING for each in reports)),
        Column("switches", tuple(", ".join(each.switches) or MISSING if each else MISSING for each in reports)),
    )
    note = (
        "weights and inputs: with the first digits of their SHA-256; variables and switches: those that the suite set"
    )
    return [Table("Settings as they ran", columns, note)]


def plan(result: Result, shown: Sequence[SummaryRow]) -> list[Block]:
    """Return how many processes there were, how long each sampled, and why no more were started."""
    found = by_workload([row for row in shown if row.processes])
    if not found:
        return []
    designs = [result.design(workload) for workload in found]
    runs = [[run for each in rows for run in each.runs] for rows in found.values()]
    sampled = [[sum(run.steady) for run in each if run.steady] for each in runs]
    reasons = [each.stop_reason if each is not None else None for each in designs]
    columns = (
        Column("workload", tuple(found)),
        Column("rounds", tuple(str(1 + max(run.round for run in each)) for each in runs), True),
        Column("processes", tuple(str(len(each)) for each in runs), True),
        Column("sampled", tuple(seconds(median(each)) if each else MISSING for each in sampled), True),
        Column("wanted", tuple(f"±{percent(each.margin)}" if each else MISSING for each in designs), True),
        Column("ended because", tuple(_STOP_REASONS[each] if each is not None else MISSING for each in reasons)),
    )
    note = (
        "In each round every setting gets a new process, and the processes of a round sample in turns. sampled: median "
        "seconds per process; wanted: half width of the intervals"
    )
    return [Table("How it was measured", columns, f"{note}.")]


def command(result: Result) -> list[Block]:
    """Return the command that measures all of this again, and what it depends on."""
    commit = f", commit {result.commit}" if result.commit else ""
    said = f"Measured {result.created} by modelzoo {result.version}{commit}."
    program, *arguments = result.command or ("modelzoo",)
    program = PurePath(program).name  # whatever started it
    typed = ["modelzoo" if program in ("__main__.py", "-c", "-m") else program, *arguments]
    return [lines(f"{said} This command measures all numbers of this result again:"), Command(shlex.join(typed))]


def build(result: Result) -> list[Block]:
    """Return the versions of all libraries, as far as they were recorded."""
    versions = next((report.provenance.versions for report in _reports(result) if report.provenance.versions), {})
    return [Details("Versions of all libraries", (named(sorted(versions.items())),))] if versions else []


def _reports(result: Result) -> list[RunReport]:
    return [run.report for run in result.runs if run.report is not None]


def _rows(machine: Machine | None, libraries: Libraries | None) -> list[tuple[str, str]]:
    return (machine_rows(machine) if machine else []) + (library_rows(libraries) if libraries else [])


def _weights(report: RunReport) -> str:
    weights = report.prepared.weights
    verified = "" if weights.verification is None else f", {_VERIFICATION[weights.verification]}"
    return f"{weights.kind.value}: {weights.name}, {_digest(weights.sha256)}{verified}"


def _digest(digest: str | None) -> str:
    return digest[:DIGEST_DIGITS] if digest else MISSING


def _variables(changes: EnvironmentChanges) -> str:
    applied = [f"{name}={value}" for name, value in changes.applied.items()]
    return "\n".join([*applied, *(f"without {name}" for name in changes.removed)]) or MISSING
