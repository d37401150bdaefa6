"""What is said of a comparison beyond what ``tests/snapshots`` shows: its footnotes, its marks, what a row rests on."""

from __future__ import annotations

from collections.abc import Sequence

from printed import headings, printed, sentences
from proven_results import BF16, FP32, session, session_of, side

from modelzoo.comparison.compare import Comparison, Question, compare, gate
from modelzoo.comparison.machines import Price
from modelzoo.comparison.pairing import parse_pairing
from modelzoo.document import Block, Line
from modelzoo.records.run import Result
from modelzoo.results.refusals import Metric
from modelzoo.views.compare import document
from modelzoo.views.comparison import footnotes

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


def test_less_memory_is_better() -> None:
    """In megabytes of 10⁶ bytes; the direction of the ratio is explained."""
    text = printed(shown(compared(session(), session(day=2), Question(metric=Metric.MEMORY))))
    assert "1074 MB ±0.0 %" in text
    assert "ratio: memory of old divided by that of new (below 1: new takes more)" in text


def test_one_machine_has_no_table_of_its_throughput() -> None:
    """The ratio says the same."""
    found = compared(session(0.1), session(0.05, 2))
    assert found.rates and "Throughput per machine, physical core and vCPU" not in headings(shown(found))


def test_rows_with_one_baseline_keep_their_own_differences() -> None:
    """Both ways to have bf16 are paired with the same fp32; only one of them is faster, and is explained."""
    ways = [BF16.replace(bf16_method=method) for method in ("autocast", "cast")]
    other = session_of([("toy", way, level) for way, level in zip(ways, (0.05, 0.1))], 2)
    found = compared(session_of([("toy", FP32, 0.1)]), other, PAIRED)
    differing = [(*each.other, *each.rows) for each in found.conditions.differing if each.name == "precision"]
    assert differing == [(f"bf16={way.bf16_method}", f"toy fp32 → {way.label}") for way in ways]
    explained = [title for title in headings(shown(found)) if "difference of" in title]
    assert explained == [f"Where the difference of toy fp32 → {ways[0].label} comes from"]
