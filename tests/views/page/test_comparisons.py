"""The section that compares two of the results; ``tests/test_snapshots.py`` approves one with a table."""

from __future__ import annotations

from printed import printed
from stored_sides import session

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import Side, StoredResult
from modelzoo.document import Details, Section, Tone, first_line
from modelzoo.records.run import Result
from modelzoo.views.page import build


def compared(other: Result) -> Section:
    """What is said of this result compared with a session of the toy."""
    base, new = (
        Side(name, (StoredResult("1.json", each),)) for name, each in (("old", session([1.0, 1.0])), ("new", other))
    )
    return build.compared(base, new, Question(), "c")


def test_a_refusal_is_said_in_place_of_the_table() -> None:
    """Of sessions that do not belong together, and of results in which nothing was measured."""
    found = compared(Result(("modelzoo",), "2026-01-01"))
    assert printed(found.blocks).startswith("Not compared: new: nothing was measured")


def test_if_no_row_is_comparable_there_is_no_plot() -> None:
    """The page says so, and why; what both have in common is folded away."""
    said, *why, shared = compared(session([1.0, 1.0], workload="b")).blocks
    assert said == first_line("new is not comparable with old: only old has it", Tone.BAD)
    assert "NOT COMPARABLE" in printed(why)
    assert isinstance(shared, Details)
