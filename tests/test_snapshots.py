"""What people read, approved by people: each view as it is printed, and as Markdown and HTML where it is shown so.

``./scripts/test --update-snapshots -k snapshots`` writes the files anew; read them before they are committed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from places import SNAPSHOTS
from printed import printed
from shown_documents import VIEWS, compared_text, machines, sides

from modelzoo.cli.stored import rendered
from modelzoo.comparison.compare import Question, compare, gate
from modelzoo.comparison.machines import Price
from modelzoo.document import Block, Page, Section, Table
from modelzoo.document.written import html, markdown
from modelzoo.views.compare import document
from modelzoo.views.page import compared

Approved = Callable[[str, str], None]
PAGES = ("tune", "validity")
"""Views of which the HTML is approved as well: they have every kind of block between them."""


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_printed_as_approved(view: str, approved: Approved) -> None:
    """In a terminal of 100 columns."""
    approved(f"{view}.txt", printed(VIEWS[view]()))


@pytest.mark.parametrize("view", PAGES)
def test_a_view_is_shown_in_a_page_as_approved(view: str, approved: Approved) -> None:
    """Only what is between the navigation and the footer."""
    approved(f"{view}.html", main(VIEWS[view]()))


def test_a_comparison_is_shown_as_approved(approved: Approved) -> None:
    """Its tables are as wide as they must be."""
    for details in (False, True):
        text = compared_text("terminal", details=details)
        approved(f"compare{'-details' if details else ''}.txt", text)
    approved("compare.md", compared_text("markdown", details=False))
    approved("compare.html", main([compared(*sides(), Question(), "c")]))


def test_what_machines_serve_and_cost_is_shown_as_approved(approved: Approved) -> None:
    """Of one session each, within an hour."""
    base, other = machines()
    prices = Price("x86", 1.8, "CNY"), Price("arm", 1.1, "CNY")
    found = compare(base, other, Question(), prices)
    judged = [(found, gate(found, ()))]
    approved("compare-throughput.txt", rendered(judged, "terminal", document, Path("file")))
    approved("compare-throughput.html", main([compared(base, other, Question(), "c", prices)]))


def test_a_check_is_shown_in_a_pull_request_as_approved(approved: Approved) -> None:
    """One page of Markdown."""
    approved("check.md", markdown(VIEWS["check"]()))


def main(blocks: Sequence[Block]) -> str:
    """The HTML of ``blocks``, without the drawings."""
    page = html(Page("title", "subtitle", (Section("Results", tuple(blocks), "results"),)))
    (found,) = re.findall(r"<main.*</main>", page, re.DOTALL)
    return re.sub(r"\n\s*\n+", "\n", re.sub(r"<svg.*?</svg>", "", found, flags=re.DOTALL)) + "\n"


def test_every_snapshot_is_of_a_view() -> None:
    """A view that goes takes its snapshots with it."""
    expected = {f"{view}.txt" for view in VIEWS} | {f"{view}.html" for view in PAGES}
    expected |= {"compare.txt", "compare-details.txt", "compare.md", "compare.html", "check.md", "plans", "said"}
    expected |= {"compare-throughput.txt", "compare-throughput.html"}
    assert {path.name for path in SNAPSHOTS.iterdir()} == expected
    tests = (path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("test_*.py"))
    said = {name for text in tests for name in re.findall(r'approved\("said/([\w-]+\.txt)"', text)}
    assert {path.name for path in (SNAPSHOTS / "said").iterdir()} == said


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
