"""Under which circumstances a result was measured: machine, libraries, settings, plan, and the command. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath
from statistics import median

from modelzoo.document import Block, Column, Command, Details, Rows, Table, lines, named
from modelzoo.formatting import DIGEST_DIGITS, MISSING, percent, seconds
from modelzoo.records.race import Throughput
from modelzoo.records.run import EnvironmentChanges, Result, Run, RunReport
from modelzoo.records.serving import Load
from modelzoo.records.timing import StopReason
from modelzoo.results.summary import SummaryRow
from modelzoo.views.differences import VERIFICATION, by_workload, full_names
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


def machine(result: Result) -> list[Block]:
    """Return the facts about the machine and the libraries, and which of them differed between processes."""
    judged = [entry.report.provenance for entry in result.validity if entry.report is not None]
    where = [*(report.provenance for report in _reports(result)), *filter(None, judged)]
    seen = [(each.machine, each.libraries) for each in where]
    if isinstance(result.payload, (Load, Throughput)):
        # An instance sees only its own CPUs.
        seen = [(result.payload.machine, seen[0][1] if seen else None)]
    if not seen:
        return []
    first, *others = (
        dict((machine_rows(machine) if machine else []) + (library_rows(libraries) if libraries else []))
        for machine, libraries in seen
    )
    fixed = [name for name in first if name not in _OF_THE_MOMENT]
    changing = [name for name in fixed if any(other.get(name, first[name]) != first[name] for other in others)]
    said = f"Not the same in all processes (shown: of the first one): {', '.join(changing)}."
    return [named(first.items()), lines(said if changing else "")]


def settings(shown: Sequence[SummaryRow]) -> list[Block]:
    """Return how each setting was resolved, and which weights, inputs and variables it had."""
    if not shown:
        return []
    of = Rows(shown)
    columns = (
        of.text("workload", lambda row: row.workload),
        Column("setting", tuple(full_names(shown, with_workload=False))),
        of.number("batch", lambda row: row.setting.batch),
        of.number("threads", lambda row: row.setting.threads),
        of.text("mode", lambda row: row.setting.mode),
        of.text("backend", lambda row: row.setting.backend),
        of.text("device", lambda row: row.setting.device),
        of.text("weights", lambda row: _weights(row.first) if row.first else None),
        of.text("inputs", lambda row: _digest(row.first.inputs_digest) if row.first else None),
        of.text("variables", lambda row: _variables(row.first.provenance.environment) if row.first else None),
        of.text("switches", lambda row: (", ".join(row.first.switches) or None) if row.first else None),
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
    of = Rows(
        (workload, result.design(workload), [run for each in rows for run in each.runs])
        for workload, rows in found.items()
    )

    def sampled(runs: Sequence[Run]) -> str | None:
        found = [sum(run.steady) for run in runs if run.steady]
        return seconds(median(found)) if found else None

    columns = (
        of.text("workload", lambda row: row[0]),
        of.number("rounds", lambda row: 1 + max(run.round for run in row[2])),
        of.number("processes", lambda row: len(row[2])),
        of.number("sampled", lambda row: sampled(row[2])),
        of.number("wanted", lambda row: f"±{percent(row[1].margin)}" if row[1] else None),
        of.text("ended because", lambda row: (why := row[1] and row[1].stop_reason) and _STOP_REASONS[why]),
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


def _weights(report: RunReport) -> str:
    weights = report.prepared.weights
    verified = "" if weights.verification is None else f", {VERIFICATION[weights.verification]}"
    return f"{weights.kind.value}: {weights.name}, {_digest(weights.sha256)}{verified}"


def _digest(digest: str | None) -> str:
    return digest[:DIGEST_DIGITS] if digest else MISSING


def _variables(changes: EnvironmentChanges) -> str | None:
    applied = [f"{name}={value}" for name, value in changes.applied.items()]
    return "\n".join([*applied, *(f"without {name}" for name in changes.removed)]) or None
