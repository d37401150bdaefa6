"""A table as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from modelzoo.formatting import printable

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""A cell that begins so is a formula to spreadsheets (OWASP, "CSV Injection"); an apostrophe makes it text."""


def csv_lines(rows: Iterable[Iterable[str]]) -> str:
    """Return the rows as CSV (RFC 4180, but with line feeds); what spreadsheets would evaluate is made text."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(_cell, row) for row in rows)
    return out.getvalue()


def _cell(text: str) -> str:
    shown = printable(text)
    if shown.lstrip().startswith(_FORMULA):
        try:
            float(shown)
        except ValueError:
            return f"'{shown}"
    return shown
