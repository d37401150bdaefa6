"""What is said above, below and in the footnotes of a comparison."""

from __future__ import annotations

from fake_runs import MACHINE
from printed import headings, sentences
from proven_results import BF16, FP32, session, session_of, side

from modelzoo.comparison.compare import Comparison, FailOn, Question, compare, gate
from modelzoo.comparison.explanations import Explanation, Part
from modelzoo.comparison.model import Side
from modelzoo.document import Block, Line, Lines, Section, Table
from modelzoo.frozen import replace
from modelzoo.results.refusals import Metric, Obstacle
from modelzoo.views.compare import document, footnotes, gate_lines


def compared(base: Side, other: Side, *conditions: FailOn, question: Question | None = None) -> list[Block]:
    """The document of a comparison."""
    found = compare(base, other, question or Question())
    return document(found, gate(found, conditions))


def said(blocks: list[Block]) -> str:
    """All sentences."""
    return "\n".join(sentences(blocks))


def test_details_show_everything_that_is_shared() -> None:
    """Also what hardly matters."""
    found = compare(side("old", session()), side("new", session(day=2)), Question())
    text = said(document(found, gate(found, ()), details=True))
    assert "python 3.11.2" in text
    assert "more with --details" not in text


def test_without_sessions_the_basis_is_an_assumption() -> None:
    """An assumption with the way out of it."""
    assumed = said(compared(side("old", session()), side("new", session(day=2))))
    assert "basis: an assumption, because there are sessions on too few days (3 days each are enough)" in assumed


def mixed() -> Comparison:
    """Two rows that were refused for the same reason, one that was allowed, and one that is missing."""
    levels = [("a", FP32, 0.1), ("a", BF16, 0.1), ("b", FP32, 0.1)]
    other = session_of(levels[:2], 2, inputs_digest="other")
    return compare(side("old", session_of(levels)), side("new", other), Question())


def test_equal_footnotes_are_one() -> None:
    """Each row is marked with those that concern it."""
    notes, marks = footnotes(mixed())
    said = ("baseline and candidate ran different inputs", "only old has it")
    assert notes == [Line(text, mark=f"[{number}]") for number, text in enumerate(said, 1)]
    assert marks == {0: "[1]", 1: "[1]", 2: "[2]"}


def test_what_was_allowed_is_a_footnote() -> None:
    """Although the row has a verdict."""
    question = Question(allowed=frozenset({Obstacle.INPUTS}))
    found = compare(side("old", session(0.1)), side("new", session(0.01, 2, inputs_digest="other")), question)
    assert footnotes(found) == (
        [Line("allowed: baseline and candidate ran different inputs", mark="[1]")],
        {0: "[1]"},
    )


def test_a_clear_verdict_needs_no_footnote() -> None:
    """Its ratio and interval say it."""
    found = compare(side("old", session(0.1)), side("new", session(0.01, 2)), Question())
    assert footnotes(found) == ([], {0: ""})


def test_the_direction_of_the_ratio_is_explained() -> None:
    """For every metric."""
    for metric, words in (
        (Metric.LATENCY, "speedup of new (below 1: slower)"),
        (Metric.MEMORY, "memory of old divided by"),
    ):
        question = Question(metric=metric)
        assert words in said(compared(side("old", session()), side("new", session(day=2)), question=question))


def test_explanations_are_of_rows_that_differ() -> None:
    """Those of other rows are details."""
    explanation = Explanation("toy", "fp32", "audited", (Part("aten::add", 0.2, 0.1),), 2, 3, 0.1, 0.05)
    for level, count in ((0.05, 1), (0.1, 0)):
        found = compare(side("old", session(0.1)), side("new", session(level, 2)), Question())
        found = replace(found, explanations=(explanation,))
        blocks = document(found, gate(found, ()))
        assert headings(blocks).count("Where the difference of toy fp32 comes from") == count
        detailed = document(found, gate(found, ()), details=True)
        assert "old: 2 audited passes of 200.0 ms" in said(detailed)


def test_two_machines_are_compared_per_core_as_well() -> None:
    """And what is extrapolated is said."""
    other = session(0.05, 2, machine=replace(MACHINE, cpu="Neoverse-V1"))
    blocks = compared(side("old", session(0.1)), side("new", other))
    assert "Throughput per machine, physical core and vCPU" in headings(blocks)
    assert "Extrapolated: old used 1 of 4 cores" in said(blocks)
    one = compared(side("old", session(0.1)), side("new", session(0.05, 2)))
    assert "Throughput per machine, physical core and vCPU" not in headings(one)


def test_what_fails_is_named() -> None:
    """With its ratio, or with the reason why it has none."""
    comparison = compare(
        side("old", session_of([("a", FP32, 0.1), ("b", FP32, 0.1)])),
        side("new", session_of([("a", FP32, 0.5)], 2)),
        Question(),
    )
    lines = gate_lines(comparison, gate(comparison, [FailOn("slower", 0.03), FailOn("not-comparable")]))
    assert lines[0].startswith("FAILED slower:3%: a fp32, ratio 0.20× [")
    assert lines[1] == "FAILED not-comparable: b fp32, only old has it"


def test_what_passed_without_a_verdict_is_counted() -> None:
    """AMBIGUOUS is not the same as passed."""
    comparison = compare(
        side("old", session_of([("a", FP32, 0.1), ("b", FP32, 0.1)])),
        side("new", session_of([("a", FP32, 0.1)], 2)),
        Question(),
    )
    assert gate_lines(comparison, gate(comparison, [FailOn("slower", 0.03)])) == [
        "passed: no row meets slower:3%",
        "1 of 2 rows passed AMBIGUOUS: a fp32",
        "1 of 2 rows passed NOT COMPARABLE: b fp32",
    ]


def test_without_conditions_there_is_no_result() -> None:
    """Nothing was to pass."""
    assert "Result" not in headings(compared(side("old", session()), side("new", session(day=2))))


def test_the_document_begins_with_the_table() -> None:
    """After the headline and the sides; a row is called by its workload and its setting."""
    first, *_ = compared(side("old", session()), side("new", session(day=2)))
    assert isinstance(first, Section)
    assert [type(block) for block in first.blocks] == [Lines, Lines, Table, Lines]
    assert mixed().rows[0].name == "a fp32"


def test_what_rows_have_in_common_is_said_once() -> None:
    """Rows whose p-values and spreads differ share a footnote and a basis, which have the range."""
    names = "abcdefgh"
    base = session_of([(name, FP32, 0.1) for name in names], processes=3)
    other = session_of([(name, FP32, 0.1 + 0.007 * number) for number, name in enumerate(names)], 2, processes=3)
    found = compare(side("old", base), side("new", other), Question())
    notes, marks = footnotes(found)
    assert [str(each.text) for each in notes] == [
        "p = 0.12 to 1 (corrected for 8 comparisons), and a verdict needs p ≤ 0.02"
    ]
    assert set(marks.values()) == {"[1]"}
    (basis,) = [each for each in said(document(found, gate(found, ()))).splitlines() if each.startswith("basis")]
    assert "; sessions differ by 10 % (assumed), and fewer than 6 processes by " in basis
