"""Tables, warnings and progress on stderr, with rich; plain text if stderr is not a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from modelzoo import formatting, stats
from modelzoo.formatting import MISSING, percent, seconds, seconds_within, significant
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.protocol import Progress
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.report import kernel_tables, validity
from modelzoo.results.summary import SummaryRow
from modelzoo.stats import SpeedVerdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

VERDICT_STYLE = {
    SpeedVerdict.FASTER: "green",
    SpeedVerdict.SLOWER: "red",
    SpeedVerdict.SAME: "cyan",
    SpeedVerdict.AMBIGUOUS: "yellow",
    SpeedVerdict.REFUSED: "bold red",
}
PROOF = {
    ProofVerdict.FP32: "fp32",
    ProofVerdict.NOT_FP32: "NOT fp32",
    ProofVerdict.ACTIVE: "bf16 active",
    ProofVerdict.PARTLY: "bf16 partly",
    ProofVerdict.NOT_ACTIVE: "bf16 NOT active",
}
"""What the table says for the verdict of an audit."""
QUIET_PHASES = ("weights", "load", "load and compile")
"""Until a model is loaded, a failure should be the only line that is printed."""


class ProgressEvent(Protocol):
    """What the progress line shows: which worker, and its message."""

    @property
    def workload(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def round(self) -> int: ...
    @property
    def message(self) -> Progress: ...


def console() -> Console:
    """Return the console for people: stderr. rich honours NO_COLOR and drops colours without a terminal."""
    from rich.console import Console

    wanted = Console(stderr=True, highlight=False)
    # A pipe has no width; 80 columns would cut the table.
    return wanted if wanted.is_terminal else Console(stderr=True, highlight=False, width=160)


def interval(found: stats.Interval | None) -> str:
    """``56.12 ms ±1.3 %``; the larger side if the two differ."""
    return MISSING if found is None else seconds_within(found.value, found.half_width)


def ratio(found: stats.Interval | None) -> str:
    """``0.620× [0.600, 0.640]``."""
    return MISSING if found is None else formatting.ratio(found.value, found.low, found.high)


def proof(row: SummaryRow) -> str:
    """What the audit found, in a word or two; without an audit, what the canary showed."""
    if row.proof_verdict is None:
        return f"canary: {row.canary}" if row.canary else MISSING
    return PROOF.get(row.proof_verdict, "unknown")


def results_table(rows: Sequence[SummaryRow]) -> Table:
    """Return the one table of a call."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title="Median time of one forward batch with its 95 % interval; samples are processes × calls",
        title_justify="left",
    )
    table.add_column("workload", style="bold")
    table.add_column("setting")
    for name in ("batch", "latency", "throughput", "first call", "samples"):
        table.add_column(name, justify="right")
    compared = any(row.verdict for row in rows)
    judged = any(row.valid for row in rows)
    if compared:
        table.add_column("speedup", justify="right")
        table.add_column("verdict")
    table.add_column("proof")
    if judged:
        table.add_column("predictions")
    for row in rows:
        cells = [
            row.workload,
            row.label,
            str(row.batch or MISSING),
            interval(row.latency) if row.latency else Text("failed" if row.errors else "not timed", "red"),
            f"{significant(row.throughput)} {row.unit}/s" if row.throughput else MISSING,
            seconds(row.cold_start),
            f"{row.processes} × {row.samples // max(1, row.processes)}",
        ]
        if compared:
            verdict = row.verdict.outcome if row.verdict else None
            cells.append(ratio(row.speedup) if verdict else "")
            cells.append(Text(str(verdict), VERDICT_STYLE[verdict]) if verdict else "")
        cells.append(proof(row))
        if judged:
            cells.append(row.valid or MISSING)
        table.add_row(*cells)
    return table


def detail_lines(rows: Sequence[SummaryRow]) -> list[str]:
    """What does not fit into the table: percentiles, compile time, evidence, reasons of verdicts."""
    lines = []
    for row in rows:
        name = f"{row.workload} {row.label}"
        if row.proof:
            lines.append(f"{name}: {row.proof}")
        if row.valid:
            lines.append(f"{name}: predictions {row.valid} ({row.valid_detail})")
        if row.limit:
            lines.append(f"{name}: {row.limit}")
        if row.compile_seconds is not None:
            lines.append(f"{name}: compiling took {seconds(row.compile_seconds)}")
        if row.verdict:
            lines.append(f"{name}: {row.verdict.outcome}, {row.verdict.reason}")
        if len(row.percentiles) > 1:
            lines.append(f"{name}: " + ", ".join(f"{k} {seconds(v)}" for k, v in row.percentiles.items()))
    return lines


def show(rows: Sequence[SummaryRow], out: Console) -> None:
    """Print table, details, warnings and errors."""
    from rich.markup import escape

    out.print(results_table(rows))
    for line in detail_lines(rows):
        out.print(escape(line), soft_wrap=True)
    names_by_warning: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for item in row.warnings:
            names_by_warning.setdefault((item.message, item.hint), []).append(f"{row.workload} {row.label}")
    for (message, hint), names in names_by_warning.items():
        out.print(f"[yellow]warning:[/] {escape(', '.join(names))}: {escape(message)}", soft_wrap=True)
        out.print(f"         → {escape(hint)}", soft_wrap=True)
    for row in rows:
        for error in row.errors:
            out.print(f"[bold red]failed:[/] {escape(row.workload)} {row.label}: {escape(error)}", soft_wrap=True)


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
    for table in tables:
        out.print(table)


class LiveProgress:
    """A line that shows workload, phase and the interval so far; without a terminal, one plain line per run."""

    def __init__(self, out: Console, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._out = out
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=out,
            transient=True,
            disable=not out.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=total)
        self._printed: set[str] = set()

    def __enter__(self) -> LiveProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, event: ProgressEvent) -> None:
        """Show what a worker is doing."""
        where = f"{event.workload} {event.label}, process {event.round + 1}"
        message = event.message
        if not self._out.is_terminal:
            if where not in self._printed and message.phase not in QUIET_PHASES:
                self._out.print(f"{where} …", soft_wrap=True)
                self._printed.add(where)
            return
        self._bar.update(self._task, description=f"{where}: {progress_text(message)}")

    def advance(self) -> None:
        """Count a run as finished."""
        self._bar.advance(self._task)


def progress_text(message: Progress) -> str:
    """``steady, 120 calls, ±1.2 %``; an interval wider than its value says nothing and is left out."""
    words = [message.phase]
    if message.count:
        words.append(f"{message.count} calls")
    if message.half_width is not None and message.half_width < 1:
        words.append(f"±{percent(message.half_width)}")
    return ", ".join(words)


def show_weights(rows: Sequence[tuple[str, ...]], out: Console) -> None:
    """Print the checkpoints: workload, name, size, state and place."""
    from rich.table import Table

    table = Table("workload", "checkpoint", "MB", "state", "place")
    for row in rows:
        table.add_row(*row)
    out.print(table)


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
    if entry.asked.precision == "bf16" and tested.canary_verdict is not CanaryVerdict.ACTIVE:
        out.print(
            f"[yellow]warning:[/] bf16 is {tested.canary_verdict} in this process: {escape(tested.canary_summary)}",
            soft_wrap=True,
        )
