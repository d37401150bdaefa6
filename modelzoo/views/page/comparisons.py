"""The sections that compare the first of several results, as the baseline, with each of the others. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.comparison.compare import Comparison, Question, compare, gate
from modelzoo.comparison.model import Basis, Estimate, Row, StoredResult
from modelzoo.comparison.pairing import make_side
from modelzoo.document import Block, Column, Details, Lines, Section, Table, lines, named
from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.stats import Outcome
from modelzoo.views import compare as document
from modelzoo.views.plots import ratios
from modelzoo.views.results_table import ratio


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
    """The answer, and the document of the comparison with the plot of its ratios after its first table."""
    whole, *others = document.document(found, gate(found, ()), details=True)
    assert isinstance(whole, Section)
    first = [_filled(block) if isinstance(block, Table) else block for block in whole.blocks]
    if all(row.estimate is None for row in found.rows):
        said = f"No row of {found.other.name} is comparable with {found.base.name}."
        return [lines(said), Details("What both have, and why it is not comparable", (*first, *others))]
    drawn = ratios.plot(ratios.of_comparison(found))
    table = next(index for index, block in enumerate(first) if isinstance(block, Table))
    plot = (drawn.figure(f"{mark}-ratios"),) if drawn is not None else ()
    sides = Details("Baseline and candidate, and what they have in common", tuple(first[:table]))
    return [_answer(found), first[table], *plot, *first[table + 1 :], sides, *others]


def _answer(found: Comparison) -> Lines:
    """A sentence for each row that is comparable, the geometric mean, and how many are not."""
    names = (found.base.name, found.other.name)
    said = [
        (document.row_name(row), _sentence(row, row.estimate, names)) for row in found.rows if row.estimate is not None
    ]
    if found.mean is not None and len(said) > 1:
        said.append(("geometric mean", f"ratio {ratio(found.mean)}"))
    if any(row.estimate is not None and row.estimate.basis is Basis.ASSUMED for row in found.rows):
        said.append(("assumed", "how much sessions differ, because there are too few of them; see below"))
    refused = sum(row.estimate is None for row in found.rows)
    if refused:
        said.append(("not comparable", f"{refused} of {len(found.rows)} rows; the footnotes say why"))
    return named(said, stands_out=True)


def _sentence(row: Row, estimate: Estimate, names: tuple[str, str]) -> str:
    base, other = names
    if row.outcome in (Outcome.FASTER, Outcome.SLOWER):
        value, _, bounds = ratio(estimate.ratio).partition(" ")
        said = f"{other} is {value} as fast as {base} {bounds}"
    elif row.outcome is Outcome.SAME:
        said = f"{other} and {base} are equally fast: ratio {ratio(estimate.ratio)}"
    else:
        said = f"{other} and {base} show no difference: ratio {ratio(estimate.ratio)}"
    return said


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
