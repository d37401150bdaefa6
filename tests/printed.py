"""Documents as text, for tests of what is said in them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from modelzoo.document import Block, Details, Lines, Notices, Section, Table, terminal
from modelzoo.document.terminal import PlainConsole


def printed(blocks: Sequence[Block], *, width: int = 100) -> str:
    """What a terminal of ``width`` columns shows, without colours and without blanks at the ends of lines."""
    out = io.StringIO()
    terminal.show(blocks, PlainConsole(file=out, width=width, highlight=False))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def sentences(blocks: Sequence[Block]) -> list[str]:
    """All prose, a sentence each, with the name or the mark before it."""
    return [text for block in blocks for text in _said(block)]


def _said(block: Block) -> Iterator[str]:
    if isinstance(block, (Section, Details)):
        yield from sentences(block.blocks)
    elif isinstance(block, Lines):
        for line in block.items:
            name = line.mark or (line.name and f"{line.name}:")
            yield f"{name} {line.text}".strip()
    elif isinstance(block, Notices):
        for notice in block.items:
            yield f"{notice.word}: {notice.message}"
    elif isinstance(block, Table):
        yield from (str(each) for each in (block.meanings, block.note) if each is not None)


def headings(blocks: Sequence[Block]) -> list[str]:
    """The titles of all sections."""
    return [title for block in blocks if isinstance(block, Section) for title in (block.title, *headings(block.blocks))]


def cells(table: Block) -> dict[str, tuple[str, ...]]:
    """The columns of a table by their titles."""
    assert isinstance(table, Table)
    return {column.title: column.cells for column in table.columns}
