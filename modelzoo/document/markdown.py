"""A document as GitHub Flavored Markdown, as a comment on a pull request shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from modelzoo.document.content import (
    Block,
    Column,
    Command,
    Line,
    Lines,
    Notice,
    Notices,
    Section,
    Table,
)
from modelzoo.formatting import printable

_MARKUP = re.compile(r"[\\`*_\[<&~|]")
"""Characters that begin inline markup or end a cell; CommonMark shows any of them as it is after a backslash."""


def markdown(blocks: Sequence[Block]) -> str:
    """Return the document, without what only pages have, plots for example."""
    return "\n".join(_parts(blocks))


def _parts(blocks: Sequence[Block], title: str = "", level: int = 3) -> Iterator[str]:
    """What is separated by blank lines; a caption that only repeats ``title``, the heading above it, is left out."""
    for block in blocks:
        if isinstance(block, Section):
            yield f"{'#' * min(level, 6)} {_text(block.title)}\n"
            yield from _parts(block.blocks, block.title, level + 1)
        elif isinstance(block, Lines):
            yield from _list(map(_line, block.items), block.title)
        elif isinstance(block, Notices):
            yield from _list(map(_notice, block.items))
        elif isinstance(block, Command):
            yield "".join(f"    {printable(line)}\n" for line in block.text.split("\n"))
        elif isinstance(block, Table):
            yield from [f"{_text(block.caption)}\n"] if block.caption not in ("", title) else []
            yield table(block.columns)
            yield from (f"{_text(each)}\n" for each in (block.meanings, block.note) if each)


def _list(items: Iterable[str], title: str = "") -> Iterator[str]:
    shown = "".join(f"- {_text(each)}\n" for each in items)
    yield from [f"{_text(title)}:\n"] if title and shown else []
    yield from [shown] if shown else []


def _line(line: Line) -> str:
    return f"{line.mark or (line.name and f'{line.name}:')} {line.text}".strip()


def _notice(notice: Notice) -> str:
    concerns = f"{notice.concerns}: " if notice.concerns else ""
    hint = f" → {notice.hint}" if notice.hint else ""
    return f"{notice.word}: {concerns}{notice.message}{hint}"


def table(columns: Sequence[Column]) -> str:
    """Return the columns as a table, padded so that its source can be read as well."""
    titles = tuple(column.title for column in columns)
    lines = [[_text(text) for text in row] for row in (titles, *zip(*(column.cells for column in columns)))]
    widths = [max(3, *(len(row[index]) for row in lines)) for index in range(len(columns))]
    rule = ["-" * (width - 1) + (":" if c.is_number else "-") for width, c in zip(widths, columns)]
    padded = [
        [text.rjust(width) if c.is_number else text.ljust(width) for text, width, c in zip(row, widths, columns)]
        for row in lines
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (padded[0], rule, *padded[1:]))


def _text(text: str) -> str:
    """``text`` on one line, with everything escaped that Markdown or HTML would take for markup."""
    return "<br>".join(_MARKUP.sub(lambda match: "\\" + match.group(), printable(line)) for line in text.split("\n"))
