"""A document in a file: as GitHub Flavored Markdown, as a comment on a pull request shows it; as an HTML page; as CSV.

All text is escaped. The templates of the page are in ``templates``.
"""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from modelzoo import __version__
from modelzoo.document import Block, Column, Command, Line, Lines, Notice, Notices, Page, Section, Table, theme
from modelzoo.formatting import capitalized, printable

if TYPE_CHECKING:
    from jinja2 import Environment


_MARKUP = re.compile(r"[\\`*_\[<&~|]")
"""Characters that begin inline markup or end a cell; CommonMark shows any of them as it is after a backslash."""


def markdown(blocks: Sequence[Block]) -> str:
    """Return the document, without what only pages have, plots for example."""
    return "\n".join(_parts(blocks))


def _parts(blocks: Sequence[Block], title: str = "", level: int = 3) -> Iterator[str]:
    """What is separated by blank lines; a caption that only repeats ``title``, the heading above it, is left out."""
    for block in blocks:
        if isinstance(block, Section):
            yield f"{'#' * min(level, 6)} {_escaped(block.title)}\n"
            yield from _parts(block.blocks, block.title, level + 1)
        elif isinstance(block, Lines):
            yield from _list(map(_line, block.items), block.title)
        elif isinstance(block, Notices):
            yield from _list(map(_notice, block.items))
        elif isinstance(block, Command):
            yield "".join(f"    {printable(line)}\n" for line in block.text.split("\n"))
        elif isinstance(block, Table):
            yield from [f"{_escaped(block.caption)}\n"] if block.caption not in ("", title) else []
            yield markdown_table(block.columns)
            yield from (f"{_escaped(each)}\n" for each in (block.meanings, block.note) if each)


def _list(items: Iterable[str], title: str = "") -> Iterator[str]:
    shown = "".join(f"- {_escaped(each)}\n" for each in items)
    yield from [f"{_escaped(title)}:\n"] if title and shown else []
    yield from [shown] if shown else []


def _line(line: Line) -> str:
    return f"{line.mark or (line.name and f'{line.name}:')} {line.text}".strip()


def _notice(notice: Notice) -> str:
    concerns = f"{notice.concerns}: " if notice.concerns else ""
    hint = f" → {notice.hint}" if notice.hint else ""
    return f"{notice.word}: {concerns}{notice.message}{hint}"


def markdown_table(columns: Sequence[Column]) -> str:
    """Return the columns as a table, padded so that its source can be read as well."""
    titles = tuple(column.title for column in columns)
    lines = [[_escaped(text) for text in row] for row in (titles, *zip(*(column.cells for column in columns)))]
    widths = [max(3, *(len(row[index]) for row in lines)) for index in range(len(columns))]
    rule = ["-" * (width - 1) + (":" if c.is_number else "-") for width, c in zip(widths, columns)]
    padded = [
        [text.rjust(width) if c.is_number else text.ljust(width) for text, width, c in zip(row, widths, columns)]
        for row in lines
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (padded[0], rule, *padded[1:]))


def _escaped(text: str) -> str:
    """``text`` on one line, with everything escaped that Markdown or HTML would take for markup."""
    return "<br>".join(_MARKUP.sub(lambda match: "\\" + match.group(), printable(line)) for line in text.split("\n"))


def html(page: Page) -> str:
    """Return the page. Equal pages give equal documents."""
    # Markup decides what is text and what is a drawing: the template marks the drawings only.
    return _environment().get_template("page.html").render(page=page, plot_css=theme.CSS, version=__version__) + "\n"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("modelzoo.document"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Only plain text: the templates' own output is Markup already.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    found.filters["kind"] = lambda block: type(block).__name__.lower()  # of the macro that shows it
    found.filters["sentence"] = lambda text: f"{capitalized(text)}."
    found.filters["base64"] = lambda content: base64.b64encode(content).decode("ascii")
    found.filters["lines"] = lambda text: str(text).split("\n")
    return found


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
