"""A judgement as rich tables, for stderr."""

from __future__ import annotations

from typing import Any

from modelzoo.validity.outcome import Table, Validity


def tables(validity: Validity) -> list[Any]:
    """The judgement's tables as ``rich.table.Table``, the checks last."""
    return [_rich(table) for table in (*validity.tables, check_table(validity))]


def check_table(validity: Validity) -> Table:
    """What was seen, what is required, what would have passed, and where the requirement comes from."""
    rows = tuple(
        (
            check.title + (f"\n--tolerance {check.name}=" if check.would_pass_at is not None else ""),
            number(check.seen),
            f"{'≥' if check.relation == '>=' else '≤'} {number(check.required)}",
            "no value" if check.would_pass_at is None else number(check.would_pass_at),
            "pass" if check.passed else "FAIL",
            check.source,
        )
        for check in validity.checks
    )
    columns = ("check", "seen", "required", "would pass at", "", "source of the requirement")
    parts = [f"{validity.workload}: {validity.verdict}, {validity.scope}"]
    parts += [validity.reason] if validity.reason else []
    parts += validity.notes
    return Table("Checks", columns, rows, "\n".join(parts))


def number(value: float | None) -> str:
    """Four significant digits; a dash for none."""
    return "–" if value is None else f"{value:.4g}"


def _rich(table: Table) -> Any:
    from rich.markup import escape
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(title=escape(table.title), caption=escape(table.note) or None, title_justify="left")
    shown.caption_justify = "left"
    for column in table.columns:
        shown.add_column(escape(column))
    for row in table.rows:
        cells = [Text(cell, style=_style(cell)) for cell in row]
        shown.add_row(*cells, end_section=any("\n" in cell for cell in row))
    return shown


def _style(cell: str) -> str:
    return {"FAIL": "bold red", "pass": "green"}.get(cell, "")
