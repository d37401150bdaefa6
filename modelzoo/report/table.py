"""Tables as data, and as what prints them: rich, Markdown and CSV.

A table is a sequence of columns of text. Whatever the cells contain (markup, line breaks, control characters, pipes,
formulas) is shown as text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from modelzoo.formatting import printable

if TYPE_CHECKING:
    from rich.table import Table

GAP = 2
"""Blanks between two columns."""
_MARKDOWN = re.compile(r"[\\`*_\[<&~|]")
"""Characters that begin inline markup or end a cell; CommonMark shows any of them as it is after a backslash."""
_FORMULA = ("=", "+", "-", "@")
"""A cell that begins so is a formula to spreadsheets (OWASP, "CSV Injection"); an apostrophe makes it text."""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: its heading.
        cells: one text per row.
        is_number: aligned to the right.
        order: columns with a number are left out, the lowest first, if the table is too wide; ``None``: never.
        styles: by row, or empty.
    """

    title: str
    cells: tuple[str, ...]
    is_number: bool = False
    order: int | None = None
    styles: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return max(len(printable(text)) for text in (self.title, *self.cells))


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """Return ``columns`` without those that may be left out, as far as ``width`` requires."""
    kept = list(columns)
    while sum(column.width + GAP for column in kept) - GAP > width:
        optional = [column for column in kept if column.order is not None]
        if not optional:
            break
        kept.remove(min(optional, key=lambda column: column.order or 0))
    return kept


def rich_table(columns: Sequence[Column]) -> Table:
    """Return the columns as a table for rich."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for column in columns:
        # A word that does not fit is continued on the next line, not cut.
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        shown.add_column(Text(printable(column.title)), justify=justify, overflow="fold", no_wrap=column.is_number)
    for index in range(len(columns[0].cells)):
        shown.add_row(*(Text(printable(c.cells[index]), c.styles[index] if c.styles else "") for c in columns))
    return shown


def markdown(columns: Sequence[Column]) -> str:
    """Return the columns as a table of GitHub Flavored Markdown, padded so that its source can be read as well."""
    lines = [[markdown_text(text) for text in row] for row in _rows(columns)]
    widths = [max(3, *(len(row[index]) for row in lines)) for index in range(len(columns))]
    rule = ["-" * (width - 1) + (":" if c.is_number else "-") for width, c in zip(widths, columns)]
    padded = [
        [text.rjust(width) if c.is_number else text.ljust(width) for text, width, c in zip(row, widths, columns)]
        for row in lines
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (padded[0], rule, *padded[1:]))


def markdown_text(text: str) -> str:
    """Return ``text`` on one line, with everything escaped that Markdown or HTML would take for markup."""
    return _MARKDOWN.sub(lambda match: "\\" + match.group(), printable(text))


def csv_text(columns: Sequence[Column]) -> str:
    """Return the columns as CSV (RFC 4180, but with line feeds); what spreadsheets would evaluate is made text."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(_csv_cell, row) for row in _rows(columns))
    return out.getvalue()


def _csv_cell(text: str) -> str:
    shown = printable(text)
    return f"'{shown}" if shown.startswith(_FORMULA) and not _is_number(shown) else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _rows(columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """The titles, then the cells, row by row."""
    return [tuple(column.title for column in columns), *zip(*(column.cells for column in columns))]
