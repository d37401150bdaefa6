"""What a view shows is in every format that its command offers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from printed import printed
from shown_documents import VIEWS

from modelzoo.document import Block, Page, Section, Table
from modelzoo.document.written import html, markdown


@pytest.mark.parametrize("view", VIEWS)
def test_every_cell_of_a_view_is_in_every_format(view: str) -> None:
    """Whichever of them its command offers."""
    blocks = VIEWS[view]()
    page = html(Page("title", "", (Section("s", tuple(blocks)),)))
    found = [
        plain(printed(blocks, width=1000)),
        plain(re.sub(r"\\(.)", r"\1", markdown(blocks))),
        plain(re.sub(r"<[^>]*>", "", page).replace("&#39;", "'").replace("&gt;", ">").replace("&amp;", "&")),
    ]
    for table in tables(blocks):
        # A table that is brief leaves out what is said elsewhere.
        columns = [column for column in table.columns if not (table.is_brief and column.order is not None)]
        # In a terminal, the lines of a cell that wraps have those of its neighbours between them.
        formats = found[1:] if table.wraps else found
        texts = [text for column in columns for text in (column.title, *column.cells)]
        for line in [line for text in texts for line in text.split("\n")]:
            assert all(plain(line) in each for each in formats), line


def tables(blocks: Sequence[Block]) -> list[Table]:
    inner = [table for block in blocks if isinstance(block, Section) for table in tables(block.blocks)]
    return [*inner, *(block for block in blocks if isinstance(block, Table))]


def plain(text: str) -> str:
    return " ".join(text.split())
