"""The section that compares two of the results."""

from __future__ import annotations

from fake_runs import evidence
from stored_sides import session

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import Side, StoredResult
from modelzoo.document import Details, Figure, Lines, Table, Tone, first_line
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result
from modelzoo.results.refusals import ALLOWABLE
from modelzoo.views.page import build


def named(name: str, *results: Result) -> Side:
    """A side with these results, which need not belong together."""
    return Side(name, tuple(StoredResult(f"{number}.json", each) for number, each in enumerate(results, 1)))


def test_the_table_is_followed_by_the_plot_of_its_ratios() -> None:
    """The other parts of the comparison are sections of their own."""
    proof = evidence(ProofVerdict.FP32)
    base = named("old", session([1.0, 1.01, 0.99], evidence=proof))
    other = named("new", session([3.0, 3.01, 2.99], day=2, evidence=proof))
    question = Question(allowed=frozenset(ALLOWABLE))
    found = build.compared(base, other, question, "c")
    assert found.title == "new compared with old"
    answer, figure, table = found.blocks[:3]
    assert isinstance(answer, Lines)
    said = str(answer.items[0].text)
    assert said.startswith("toy fp32: new is slower than old, ratio 0.33× [0.")
    assert said.endswith("ASSUMED")
    assert answer.items[0].tone is Tone.WORSE
    assert isinstance(table, Table)
    assert table.caption == "new compared with old"
    assert any(cell.startswith("SLOWER") for row in table.rows for cell in row)
    assert isinstance(figure, Figure)


def test_a_refusal_is_said_in_place_of_the_table() -> None:
    """Sessions that do not belong together, and results in which nothing was measured."""
    empty = named("new", Result(("modelzoo",), "2026-01-01"))
    found = build.compared(named("old", session([1.0, 1.0])), empty, Question(), "c")
    [said] = found.blocks
    assert isinstance(said, Lines)
    assert str(said.items[0].text).startswith("Not compared: new: nothing was measured")


def test_if_no_row_is_comparable_there_is_no_plot() -> None:
    """The page says so, and why; what both have in common is folded away."""
    other = named("new", session([1.0, 1.0], workload="b"))
    found = build.compared(named("old", session([1.0, 1.0])), other, Question(), "c")
    said, *why, shared = found.blocks
    assert said == first_line("new is not comparable with old: only old has it", Tone.BAD)
    assert "NOT COMPARABLE" in str(why)
    assert isinstance(shared, Details)
