"""The document of a comparison in a terminal and as Markdown."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Union

from modelzoo.formatting import printable
from modelzoo.report import table
from modelzoo.report.compare import Block, Heading, Items, Tabular

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

WIDTH = 100
"""Columns of sentences, and of tables whose cells may be wrapped; other tables are as wide as they must be."""


def terminal(blocks: Sequence[Block], *, colour: bool) -> str:
    """Return the document as text for a terminal.

    Args:
        blocks: the document.
        colour: whether the text goes to a terminal, which may show colours; rich honours NO_COLOR.
    """
    from rich.console import Console

    out = io.StringIO()
    # A line that is wider than the terminal is wrapped by the terminal; rich would cut the cells.
    console = Console(file=out, force_terminal=colour, width=10_000, highlight=False, legacy_windows=False)
    for number, block in enumerate(blocks):
        if number:
            console.print()
        width = WIDTH if isinstance(block, Tabular) and block.wraps else None
        for shown in _shown(block):
            console.print(shown, soft_wrap=width is None, width=width)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _shown(block: Block) -> Iterator[Union[Text, Table]]:
    from rich.text import Text

    if isinstance(block, Heading):
        yield Text(printable(block.text), "bold")
    elif isinstance(block, Items):
        for mark, text in block.items:
            prefix = f"{printable(mark)} " if mark else ""
            lines = textwrap.wrap(
                printable(text),
                WIDTH,
                initial_indent=prefix,
                subsequent_indent=" " * min(len(prefix), 8),
                break_long_words=False,
                break_on_hyphens=False,
            )
            yield Text("\n".join(lines))
    else:
        yield table.rich_table(block.columns)


def markdown(blocks: Sequence[Block]) -> str:
    """Return the document as GitHub Flavored Markdown, as a comment on a pull request shows it."""
    return "\n".join("".join(_markdown(block)) for block in blocks)


def _markdown(block: Block) -> Iterator[str]:
    if isinstance(block, Heading):
        yield f"### {table.markdown_text(block.text)}\n"
    elif isinstance(block, Items):
        for mark, text in block.items:
            yield f"- {table.markdown_text(f'{mark} {text}'.strip())}\n"
    else:
        yield table.markdown(block.columns)
