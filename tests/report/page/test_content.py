"""Tables of other modules as tables of a page."""

from __future__ import annotations

from rich.table import Table as RichTable

from modelzoo.records import validity
from modelzoo.report.page.content import Command, Paragraphs, Section, facts, from_record, from_rich


def test_a_table_for_the_terminal_keeps_titles_cells_and_alignment() -> None:
    """Its markup is not evaluated: cells are text."""
    made = RichTable(title="the title", caption="the note")
    made.add_column("name")
    made.add_column("ms", justify="right")
    made.add_row("[bold]a[/]", "1.0")
    found = from_rich(made)
    assert (found.caption, found.note) == ("the title", "the note")
    assert [(column.title, column.is_number) for column in found.columns] == [("name", False), ("ms", True)]
    assert found.rows == [("[bold]a[/]", "1.0")]


def test_columns_of_numbers_of_a_stored_table_are_recognised() -> None:
    """Mostly digits, with or without a sign; the first column names the rows."""
    stored = validity.Table("t", ("1", "seen", "", "source"), (("1", "≤ 0.1", "pass", "x"), ("2", "–", "FAIL", "y")))
    assert [column.is_number for column in from_record(stored).columns] == [False, True, False, False]


def test_only_sections_with_a_mark_are_in_the_contents() -> None:
    """Others are headings within a section."""
    section = Section("a", (Section("b", (), "b"), Section("c", ()), Command("x"), Paragraphs(())), "a")
    assert [each.title for each in section.sections] == ["b"]
    assert [(fact.name, fact.value) for fact in facts([("n", "v")]).items] == [("n", "v")]
