"""The sections that compare the first of several results, as the baseline, with each of the others. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.comparison.compare import Question, compare
from modelzoo.comparison.gate import gate
from modelzoo.comparison.model import Basis, Comparison, Estimate, Outcome, Row, StoredResult
from modelzoo.comparison.sides import make_side
from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.report import compare as document
from modelzoo.report import findings
from modelzoo.report.page import figures
from modelzoo.report.page.content import Block, Details, Fact, Facts, Paragraphs, Section, Table
from modelzoo.report.plots import forest
from modelzoo.report.results_table import ratio
from modelzoo.report.table import Column


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
        return Section(title, (Paragraphs((f"Not compared: {error}.",)),), mark)
    return Section(title, tuple(_blocks(found, mark)), mark)


def _blocks(found: Comparison, mark: str) -> list[Block]:
    """The answer, and the document of the comparison with the plot of its ratios after its first table."""
    titles: list[str] = []
    parts: list[list[Block]] = []
    for block in document.document(found, gate(found, ()), details=True):
        if isinstance(block, document.Heading):
            titles.append(block.text)
            parts.append([])
        elif isinstance(block, document.Items):
            parts[-1] += _items(block)
        else:
            parts[-1].append(Table(titles[-1], tuple(map(_filled, block.columns))))
    # The first heading is that of the whole section.
    first = parts[0]
    others = [Section(title, tuple(blocks)) for title, blocks in zip(titles[1:], parts[1:])]
    if all(row.estimate is None for row in found.rows):
        said = f"No row of {found.other.name} is comparable with {found.base.name}."
        return [Paragraphs((said,)), Details("What both have, and why it is not comparable", (*first, *others))]
    ratios = figures.ratios(forest.of_comparison(found), f"{mark}-ratios")
    table = next(index for index, block in enumerate(first) if isinstance(block, Table))
    plot = (ratios,) if ratios is not None else ()
    sides = Details("The two sides, and what they have in common", tuple(first[:table]))
    return [_answer(found), first[table], *plot, *first[table + 1 :], sides, *others]


def _answer(found: Comparison) -> Facts:
    """A sentence for each row that is comparable, the geometric mean, and how many are not."""
    names = (found.base.name, found.other.name)
    said = [
        Fact(document.row_name(row), _sentence(row, row.estimate, names))
        for row in found.rows
        if row.estimate is not None
    ]
    if found.mean is not None and len(said) > 1:
        said.append(Fact("geometric mean", f"ratio {ratio(found.mean)}"))
    if any(row.estimate is not None and row.estimate.basis is Basis.ASSUMED for row in found.rows):
        said.append(Fact("assumed", "how much sessions differ, because there are too few of them; see below"))
    refused = sum(row.estimate is None for row in found.rows)
    if refused:
        said.append(Fact("not comparable", f"{refused} of {len(found.rows)} rows; the footnotes say why"))
    return Facts(tuple(said), stands_out=True)


def _sentence(row: Row, estimate: Estimate, names: tuple[str, str]) -> str:
    base, other = names
    if row.outcome in (Outcome.FASTER, Outcome.SLOWER):
        slower = row.outcome is Outcome.SLOWER
        shown = findings.inverse(estimate.ratio) if slower else estimate.ratio
        word = "slower" if slower else "faster"
        said = f"{other} is {findings.times(shown)} {word} than {base} {findings.bounds(shown)}"
    elif row.outcome is Outcome.SAME:
        said = f"{other} and {base} are equally fast: ratio {ratio(estimate.ratio)}"
    else:
        said = f"{other} and {base} cannot be told apart: ratio {ratio(estimate.ratio)}"
    return said


def _filled(column: Column) -> Column:
    """A column in which every row has the name of its workload."""
    if column.title != "workload":
        return column
    cells: list[str] = []
    for cell in column.cells:
        cells.append(cell or (cells[-1] if cells else ""))
    return replace(column, cells=tuple(cells))


def _items(block: document.Items) -> list[Block]:
    named = tuple(Fact(mark.rstrip(":"), text) for mark, text in block.items if mark)
    plain = tuple(text for mark, text in block.items if not mark)
    found: list[Block] = [Facts(named)] if named else []
    return [*found, Paragraphs(plain)] if plain else found
