"""What commands print for people, on stderr with rich; plain text if stderr is not a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.report import (
    findings,
    kernel_tables,
    load,
    results_table,
    soak,
    stages,
    table,
    throughput,
    tuning,
    validity,
)
from modelzoo.report.conditions import Condition, grouped_conditions, grouped_failures
from modelzoo.report.details import detail_lines
from modelzoo.report.differences import ShownRow, machine, shared, shown_rows
from modelzoo.results import load as results_load
from modelzoo.results import summary
from modelzoo.results import throughput as results_throughput
from modelzoo.results import tuning as results_tuning
from modelzoo.results.adjustment import adjustment
from modelzoo.results.pipeline import pipelines
from modelzoo.results.summary import SummaryRow
from modelzoo.warning import Severity

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 100
"""Columns of the text, on a wider terminal too; only a table of many differing settings may be wider."""
SEVERITY_STYLE = {Severity.INVALIDATES: "bold red", Severity.DISTORTS: "yellow", Severity.NOTE: "dim"}
SEVERITY_WORD = {Severity.INVALIDATES: "invalid", Severity.DISTORTS: "warning", Severity.NOTE: "note"}
"""What the line of a condition begins with."""


def console() -> Console:
    """Return the console for people: stderr. rich honours NO_COLOR and drops colours without a terminal."""
    from rich.console import Console

    wanted = Console(stderr=True, highlight=False)
    # A pipe has no width; 80 columns would cut the table.
    return wanted if wanted.is_terminal else Console(stderr=True, highlight=False, width=160)


def show(result: Result, rows: Sequence[SummaryRow], out: Console, *, details: bool = False) -> None:
    """Print the table, one sentence per workload, what failed, and the conditions that matter.

    Args:
        rows: those of ``summary.rows(result)``.
        details: also print the details of each row, and the conditions that are mere notes.
    """
    shown = shown_rows(result, rows)
    columns = table.fitting(results_table.columns(shown), _width(out))
    for line in (machine(shown), ", ".join(shared(shown)), results_table.caption(columns, shown)):
        _print_wrapped(out, "", line)
    out.print()
    out.print(table.rich_table(columns))
    out.print()
    _show_stages(result, out)
    out.print("Within this session:")
    said = findings.sentences(shown)
    said["this machine"] = findings.steadiness(adjustment(result))
    for about, sentence in said.items():
        if sentence:
            _print_wrapped(out, "  ", f"{about}: {sentence}", bold=len(about) + 1, indent=4)
    failures = grouped_failures(shown)
    conditions = [each for each in grouped_conditions(shown) if details or each.severity < Severity.NOTE]
    if failures or conditions:
        out.print()
    for names, error in failures:
        _print_wrapped(out, "failed: ", f"{names}: {error}", style="bold red")
    for condition in conditions:
        _print_condition(out, condition)
    if details:
        _print_details(out, shown)


def _show_stages(result: Result, out: Console) -> None:
    found = pipelines(result)
    if not found:
        return
    _print_wrapped(out, "", stages.caption(found))
    out.print()
    out.print(table.rich_table(stages.columns(found)))
    out.print()
    for each in found:
        name = f"{each.workload} {each.label}"
        for sentence in stages.sentences(each):
            _print_wrapped(out, "  ", f"{name}: {sentence}", bold=len(name) + 1, indent=4)
    out.print()


def _width(out: Console) -> int:
    return min(WIDTH, out.width)


def _print_condition(out: Console, condition: Condition) -> None:
    prefix = f"{SEVERITY_WORD[condition.severity]}: "
    concerns = f"{condition.concerns}: " if condition.concerns else ""
    _print_wrapped(out, prefix, concerns + condition.message, style=SEVERITY_STYLE[condition.severity])
    _print_wrapped(out, " " * len(prefix) + "→ ", condition.hint)


def _print_details(out: Console, shown: Sequence[ShownRow]) -> None:
    for each in shown:
        out.print(f"\n{each.row.workload} {each.row.label}", style="bold", markup=False)
        for line in detail_lines(each):
            _print_wrapped(out, "  ", line, indent=4)


def _print_wrapped(
    out: Console, prefix: str, text: str, *, style: str = "", bold: int = 0, indent: int | None = None
) -> None:
    """Print ``text`` wrapped at ``WIDTH``.

    Args:
        style: of ``prefix``.
        bold: number of characters of ``text`` that are bold.
        indent: of the lines after the first; by default the length of ``prefix``.
    """
    from rich.text import Text

    lines = textwrap.wrap(
        text,
        _width(out),
        initial_indent=prefix,
        subsequent_indent=" " * (len(prefix) if indent is None else indent),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines):
        shown = Text(line)
        if number == 0:
            shown.stylize(style, 0, len(prefix))
            shown.stylize("bold", len(prefix), len(prefix) + bold)
        out.print(shown, soft_wrap=True)


def show_kernels(result: Result, out: Console) -> None:
    """Print the kernel evidence and the operator tables of each setting's first process that has them."""
    for group, runs in result.groups().items():
        title = f"{runs[0].workload} {result.label(group)}"
        reports = [run.report for run in runs if run.report is not None]
        evidence = next((report.evidence for report in reports if report.evidence is not None), None)
        profile = next((report.profile for report in reports if report.profile is not None), None)
        if evidence is not None:
            out.print(f"\n{title}: kernels of {evidence.iterations} audited passes")
            _print_all(kernel_tables.evidence_tables(evidence), out)
        if profile is not None:
            out.print(f"\n{title}: operators, profiled after the timing")
            _print_all(kernel_tables.profile_tables(profile), out)


def _print_all(tables: Iterable[Table], out: Console) -> None:
    for each in tables:
        out.print(each)


def show_tuning(result: Result, out: Console) -> None:
    """Print what a search found: the answer, the steps to the winner, every candidate, and what was left out."""
    found, rungs = results_tuning.candidates(result), results_tuning.ladder(result)
    out.print()
    _print_wrapped(out, "", tuning.caption(result))
    if any(each.speed for each in found):
        out.print()
        out.print(table.rich_table(tuning.candidate_columns(found)))
    for line in tuning.excluded_lines(found):
        _print_wrapped(out, "", line, indent=2)
    left_out = tuning.left_out_lines(result)
    for number, line in enumerate(left_out):
        _print_wrapped(out, "" if number else "left out: ", line, indent=10, style="dim")
    if len(rungs) > 1:
        out.print()
        out.print(table.rich_table(tuning.ladder_columns(rungs)))
    out.print()
    _print_wrapped(out, "", f"{results_tuning.of(result).workload}: {tuning.headline(result)}", indent=2)
    if tuning.ties(result):
        _print_wrapped(out, "", tuning.ties(result), indent=2)
    part = results_tuning.confirmation(result)
    shown = shown_rows(part, summary.rows(part)) if part is not None else []
    for condition in grouped_conditions(shown):
        if condition.severity < Severity.NOTE:
            _print_condition(out, condition)


def show_throughput(result: Result, out: Console) -> None:
    """Print what many instances achieved: the configurations, the answer, and what qualifies it."""
    found, rows = results_throughput.of(result), results_throughput.rows(result)
    out.print()
    _print_wrapped(out, "", throughput.caption(result))
    out.print()
    out.print(table.rich_table(table.fitting(throughput.columns(result, rows), out.width)))
    out.print()
    again = results_throughput.confirmed(result)
    if again:
        _print_wrapped(out, "", throughput.CONFIRMATION)
        out.print()
        out.print(table.rich_table(table.fitting(throughput.columns(result, again), out.width)))
        out.print()
    _print_wrapped(out, "", f"{found.workload}: {throughput.answer(result)}", bold=len(found.workload) + 1, indent=2)
    if found.soak is not None:
        out.print()
        index = found.soak.configuration
        out.print(f"soak test of {found.configurations[index].name}", style="bold", markup=False)
        if found.soak.points:
            out.print(table.rich_table(soak.columns(found.soak)))
        for line in soak.lines(found.soak):
            _print_wrapped(out, "  ", line, indent=4)
    notes = throughput.notes(result, rows)
    if notes:
        out.print()
    for line in notes:
        _print_wrapped(out, "note: ", line, style="dim")


def show_load(result: Result, out: Console) -> None:
    """Print what was found under load: the runs, the answer, why runs are INVALID, and the cross-check."""
    found = results_load.of(result)
    out.print()
    _print_wrapped(out, "", load.caption(found))
    out.print()
    out.print(table.rich_table(table.fitting(load.columns(found), out.width)))
    out.print()
    _print_wrapped(out, "", f"{found.workload}: {load.headline(found)}", bold=len(found.workload) + 1, indent=2)
    for line in load.notes(found):
        _print_wrapped(out, "  ", line, indent=4, style="dim")
    for line in load.reason_lines(found):
        _print_wrapped(out, f"{load.failing(found)}: ", line, style="bold red")
    if found.loadgen is not None:
        out.print()
        _print_wrapped(out, "", load.loadgen_sentence(found.loadgen))
        out.print()
        out.print(table.rich_table(load.loadgen_columns(found)))


def show_weights(rows: Sequence[tuple[str, ...]], out: Console) -> None:
    """Print the checkpoints: workload, name, size, state and place."""
    from rich.table import Table

    shown = Table("workload", "checkpoint", "MB", "state", "place")
    for row in rows:
        shown.add_row(*row)
    out.print(shown)


def show_validity(entry: ValidityEntry, out: Console) -> None:
    """Print a judgement's tables, what was written, and a warning if bf16 did not run."""
    from rich.markup import escape

    if entry.report is None:
        error = escape(entry.error or "it could not be judged")
        out.print(f"[bold red]modelzoo: error:[/] {escape(entry.workload)}: {error}", soft_wrap=True)
        return
    _print_all(validity.tables(entry.report.validity), out)
    for line in validity.written_lines(entry.files):
        out.print(escape(line), soft_wrap=True)
    tested = entry.report.tested
    if entry.asked.precision != "fp32" and tested.canary_verdict is not CanaryVerdict.ACTIVE:
        found = f"{entry.asked.precision} is {tested.canary_verdict}"
        out.print(
            f"[yellow]warning:[/] {found} in this process: {escape(tested.canary_summary)}",
            soft_wrap=True,
        )
