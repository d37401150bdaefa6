"""Under which circumstances a result was measured: machine, libraries, settings, plan, and the command. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePath
from statistics import median

from modelzoo.document import Block, Column, Command, Details, Table, Text, lines, named
from modelzoo.formatting import DIGEST_DIGITS, MISSING, percent, seconds
from modelzoo.records.libraries import Libraries
from modelzoo.records.load import Load
from modelzoo.records.machine import Machine
from modelzoo.records.run import EnvironmentChanges, Result, RunReport
from modelzoo.records.throughput import Throughput
from modelzoo.records.timing import Design, StopReason
from modelzoo.records.workload import Verification
from modelzoo.results.summary import SummaryRow
from modelzoo.views.differences import by_workload, short_names
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
    found: list[Block] = [named(first)]
    others = [dict(_rows(*each)) for each in seen[1:]]
    changing = [
        name
        for name, value in first
        if name not in _OF_THE_MOMENT and any(other.get(name, value) != value for other in others)
    ]
    if changing:
        found.append(lines(f"Not the same in all processes (shown: of the first one): {', '.join(changing)}."))
    return found


def settings(shown: Sequence[SummaryRow]) -> list[Block]:
    """Return how each setting was resolved, and which weights, inputs and variables it had."""
    found = [
        (name, each, each.first)
        for every in by_workload(shown).values()
        for name, each in zip(short_names(every), every)
    ]
    columns = (
        Column("workload", tuple(each.workload for _, each, _ in found)),
        Column("setting", tuple(name for name, _, _ in found)),
        Column("batch", tuple(_open(each.setting.batch) for _, each, _ in found), True),
        Column("threads", tuple(_open(each.setting.threads) for _, each, _ in found), True),
        Column("mode", tuple(each.setting.mode for _, each, _ in found)),
        Column("backend", tuple(each.setting.backend for _, each, _ in found)),
        Column("device", tuple(each.setting.device for _, each, _ in found)),
        Column("weights", tuple(_weights(report) for _, _, report in found)),
        Column("inputs", tuple(_digest(report.inputs_digest) if report else MISSING for _, _, report in found)),
        Column(
            "variables",
            tuple(_variables(report.provenance.environment) if report else MISSING for _, _, report in found),
        ),
        Column("switches", tuple(", ".join(report.switches) or MISSING if report else MISSING for *_, report in found)),
    )
    note = (
        "weights and inputs: with the first digits of their SHA-256; variables and switches: those that the suite set"
    )
    return [Table("Settings as they ran", columns, Text(note))] if found else []


def plan(result: Result, shown: Sequence[SummaryRow]) -> list[Block]:
    """Return how many processes there were, how long each sampled, and why no more were started."""
    found = by_workload([row for row in shown if row.processes])
    if not found:
        return []
    designs = [result.design(workload) for workload in found]
    runs = {workload: [run for each in rows for run in each.runs] for workload, rows in found.items()}
    columns = (
        Column("workload", tuple(found)),
        Column("rounds", tuple(str(1 + max(run.round for run in each)) for each in runs.values()), True),
        Column("processes", tuple(str(len(each)) for each in runs.values()), True),
        Column("sampled", tuple(_sampled([sum(run.steady) for run in each]) for each in runs.values()), True),
        Column("wanted", tuple(f"±{percent(each.margin)}" if each else MISSING for each in designs), True),
        Column("ended because", tuple(map(_stop_reason, designs))),
    )
    note = (
        "In each round every setting gets a new process, and the processes of a round sample in turns. sampled: median "
        "seconds per process; wanted: half width of the intervals"
    )
    return [Table("How it was measured", columns, Text(f"{note}."))]


def command(result: Result) -> list[Block]:
    """Return the command that measures all of this again, and what it depends on."""
    said = [
        f"Measured {result.created} by modelzoo {result.version}" + (f", commit {result.commit}" * bool(result.commit))
    ]
    text = "; ".join(said) + ". This command measures all numbers of this result again:"
    return [lines(text), Command(command_line(result))]


def command_line(result: Result) -> str:
    """Return the command as it can be typed, whatever started the program."""
    if not result.command:
        return "modelzoo"
    program = PurePath(result.command[0]).name
    own = program in ("__main__.py", "-c", "-m", "modelzoo")
    return shlex.join(["modelzoo" if own else program, *result.command[1:]])


def build(result: Result) -> list[Block]:
    """Return the versions of all libraries, as far as they were recorded."""
    versions = next((report.provenance.versions for report in _reports(result) if report.provenance.versions), {})
    if not versions:
        return []
    return [Details("Versions of all libraries", (named(sorted(versions.items())),))]


def _reports(result: Result) -> list[RunReport]:
    return [run.report for run in result.runs if run.report is not None]


def _rows(machine: Machine | None, libraries: Libraries | None) -> list[tuple[str, str]]:
    return (machine_rows(machine) if machine else []) + (library_rows(libraries) if libraries else [])


def _open(value: int | None) -> str:
    return MISSING if value is None else str(value)


def _weights(report: RunReport | None) -> str:
    if report is None:
        return MISSING
    weights = report.prepared.weights
    verified = "" if weights.verification is None else f", {_VERIFICATION[weights.verification]}"
    return f"{weights.kind.value}: {weights.name}, {_digest(weights.sha256)}{verified}"


def _digest(digest: str | None) -> str:
    return digest[:DIGEST_DIGITS] if digest else MISSING


def _variables(changes: EnvironmentChanges) -> str:
    applied = [f"{name}={value}" for name, value in changes.applied.items()]
    return "\n".join([*applied, *(f"without {name}" for name in changes.removed)]) or MISSING


def _sampled(times: Sequence[float]) -> str:
    timed = [each for each in times if each]
    return seconds(median(timed)) if timed else MISSING


def _stop_reason(design: Design | None) -> str:
    return _STOP_REASONS[design.stop_reason] if design is not None and design.stop_reason is not None else MISSING
