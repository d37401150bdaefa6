"""The parts of a document: what can be asked of them."""

from __future__ import annotations

from modelzoo.document import Column, Command, Rows, Section, Table, Tone, known, lines, named


def test_only_sections_with_a_mark_are_in_the_contents() -> None:
    """Others are headings within a section."""
    section = Section("a", (Section("b", (), "b"), Section("c", ()), Command("x"), lines()), "a")
    assert [each.title for each in section.sections] == ["b"]


def test_lines_have_names_or_none() -> None:
    """Names come with texts, in their order; empty texts are left out."""
    assert [(line.name, line.text) for line in named([("n", "v"), ("m", "")]).items] == [("n", "v")]
    assert [(line.name, line.text) for line in lines("v", "", "w").items] == [("", "v"), ("", "w")]


def test_a_table_has_rows_and_says_what_its_columns_mean() -> None:
    """In one sentence, in the order of the columns."""
    found = Table(
        "t",
        (
            Column("a", ("1", "2"), meaning="a: first"),
            Column("b", ("3", "4")),
            Column("c", ("5", "6"), meaning="c: last"),
        ),
    )
    assert found.rows == [("1", "3", "5"), ("2", "4", "6")]
    assert found.meanings == "a: first; c: last"
    assert Table("t", [Column("a", ())]).meanings == ""
    assert found.first(1).rows == [("1", "3", "5")]


def test_the_width_is_that_of_the_text_shown() -> None:
    """An escaped character is wider than itself; of several lines, the longest counts."""
    assert Column("a", ("\x1b",)).width == len(r"\x1b")
    assert Column("a", ("bcd\nef",)).width == 3


def test_a_column_without_tones_is_plain() -> None:
    """Otherwise each row has its own."""
    assert Column("a", ("1",)).tone(0) is Tone.PLAIN
    assert Column("a", ("1", "2"), tones=(Tone.BAD, Tone.SAME)).tone(1) is Tone.SAME


def test_columns_are_made_of_rows() -> None:
    """What is not known is shown as such; a column in which nothing is known can be left out."""
    of = Rows((1, 2))
    tone = {1: Tone.BAD, 2: Tone.PLAIN}.__getitem__
    columns = (of.number("a", lambda each: each if each > 1 else None, tone), of.text("b", lambda each: None))
    assert columns[0] == Column("a", ("–", "2"), is_number=True, tones=(Tone.BAD, Tone.PLAIN))
    assert known(*columns) == [columns[0]]
