"""The sections that compare the first of several results, as the baseline, with each of the others. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.comparison.compare import Comparison, Question, compare, gate
from modelzoo.comparison.model import StoredResult
from modelzoo.comparison.pairing import make_side
from modelzoo.document import Block, Column, Details, Section, Table, lines
from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.views import compare as document
from modelzoo.views.plots import forest


def section(
    base: tuple[str, Sequence[StoredResult]], other: tuple[str, Sequence[StoredResult]], question: Question, mark: str
) -> Section:
    """Return the section of one comparison, or one that says why the two cannot be compared.

    Args:
        base: name and sessions of the baseline.
        other: likewise of the other side.
        question: what is to be compared, and how.
        mark: id of the section.
    """
    title = f"{other[0]} compared with {base[0]}"
    try:
        found = compare(make_side(*base), make_side(*other), question)
    except InputError as error:
        return Section(title, (lines(f"Not compared: {error}."),), mark)
    return Section(title, tuple(_blocks(found, mark)), mark)


def _blocks(found: Comparison, mark: str) -> list[Block]:
    """The document of the comparison, with the plot of its ratios before any prose."""
    whole, *others = document.document(found, gate(found, ()), details=True)
    assert isinstance(whole, Section)
    headline, sides, *rest = (_filled(block) if isinstance(block, Table) else block for block in whole.blocks)
    if all(row.ratio is None for row in found.rows):
        return [headline, Details("What both have, and why it is not comparable", (sides, *rest, *others))]
    drawn = forest.of_comparison(found)
    plot = (drawn.figure(f"{mark}-ratios"),) if drawn is not None else ()
    shared = Details("Baseline and candidate, and what they have in common", (sides,))
    return [headline, *plot, *rest, shared, *others]


def _filled(table: Table) -> Table:
    """The table with the name of its workload in every row."""
    return replace(table, columns=tuple(map(_filled_column, table.columns)))


def _filled_column(column: Column) -> Column:
    if column.title != "workload":
        return column
    cells: list[str] = []
    for cell in column.cells:
        cells.append(cell or (cells[-1] if cells else ""))
    return replace(column, cells=tuple(cells))
