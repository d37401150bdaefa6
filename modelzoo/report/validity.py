"""A judgement as the ``[VALID]`` line, as rich tables, and what was written for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Optional

from modelzoo.records.validity import Relation, Table, Validity, ValidityVerdict

if TYPE_CHECKING:
    from rich.table import Table as RichTable

PICTURES = "_pictures"
"""End of the name of the directory that holds the pictures of a judgement."""
CELL_STYLES = {"FAIL": "bold red", "BROKEN": "bold red", "undecided": "yellow", "pass": "green"}


def valid_line(validity: Validity) -> str:
    """The last line on stdout: ``[VALID] <workload> <metric> <fp32> <tested> <verdict>``.

    In parentheses follows why the predictions are neither VALID nor NOT VALID; with NOT VALID, the size of the built-in
    data set, if that was used.
    """
    values = [_value(validity.reference), _value(validity.tested)]
    text = " ".join(["[VALID]", validity.workload, validity.metric, *values, validity.verdict.value])
    if validity.verdict not in (ValidityVerdict.VALID, ValidityVerdict.NOT_VALID):
        return f"{text} ({validity.reason})"
    return f"{text} ({validity.scope})" if validity.small else text


def _value(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.4g}"


def tables(validity: Validity) -> list[RichTable]:
    """The judgement's tables for rich, the checks last."""
    return [_rich(table) for table in (*validity.tables, check_table(validity))]


def check_table(validity: Validity) -> Table:
    """Each check: observed, its bound, required, the tolerance that would have passed, and where that comes from."""
    rows = tuple(
        (
            check.title + (f"\n--tolerance {check.name}=" if check.would_pass_at is not None else ""),
            number(check.seen),
            number(check.bound),
            f"{'≥' if check.relation is Relation.AT_LEAST else '≤'} {number(check.required)}",
            "no value" if check.would_pass_at is None else number(check.would_pass_at),
            "pass" if check.passed else "undecided" if check.undecided else "FAIL",
            check.source,
        )
        for check in validity.checks
    )
    columns = ("check", "seen", "95 % bound", "required", "would pass at", "", "source of the requirement")
    parts = [f"{validity.workload}: {validity.verdict.value}, {validity.scope}"]
    parts += [text for text in (validity.reason, validity.resolution) if text]
    parts += validity.notes
    return Table("Checks", columns, rows, "\n".join(parts))


def written_lines(files: Sequence[str]) -> list[str]:
    """What was written, in at most two lines: the number of pictures with their directory, other files by name."""
    folders = [str(PurePath(path).parent) for path in files]
    pictures = [folder for folder in folders if folder.endswith(PICTURES)]
    others = [path for path, folder in zip(files, folders) if not folder.endswith(PICTURES)]
    lines = [f"written: {len(pictures)} pictures in {', '.join(sorted(set(pictures)))}"] if pictures else []
    return lines + ([f"written: {', '.join(others)}"] if others else [])


def number(value: Optional[float]) -> str:
    """Four significant digits; a dash for ``None``."""
    return "–" if value is None else f"{value:.4g}"


def _rich(table: Table) -> RichTable:
    from rich.markup import escape
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(title=escape(table.title), caption=escape(table.note) or None, title_justify="left")
    shown.caption_justify = "left"
    for column in table.columns:
        shown.add_column(escape(column))
    for row in table.rows:
        cells = [Text(cell, style=CELL_STYLES.get(cell, "")) for cell in row]
        shown.add_row(*cells, end_section=any("\n" in cell for cell in row))
    return shown
