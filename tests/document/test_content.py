"""The parts of a document: what can be asked of them."""

from __future__ import annotations

import pytest

from modelzoo.document import Column, Command, Section, Table, Tone, lines, named


def test_prose_is_no_str() -> None:
    """It can be put into other prose, and cannot be taken apart."""
    assert f"said: {'a; b'}" == "said: a; b"
    assert not isinstance("a", str)
    with pytest.raises(AttributeError):
        ["a", "b"]  # type: ignore[attr-defined]


def test_only_sections_with_a_mark_are_in_the_contents() -> None:
    """Others are headings within a section."""
    section = Section("a", (Section("b", (), "b"), Section("c", ()), Command("x"), lines()), "a")
    assert [each.title for each in section.sections] == ["b"]


def test_lines_have_names_or_none() -> None:
    """Names come with texts, in their order."""
    assert [(line.name, str(line.text)) for line in named([("n", "v")]).items] == [("n", "v")]
    assert [(line.name, str(line.text)) for line in lines("v", "w").items] == [("", "v"), ("", "w")]


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
    assert Table("t", (Column("a", ()),)).meanings is None


def test_the_width_is_that_of_the_text_shown() -> None:
    """An escaped character is wider than itself; of several lines, the longest counts."""
    assert Column("a", ("\x1b",)).width == len(r"\x1b")
    assert Column("a", ("bcd\nef",)).width == 3


def test_a_column_without_tones_is_plain() -> None:
    """Otherwise each row has its own."""
    assert Column("a", ("1",)).tone(0) is Tone.PLAIN
    assert Column("a", ("1", "2"), tones=(Tone.BAD, Tone.SAME)).tone(1) is Tone.SAME
