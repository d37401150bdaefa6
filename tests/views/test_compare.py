"""What is said of a comparison, and on the page of ``modelzoo check``, beyond what ``tests/snapshots`` shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from printed import headings, printed, sentences
from proven_results import BF16, FP32, audited, checked, session, session_of, side, use

from modelzoo.comparison.compare import Comparison, FailOn, Question, compare, compare_interleaved, gate
from modelzoo.comparison.estimate import StoredResult
from modelzoo.comparison.machines import Price
from modelzoo.comparison.pairing import parse_pairing
from modelzoo.document import Block, Line, Section
from modelzoo.frozen import replace
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.results.refusals import Metric
from modelzoo.setting import Setting
from modelzoo.views.compare import MOST_CHANGES, check_document, document
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


ROUNDS = [1.0, 1.001, 0.999, 1.0]


def page(result: Result, *, details: bool = False) -> list[Block]:
    """The page of a result."""
    found = compare_interleaved(StoredResult("check.json", result), ("base", "head"))
    return check_document(result, found, gate(found, (FailOn("slower", 0.0),)), ("a", "b"), details=details)


def section(blocks: list[Block], title: str) -> Section:
    """The section with this title."""
    (found,) = [block for block in blocks if isinstance(block, Section) and block.title == title]
    return found


def test_the_shapes_whose_time_changed_most_are_listed_unless_all_are_wanted() -> None:
    """The number of the others is said."""
    shapes = [((1, number), (number, 8)) for number in range(2, MOST_CHANGES + 5)]
    audits = [audited(*(use(kernel, each) for each in shapes)) for kernel in ("a", "b")]
    result = checked({"toy": ROUNDS}, **{name: {"evidence": each} for name, each in zip(("base", "head"), audits)})
    for details, listed in ((False, MOST_CHANGES), (True, len(shapes))):
        said, table = section(page(result, details=details), "Kernels of toy fp32").blocks
        assert len(table.rows) == listed
        ending = "" if details else "; the 10 whose time changed most (--details lists all)"
        assert sentences([said]) == [f"Other kernels computed 13 of 13 shapes of products{ending}."]


def test_the_power_of_a_check_is_said() -> None:
    """Without a bound, of slowdowns from 2 % on; one round has none. ``tests/snapshots`` has one with a bound."""
    ratios = [0.98, 1.02] * 8
    (said,) = [each for each in sentences(page(checked({"toy": ratios}))) if each.startswith("toy fp32: 16 rounds")]
    power = r"a slowdown of 2 %, 5 % and 10 % is found with a probability of at least (\d+) %, 98 % and 98 %"
    found = re.search(power, said)
    assert found and 60 < int(found[1]) < 95
    assert "a slowdown" not in "".join(sentences(page(checked({"toy": [1.0]}))))


def test_what_was_not_looked_at_is_not_claimed() -> None:
    """No audit is not the same kernels, and no judgement is not valid."""
    result = checked({"toy": ROUNDS})
    blocks = page(result)
    assert "Kernels of toy fp32" not in headings(blocks)
    (said,) = sentences([section(blocks, "Accuracy")])
    assert said.startswith("Not checked: fp32 in eager mode is what other settings are judged against.")
    assert sentences([section(blocks, "What differs")]) == ["Nothing that is recorded."]
    failed = tuple(replace(run, report=None, error="it crashed") if run.group else run for run in result.runs)
    (said,) = sentences([section(page(replace(result, runs=failed)), "What differs")])
    assert said == "Not known: no workload ran on both sides."
    requested = tuple(replace(each, setting=each.setting.replace(mode="compile")) for each in result.requested)
    (said,) = sentences([section(page(replace(result, requested=requested)), "Accuracy")])
    assert said == "Not checked: --validate judges the predictions of each side against its own fp32."
    failed = (ValidityEntry("toy", 1, Setting(), exit_code=2, error="no memory"),)
    said = sentences([section(page(replace(result, validity=failed)), "Accuracy")])
    assert said == ["toy fp32, head: could not be judged: no memory"]
