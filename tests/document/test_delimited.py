"""Tables as CSV: nothing is lost, and spreadsheets evaluate nothing."""

from __future__ import annotations

import csv
import io

import pytest

from modelzoo.document.delimited import csv_lines


@pytest.mark.parametrize("text", ["=1+1", "+a", "-a", "@SUM(A1)", " =1", "＝1+1"])
def test_spreadsheets_evaluate_nothing(text: str) -> None:
    """A cell that would be a formula begins with an apostrophe."""
    assert csv_lines([("a",), (text,)]) == f"a\n'{text}\n"


def test_csv_keeps_numbers_and_quotes_text() -> None:
    """Negative numbers stay numbers; commas and quotes come back as they were."""
    found = csv_lines([("a,b",), ('x"y',), ("-1.5",)])
    assert list(csv.reader(io.StringIO(found))) == [["a,b"], ['x"y'], ["-1.5"]]


def test_a_csv_row_is_one_line() -> None:
    """Line breaks and control characters in a cell are escaped, so that line-based tools can read the file."""
    assert csv_lines([("a",), ("b\n\x1b[31mc",)]) == "a\nb\\n\\x1b[31mc\n"
