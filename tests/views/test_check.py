"""The page of ``modelzoo check``: what is listed, and what is said where there is nothing to list."""

from __future__ import annotations

import re

from interleaved_sides import audited, checked, use
from printed import headings, sentences

from modelzoo.comparison.compare import FailOn, compare_interleaved, gate
from modelzoo.comparison.estimate import StoredResult
from modelzoo.document import Block, Section
from modelzoo.frozen import replace
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.setting import Setting
from modelzoo.views.check import MOST_CHANGES, document

ROUNDS = [1.0, 1.001, 0.999, 1.0]


def page(result: Result, *, details: bool = False) -> list[Block]:
    """The page of a result."""
    found = compare_interleaved(StoredResult("check.json", result), ("base", "head"))
    return document(result, found, gate(found, (FailOn("slower", 0.0),)), ("a", "b"), details=details)


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
