"""What is said of a comparison beyond what ``tests/snapshots`` shows: its footnotes, its marks, what a row rests on."""

from __future__ import annotations

from collections.abc import Sequence

from fake_runs import MACHINE
from printed import headings, printed, sentences
from proven_results import BF16, FP32, session, session_of, side

from modelzoo.comparison.compare import Comparison, FailOn, Question, compare, gate
from modelzoo.comparison.explanations import Explanation, Part
from modelzoo.comparison.machines import Price
from modelzoo.comparison.pairing import parse_pairing
from modelzoo.document import Block, Line
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.results.refusals import Metric
from modelzoo.views import compare_columns
from modelzoo.views.compare import document, footnotes, gate_lines

PAIRED = Question(pairings=(parse_pairing("precision=fp32:precision=bf16"),))


def compared(base: Result, other: Result, question: Question | None = None, prices: Sequence[Price] = ()) -> Comparison:
    """Two sessions side by side."""
    return compare(side("old", base), side("new", other), question or Question(), prices)


def shown(found: Comparison, *, details: bool = False) -> list[Block]:
    """What is said of them."""
    return document(found, gate(found, ()), details=details)


def test_equal_footnotes_are_one() -> None:
    """Each row is marked with those that concern it."""
    levels = [("a", FP32, 0.1), ("a", BF16, 0.1), ("b", FP32, 0.1)]
    notes, marks = footnotes(compared(session_of(levels), session_of(levels[:2], 2, inputs_digest="other")))
    said = ("baseline and candidate ran different inputs", "only old has it")
    assert notes == [Line(text, mark=f"[{number}]") for number, text in enumerate(said, 1)]
    assert marks == {0: "[1]", 1: "[1]", 2: "[2]"}


def test_what_rows_have_in_common_is_said_once() -> None:
    """Rows whose p-values and spreads differ share a footnote and a basis, which have the range."""
    names = "abcdefgh"
    base = session_of([(name, FP32, 0.1) for name in names], processes=3)
    other = session_of([(name, FP32, 0.1 + 0.007 * number) for number, name in enumerate(names)], 2, processes=3)
    found = compared(base, other)
    notes, marks = footnotes(found)
    text = "p = 0.12 to 1 (corrected for 8 comparisons), and a verdict needs p ≤ 0.02"
    assert (notes, set(marks.values())) == ([Line(text, mark="[1]")], {"[1]"})
    (basis,) = [each for each in sentences(shown(found)) if each.startswith("basis")]
    assert "; sessions differ by 10 % (assumed), and fewer than 6 processes by " in basis


def test_memory_is_shown_in_megabytes_and_less_is_better() -> None:
    """Of 10⁶ bytes; the direction of the ratio is explained."""
    text = printed(shown(compared(session(), session(day=2), Question(metric=Metric.MEMORY))))
    assert "1074 MB ±0.0 %" in text
    assert "ratio: memory of old divided by that of new (below 1: new takes more)" in text


def test_explanations_are_of_rows_that_differ() -> None:
    """Those of other rows are details."""
    explanation = Explanation("toy", "fp32", "audited", (Part("aten::add", 0.2, 0.1),), 2, 3, 0.1, 0.05)
    for level, count in ((0.05, 1), (0.1, 0)):
        found = replace(compared(session(0.1), session(level, 2)), explanations=(explanation,))
        assert headings(shown(found)).count("Where the difference of toy fp32 comes from") == count
        assert any("old: 2 audited passes of 200.0 ms" in each for each in sentences(shown(found, details=True)))


def test_one_machine_has_no_table_of_its_throughput() -> None:
    """The ratio says the same."""
    found = compared(session(0.1), session(0.05, 2))
    assert found.rates and "Throughput per machine, physical core and vCPU" not in headings(shown(found))


def test_what_was_not_measured_is_marked() -> None:
    """One thread says nothing certain of four cores; of a machine with one core it says all."""
    single = session(0.05, 2, machine=replace(MACHINE, cores=1, logical=1))
    found = compared(session(0.1), single, prices=(Price("old", 1.0), Price("new", 1.0)))
    names = ("old", "new")
    columns = [*compare_columns.rate_columns(found.rates, names), *compare_columns.cost_columns(found.costs, names)]
    marked = {column.title for column in columns if any(text.endswith(" *") for text in column.cells)}
    assert marked == {"old per machine", "old per core", "old per vCPU", "old", "times cheaper"}


def test_what_passed_without_a_verdict_is_counted() -> None:
    """AMBIGUOUS is not the same as passed."""
    found = compared(session_of([("a", FP32, 0.1), ("b", FP32, 0.1)]), session_of([("a", FP32, 0.1)], 2))
    assert gate_lines(found, gate(found, [FailOn("slower", 0.03)])) == [
        "passed: no row meets slower:3%",
        "1 of 2 rows passed AMBIGUOUS: a fp32",
        "1 of 2 rows passed NOT COMPARABLE: b fp32",
    ]


def test_rows_with_one_baseline_keep_their_own_differences() -> None:
    """Both ways to have bf16 are paired with the same fp32; only one of them is faster, and is explained."""
    ways = [BF16.replace(bf16_method=method) for method in ("autocast", "cast")]
    other = session_of([("toy", way, level) for way, level in zip(ways, (0.05, 0.1))], 2)
    found = compared(session_of([("toy", FP32, 0.1)]), other, PAIRED)
    differing = [(*each.other, *each.rows) for each in found.conditions.differing if each.name == "precision"]
    assert differing == [(f"bf16={way.bf16_method}", f"toy fp32 → {way.label}") for way in ways]
    explained = [title for title in headings(shown(found)) if "difference of" in title]
    assert explained == [f"Where the difference of toy fp32 → {ways[0].label} comes from"]
