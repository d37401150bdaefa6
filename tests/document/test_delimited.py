"""Tables as CSV: nothing is lost, and spreadsheets evaluate nothing."""

from __future__ import annotations

import csv
import io

from modelzoo.document.delimited import csv_lines

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
