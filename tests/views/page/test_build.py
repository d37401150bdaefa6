"""Which sections a page has, and in which order; the history of a directory of sessions."""

from __future__ import annotations

from collections.abc import Sequence

from fake_runs import MACHINE, make, result_of
from stored_sides import session

from modelzoo.comparison.compare import Question
from modelzoo.comparison.model import StoredResult
from modelzoo.document import Figure, Lines, Section, Table, lines
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.setting import Setting
from modelzoo.views.page import build
from modelzoo.views.page.build import ResultSet, history_section


def given(name: str, *results: Result, is_directory: bool = False) -> ResultSet:
    """Results as the user named them."""
    sessions = tuple(StoredResult(f"{name}/{number}.json", each) for number, each in enumerate(results, 1))
    return ResultSet(name, sessions, is_directory)


def titles(*named: ResultSet) -> list[str]:
    """The sections of the page."""
    return [section.title for section in build.page(named, Question()).sections]


def pair() -> Result:
    """fp32 and bf16 in three rounds."""
    settings = (Setting(), Setting("bf16"))
    return result_of(
        *(make([1.0 + g + i / 100] * 3, setting=s, group=g, round=i) for g, s in enumerate(settings) for i in range(3))
    )


def test_the_answer_comes_first_and_the_command_last() -> None:
    """Of one result, the first section has the headline, the latencies, then the verdicts; empty sections vanish."""
    page = build.page([given("a.json", pair())], Question())
    assert [each.title for each in page.sections] == [*("Results", "Speedups", "toy", "Machine", "Settings", "Command")]
    headline, drawn, table, *_ = page.sections[0].blocks
    assert isinstance(headline, Lines)
    assert headline.stands_out
    assert str(headline.items[0].text).startswith("bf16 is slower than fp32: 0.502×")
    assert isinstance(drawn, Figure)
    assert [row[1] for row in drawn.data.rows] == ["fp32", "bf16"]
    assert isinstance(table, Table)
    assert [column.title for column in table.columns[:3]] == ["precision", "verdict", "speedup"]
    assert table.columns[1].cells == ("baseline", "SLOWER (unproven)")
    assert page.title == "Inference benchmark: toy"
    assert page.subtitle == "Neoverse-N2, 4 cores; 2026-01-01"


def test_the_first_of_several_results_is_the_baseline_of_the_others() -> None:
    """A comparison each, then a section each."""
    first, second = given("a", session([1.0, 1.01])), given("b", session([1.0, 1.02], day=2))
    assert titles(first, second, second) == ["b compared with a", "b compared with a", "a", "b", "b"]


def test_a_directory_shows_its_latest_result_and_its_history() -> None:
    """The history comes after the answer, and the answer says which result it is of."""
    directory = given("d", session([1.0, 1.01]), session([1.0, 1.02], day=2), is_directory=True)
    page = build.page([directory], Question())
    assert [each.title for each in page.sections][:2] == ["Results", "History of d"]
    said = page.sections[0].blocks[0]
    assert said == lines("The latest of 2 sessions: d/2.json, 2026-07-02T00:00:00+00:00.")


def test_many_files_are_shown_as_a_directory() -> None:
    """A section each would make the page too large."""
    many = [given(f"{day}.json", session([1.0, 1.01], day=day)) for day in range(1, build.MOST_IN_FULL + 2)]
    assert titles(*many)[:2] == ["Results", "History of 7 results"]
    assert titles(*many[1:])[0] == "3.json compared with 2.json"


def test_nothing_measured_is_said() -> None:
    """An empty result, and one in which everything failed."""
    empty = build.page([given("a", Result(("modelzoo",), "2026-01-01"))], Question())
    assert isinstance(empty.sections[0].blocks[0], Lines)
    assert "empty" in str(empty.sections[0].blocks[0])
    failed = build.page([given("a", result_of(make(None, error="no device")))], Question())
    assert "no device" in str(failed.sections[0])


def sessions(levels: Sequence[float], **changes: object) -> list[StoredResult]:
    """One session a day, with two processes each."""
    return [
        StoredResult(f"/r/{day}.json", session([level * 0.999, level * 1.001], day=day, **changes))
        for day, level in enumerate(levels, 1)
    ]


def workload(found: Section) -> Section:
    """The history of the only workload."""
    [section] = [block for block in found.blocks if isinstance(block, Section)]
    return section


def test_machines_are_separate_series() -> None:
    """Their levels are not to be compared in time."""
    other = replace(MACHINE, cpu="Neoverse-V1")
    mixed = [*sessions((1.0, 1.0)), *sessions((2.0, 2.0), machine=other)]
    found = workload(history_section("d", mixed, "h"))
    figure = next(block for block in found.blocks if isinstance(block, Figure))
    assert {row[0] for row in figure.data.rows} == {"fp32, machine 1", "fp32, machine 2"}


def test_every_session_is_in_a_table_with_its_file_and_versions() -> None:
    """Failed sessions are not: they have no level."""
    failed = StoredResult("x.json", Result(("modelzoo",), "2026-01-01"))
    found = workload(history_section("d", [failed, *sessions((1.0, 1.1))], "h"))
    table = next(block for block in found.blocks if isinstance(block, Table))
    cells = {column.title: column.cells for column in table.columns}
    assert cells["file"] == ("1.json", "2.json")
    assert {"torch", "modelzoo", "kernel", "weights"} <= set(cells)
