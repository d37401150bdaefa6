"""Tables as data: they fit, and hostile text in them stays text."""

from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console

from modelzoo.report import table
from modelzoo.report.table import Column

HOSTILE = "[bold]a|b[/] `c`\n\x1b[31m<script> _x_ \\\u202e"


def rich_lines(*columns: Column) -> list[str]:
    """The table as rich prints it to a file."""
    text = io.StringIO()
    Console(file=text, width=200).print(table.rich_table(columns))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_columns_are_left_out_in_their_order_until_the_table_fits() -> None:
    """Those without an order stay, whatever the width."""
    wide = ("x" * 10,)
    found = [Column("a", wide), Column("b", wide, order=2), Column("c", wide, order=0), Column("d", wide, order=1)]
    widths = {46: "abcd", 45: "abd", 34: "abd", 33: "ab", 10: "a"}
    for width, expected in widths.items():
        assert "".join(column.title for column in table.fitting(found, width)) == expected


def test_hostile_text_is_shown_as_text_in_the_terminal() -> None:
    """Markup and control characters do nothing, and a line break does not make a line."""
    assert rich_lines(Column("a", (HOSTILE,)))[2:] == ["[bold]a|b[/] `c`\\n\\x1b[31m<script> _x_ \\\\u202e"]


def test_a_word_that_is_too_long_is_continued() -> None:
    """No character is lost, and numbers are not divided."""
    text = io.StringIO()
    Console(file=text, width=40).print(table.rich_table([Column("a", ("x" * 50,)), Column("b", ("1",), True)]))
    assert text.getvalue().count("x") == 50


def test_the_width_is_that_of_the_text_shown() -> None:
    """An escaped character is wider than itself."""
    assert Column("a", ("\x1b",)).width == len(r"\x1b")


def test_markdown_is_aligned_and_escaped() -> None:
    """A pipe is no cell, a bracket no link and a tag no tag; numbers are aligned to the right."""
    found = table.markdown([Column("name", ("a|b<c>", "[x](y)")), Column("n", ("1", "20"), is_number=True)])
    assert found == ("| name     |   n |\n| -------- | --: |\n| a\\|b\\<c> |   1 |\n| \\[x](y)  |  20 |\n")
    assert len(table.markdown([Column("a", (HOSTILE,))]).splitlines()) == 3


@pytest.mark.parametrize("text", ["=1+1", "+a", "-a", "@SUM(A1)"])
def test_spreadsheets_evaluate_nothing(text: str) -> None:
    """A cell that would be a formula begins with an apostrophe."""
    assert table.csv_text([Column("a", (text,))]) == f"a\n'{text}\n"


def test_csv_keeps_numbers_and_quotes_text() -> None:
    """Negative numbers stay numbers; commas and quotes come back as they were."""
    found = table.csv_text([Column("a,b", ('x"y', "-1.5"))])
    assert list(csv.reader(io.StringIO(found))) == [["a,b"], ['x"y'], ["-1.5"]]


def test_a_csv_row_is_one_line() -> None:
    """Line breaks in a cell are escaped, so that line-based tools can read the file."""
    assert len(table.csv_text([Column("a", (HOSTILE,))]).splitlines()) == 2
