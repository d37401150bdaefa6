"""The doors to the terminal and to spreadsheets: a string is text, whoever wrote it."""

from __future__ import annotations

import csv
import io

import pytest

from modelzoo.document.terminal import PlainConsole
from modelzoo.document.written import csv_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[/x] [bold]net[/bold] :smile:", "[/x] [bold]net[/bold] :smile:"),
        ("a\n[TARGET] resnet50 Time 0.0001", r"a\n\x5bTARGET] resnet50 Time 0.0001"),
        ("\x1b[2J\x9b31m\r\x07", r"\x1b[2J\x9b31m\r\x07"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
    ],
)
def test_a_string_is_one_line_of_text(text: str, shown: str) -> None:
    """No markup, no emoji, no control character, no change of direction, no line that scripts parse."""
    out = io.StringIO()
    PlainConsole(file=out, force_terminal=True, width=200, color_system=None).print(text, soft_wrap=True)
    assert out.getvalue() == f"{shown}\n"


FORMULAS = ("=1+1", "+a", "-a", "@SUM(A1)", " =1", "＝1+1")


def test_a_row_is_one_line_and_no_cell_a_formula() -> None:
    """A formula begins with an apostrophe; numbers, commas and quotes come back as they were."""
    found = csv_lines([("a,b", 'x"y'), ("-1.5", "b\n\x1b[31mc"), FORMULAS])
    assert found.count("\n") == 3
    assert list(csv.reader(io.StringIO(found))) == [
        ["a,b", 'x"y'],
        ["-1.5", r"b\n\x1b[31mc"],
        [f"'{each}" for each in FORMULAS],
    ]
