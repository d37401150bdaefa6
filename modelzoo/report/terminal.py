"""Tables, warnings and the progress line, on stderr, with rich. Plain where stderr is no terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from modelzoo import formatting, stats
from modelzoo.formatting import MISSING, percent, seconds, seconds_within, significant
from modelzoo.results.summary import Row

VERDICT_STYLE = {
    "FASTER": "green",
    "SLOWER": "red",
    "SAME": "cyan",
    "AMBIGUOUS": "yellow",
    "REFUSED": "bold red",
}
PROOF = {
    "FP32": "fp32",
    "NOT_FP32": "NOT fp32",
    "ACTIVE": "bf16 active",
    "PARTLY": "bf16 partly",
    "NOT_ACTIVE": "bf16 NOT active",
}
"""What the table says of an audit's verdict."""


def console() -> Any:
    """The console for people: stderr. rich honours NO_COLOR and drops colours without a terminal."""
    from rich.console import Console

    wanted = Console(stderr=True, highlight=False)
    # A pipe has no width; 80 columns would cut the table.
    return wanted if wanted.is_terminal else Console(stderr=True, highlight=False, width=160)


def interval(found: stats.Interval | None) -> str:
    """``56.12 ms ±1.3 %``; the larger side where the two differ."""
    if found is None:
        return MISSING
    return seconds_within(found.value, found.half_width)


def ratio(found: stats.Interval | None) -> str:
    """``0.620× [0.600, 0.640]``."""
    if found is None:
        return MISSING
    return formatting.ratio(found.value, found.low, found.high)


def proof(row: Row) -> str:
    """What the audit found, in a word or two; without one, what the canary said."""
    if not row.proof_verdict:
        return f"canary: {row.canary}" if row.canary else "–"
    return PROOF.get(row.proof_verdict, "unknown")


def results_table(rows: Sequence[Row]) -> Any:
    """The one table of a call."""
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
    if compared:
        table.add_column("speedup", justify="right")
        table.add_column("verdict")
    table.add_column("proof")
    if any(row.valid for row in rows):
        table.add_column("predictions")
    for row in rows:
        word = row.verdict.outcome.value if row.verdict else ""
        comparison = [ratio(row.speedup) if row.verdict else "", Text(word, VERDICT_STYLE.get(word, ""))]
        table.add_row(
            row.workload,
            row.label,
            str(row.batch or "–"),
            interval(row.latency) if row.latency else Text("failed" if row.errors else "not timed", "red"),
            f"{significant(row.throughput)} {row.unit}/s" if row.throughput else "–",
            seconds(row.cold),
            f"{row.processes} × {row.samples // max(1, row.processes)}",
            *(comparison if compared else ()),
            proof(row),
            *([row.valid or "–"] if any(each.valid for each in rows) else []),
        )
    return table


def detail_lines(rows: Sequence[Row]) -> list[str]:
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
            lines.append(f"{name}: {row.verdict.outcome.value}, {row.verdict.reason}")
        if len(row.percentiles) > 1:
            lines.append(f"{name}: " + ", ".join(f"{k} {seconds(v)}" for k, v in row.percentiles.items()))
    return lines


def show(rows: Sequence[Row], out: Any) -> None:
    """Print table, details, warnings and errors."""
    from rich.markup import escape

    out.print(results_table(rows))
    for line in detail_lines(rows):
        out.print(escape(line), soft_wrap=True)
    said: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for item in row.advice:
            said.setdefault((item.message, item.hint), []).append(f"{row.workload} {row.label}")
    for (message, hint), names in said.items():
        out.print(f"[yellow]warning:[/] {escape(', '.join(names))}: {escape(message)}", soft_wrap=True)
        out.print(f"         → {escape(hint)}", soft_wrap=True)
    for row in rows:
        for error in row.errors:
            out.print(f"[bold red]failed:[/] {escape(row.workload)} {row.label}: {escape(error)}", soft_wrap=True)


class Progress:
    """A line that shows workload, phase and the interval so far; a plain line a run without a terminal."""

    def __init__(self, out: Any, total: int) -> None:
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
        self._said: set[str] = set()

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, message: Mapping[str, Any]) -> None:
        """A worker's message."""
        where = f"{message['workload']} {message['setting']}, process {message['round'] + 1}"
        if not self._out.is_terminal:
            # Only what has its weights and inputs is on its way; what has not ends in one line, the error's.
            if where not in self._said and message["phase"] not in ("weights", "load"):
                self._out.print(f"{where} …", soft_wrap=True)
                self._said.add(where)
            return
        words = [message["phase"]]
        if message.get("count"):
            words.append(f"{message['count']} calls")
        if message.get("half_width") is not None:
            words.append(f"±{percent(message['half_width'])}")
        self._bar.update(self._task, description=f"{where}: {', '.join(words)}")

    def advance(self) -> None:
        """A run has ended."""
        self._bar.advance(self._task)


def show_weights(rows: Sequence[tuple[str, ...]], out: Any) -> None:
    """The checkpoints: workload, name, size, state and place."""
    from rich.table import Table

    table = Table("workload", "checkpoint", "MB", "state", "place")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def show_validity(entry: Mapping[str, Any], out: Any) -> str:
    """Print a stored verdict's tables; return its ``[VALID]`` line, or an empty text where there is none."""
    from rich.markup import escape

    from modelzoo import validity

    if entry["report"] is None:
        out.print(
            f"[bold red]modelzoo: error:[/] {escape(entry['workload'])}: {escape(entry['error'])}", soft_wrap=True
        )
        return ""
    found = validity.from_json(entry["report"]["validity"])
    for table in validity.tables(found):
        out.print(table)
    for file in found.files:
        out.print(f"written: {file}", soft_wrap=True)
    word = entry["report"]["canary_word"]
    if entry["asked"]["precision"] == "bf16" and word != "active":
        out.print(
            f"[yellow]warning:[/] bf16 is {word} in this process: {escape(entry['report']['canary_summary'])}",
            soft_wrap=True,
        )
    return valid_line(entry)


def valid_line(entry: Mapping[str, Any]) -> str:
    """The ``[VALID]`` line of a stored judgement, or an empty text where there is none."""
    from modelzoo import validity

    return validity.line(validity.from_json(entry["report"]["validity"])) if entry["report"] else ""
