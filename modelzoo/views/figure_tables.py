"""Columns of the tables of a judgement, and the table of its figures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from modelzoo.document import Column, Table
from modelzoo.formatting import MISSING
from modelzoo.records.validity import Validity

T = TypeVar("T")


def text_column(title: str, rows: Sequence[T], cell: Callable[[T], str]) -> Column:
    """A column of text, a cell for each row."""
    return Column(title, tuple(map(cell, rows)))


def number_column(title: str, rows: Sequence[T], cell: Callable[[T], str]) -> Column:
    """A column of numbers; of text if no row has one."""
    cells = tuple(map(cell, rows))
    return Column(title, cells, is_number=any(each not in ("", MISSING) for each in cells))


def over_the_set(judged: Validity, rows: Sequence[tuple[str, ...]]) -> Table:
    """The figures over the data set: name, of the reference, under test, and the difference if there is a column."""
    titles = ("", judged.reference_name, judged.tested_name, "difference")
    columns = [text_column(titles[0], rows, lambda row: row[0])]
    columns += [number_column(titles[i], rows, lambda row, i=i: row[i]) for i in range(1, len(rows[0]))]  # type: ignore[misc]
    return Table("Over the set", tuple(columns))
