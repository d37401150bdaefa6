"""Which sections a page has, and in which order; the history of a directory of sessions."""

from __future__ import annotations

from fake_runs import MACHINE, make, result_of, warning
from paged import given
from printed import cells, printed
from stored_sides import session

from modelzoo.comparison.compare import Question
from modelzoo.comparison.estimate import Side, StoredResult
from modelzoo.document import Block, Details, Figure, Page, Section, Tone, first_line
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.setting import Setting
from modelzoo.views.page import build
from modelzoo.views.page.build import ResultSet, history_section


def page(*named: ResultSet) -> Page:
    """The page of these results."""
    return build.page(named, Question())


def titles(*named: ResultSet) -> list[str]:
    """The sections of the page."""
    return [section.title for section in page(*named).sections]


def test_the_answer_comes_first_and_the_command_last() -> None:
    """The answer is the headline, the latencies, then the verdicts, and what distorts them; empty sections vanish."""
    runs = [
        make([1.0 + g + i / 100] * 3, setting=setting, group=g, round=i, warnings=(warning("OTHER_LOAD", "busy"),))
        for g, setting in enumerate((Setting(), Setting("bf16")))
        for i in range(3)
    ]
    found = page(given("a.json", result_of(*runs)))
    expected = ["Results", "Speedups", "toy", "Conditions", "Machine", "Settings", "Command"]
    assert [each.title for each in found.sections] == expected
    headline, drawn, table, index, *_ = found.sections[0].blocks
    assert printed([headline]).startswith("bf16 is slower than fp32: 0.502×")
    assert isinstance(drawn, Figure)
    assert cells(table)["verdict"] == ("baseline", "SLOWER (unproven)")
    (conditions,) = found.sections[3].blocks
    assert (index.is_index, index.mark, index.items) == (True, conditions.mark, conditions.items)
    assert (found.title, found.subtitle) == ("Inference benchmark: toy", "Neoverse-N2, 4 cores; 2026-01-01")


def test_the_first_of_several_results_is_the_baseline_of_the_others() -> None:
    """A comparison each, then a section each."""
    first, second = given("a", session([1.0, 1.01])), given("b", session([1.0, 1.02], day=2))
    assert titles(first, second, second) == ["b compared with a", "b compared with a", "a", "b", "b"]


def test_a_directory_shows_its_latest_result_and_its_history() -> None:
    """The history comes after the answer, and the answer says which result it is of."""
    directory = given("d", session([1.0, 1.01]), session([1.0, 1.02], day=2), is_directory=True)
    first, history, *_ = page(directory).sections
    assert (first.title, history.title) == ("Results", "History of d")
    assert printed(first.blocks).startswith("The latest of 2 sessions: d/2.json, 2026-07-02T00:00:00+00:00.\n")


def test_many_files_are_shown_as_a_directory() -> None:
    """A section each would make the page too large."""
    many = [given(f"{day}.json", session([1.0, 1.01], day=day)) for day in range(1, build.MOST_IN_FULL + 2)]
    assert titles(*many)[:2] == ["Results", "History of 7 results"]
    assert titles(*many[1:])[0] == "3.json compared with 2.json"


def test_nothing_measured_is_said() -> None:
    """``tests/snapshots`` has a result in which everything failed."""
    found = page(given("a", Result(("modelzoo",), "2026-01-01")))
    assert printed(found.sections[0].blocks).startswith("This result is empty")


def history(*results: Result) -> list[Block]:
    """The history of the only workload."""
    section = history_section("d", given("/r", *results).sessions, "h")
    (found,) = [block for block in section.blocks if isinstance(block, Section)]
    return list(found.blocks)


def test_machines_are_separate_series() -> None:
    """Their levels are not to be compared in time."""
    other = replace(MACHINE, cpu="Neoverse-V1")
    figure, _ = history(session([1.0, 1.01]), session([2.0, 2.01], day=2, machine=other))
    assert {row[0] for row in figure.data.rows} == {"fp32, machine 1", "fp32, machine 2"}


def test_every_session_is_in_a_table_with_its_file_and_versions() -> None:
    """Failed sessions are not: they have no level."""
    _, table = history(Result(("modelzoo",), "2026-01-01"), session([1.0, 1.01]), session([1.1, 1.11], day=2))
    assert (cells(table)["file"], "torch" in cells(table)) == (("2.json", "3.json"), True)


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
