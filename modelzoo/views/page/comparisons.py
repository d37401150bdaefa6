"""The sections that compare the first of several results, as the baseline, with each of the others. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.comparison.compare import Comparison, Question, compare, gate
from modelzoo.comparison.model import StoredResult
from modelzoo.comparison.pairing import make_side
from modelzoo.document import Block, Details, Section, Table, lines
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
    headline, sides, *rest = (_filled(block) for block in whole.blocks)
    if all(row.ratio is None for row in found.rows):
        return [headline, Details("What both have, and why it is not comparable", (sides, *rest, *others))]
    drawn = forest.of_comparison(found)
    plot = (drawn.figure(f"{mark}-ratios"),) if drawn is not None else ()
    shared = Details("Baseline and candidate, and what they have in common", (sides,))
    return [headline, *plot, *rest, shared, *others]


def _filled(block: Block) -> Block:
    """A table with the name of its workload in every row; any other block as it is."""
    if not isinstance(block, Table):
        return block
    columns = []
    for column in block.columns:
        cells: list[str] = []
        for cell in column.cells if column.title == "workload" else ():
            cells.append(cell or (cells[-1] if cells else ""))
        columns.append(replace(column, cells=tuple(cells)) if cells else column)
    return replace(block, columns=tuple(columns))
