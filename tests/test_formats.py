"""A table that is added to a view appears in every format that its command offers, and nothing else has to know it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from load_results import load as load_of
from load_results import measured
from load_results import result as load_result
from printed import printed
from shown_documents import VIEWS, compared_text, search, several_workloads, sides, throughput_of

from modelzoo.cli import app
from modelzoo.comparison.compare import Question
from modelzoo.document import Block, Column, Page, Section, Table
from modelzoo.document.html import html
from modelzoo.document.markdown import markdown
from modelzoo.records.run import Result
from modelzoo.results import store
from modelzoo.views import compare, load, results_table, throughput, tuning
from modelzoo.views.page import build

NEW = Table("A new table", (Column("new row", ("one new cell",)), Column("new number", ("12.5 new",), is_number=True)))
WORDS = (NEW.caption, "new row", "one new cell", "new number", "12.5 new")
VIEWED: dict[str, tuple[Any, str, Callable[[], Result]]] = {
    "throughput": (throughput, "document", throughput_of),
    "load": (load, "document", lambda: load_result(measured(load_of(queries=662)))),
    "tune": (tuning, "search", search),
}
"""The function of each view to which a table is added, and what is shown."""


def longer(original: Callable[..., list[Block]]) -> Callable[..., list[Block]]:
    """The same document and the new table."""
    return lambda *arguments, **options: [*original(*arguments, **options), NEW]


@pytest.mark.parametrize("view", VIEWED)
def test_a_new_table_is_printed_and_in_the_page(
    view: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 'modelzoo report', which shows what each command has measured."""
    module, function, made = VIEWED[view]
    monkeypatch.setattr(module, function, longer(getattr(module, function)))
    path, page = tmp_path / "r.json", tmp_path / "page.html"
    store.write(made(), path)
    assert app.main(["report", str(path)]) == 0
    shown = capsys.readouterr().out
    assert app.main(["report", str(path), "-o", str(page)]) == 0
    for words in WORDS:
        assert words in shown
        assert words in page.read_text(encoding="utf-8")


def test_a_new_column_of_a_run_is_printed_and_in_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page orders the columns anew, and keeps them all."""
    original = results_table._evidence_columns

    def wider(shown: Sequence[Any]) -> list[Column]:
        return [*original(shown), Column("new", tuple("a new cell" for _ in shown))]

    monkeypatch.setattr(results_table, "_evidence_columns", wider)
    path, page = tmp_path / "r.json", tmp_path / "page.html"
    store.write(several_workloads(), path)
    assert app.main(["report", str(path)]) == 0
    assert capsys.readouterr().out.count("a new cell") == 3  # a row per model, as two settings are compared
    assert app.main(["report", str(path), "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8").count("a new cell") == 5


def test_a_new_table_of_a_comparison_is_in_all_of_its_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the terminal, as Markdown, and in a page; CSV, JSON and JUnit are of its rows."""
    monkeypatch.setattr(compare, "document", longer(compare.document))
    base, other = sides()
    section = build.compared(base, other, Question(), "c")
    texts = [compared_text(form, details=False) for form in ("terminal", "markdown")]
    for text in (*texts, html(Page("title", "", (section,)))):
        for words in WORDS:
            assert words in text


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
    """All tables."""
    inner = [table for block in blocks if isinstance(block, Section) for table in tables(block.blocks)]
    return [*inner, *(block for block in blocks if isinstance(block, Table))]


def plain(text: str) -> str:
    """``text`` with single blanks."""
    return " ".join(text.split())
