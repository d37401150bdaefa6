"""The sections of a page and their order, the history of sessions, the section of a workload, the circumstances."""

from __future__ import annotations

import pytest
from fake_runs import MACHINE, WEIGHTS, make, result_of, warning
from places import DATA
from printed import cells, given, headings, printed
from proven_results import plain_session
from shown_documents import generated, staged

from modelzoo.comparison.compare import Question
from modelzoo.comparison.estimate import Side, StoredResult
from modelzoo.document import Block, Command, Details, Figure, Lines, Page, Pictures, Section, Table, Tone, first_line
from modelzoo.frozen import replace
from modelzoo.records.run import EnvironmentChanges, Result, Thumbnail
from modelzoo.records.workload import WeightsKind
from modelzoo.results import store, summary
from modelzoo.setting import Setting
from modelzoo.views import circumstances
from modelzoo.views.page import (
    MOST_IN_FULL,
    PICTURE_BYTES,
    ResultSet,
    compared,
    history_section,
    pictures_each,
    predictions,
    workload_section,
)
from modelzoo.views.page import page as page_of


def page(*named: ResultSet) -> Page:
    """The page of these results."""
    return page_of(named, Question())


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
    first, second = given("a", plain_session([1.0, 1.01])), given("b", plain_session([1.0, 1.02], day=2))
    assert titles(first, second, second) == ["b compared with a", "b compared with a", "a", "b", "b"]


def test_a_directory_shows_its_latest_result_and_its_history() -> None:
    """The history comes after the answer, and the answer says which result it is of."""
    directory = given("d", plain_session([1.0, 1.01]), plain_session([1.0, 1.02], day=2), is_directory=True)
    first, history, *_ = page(directory).sections
    assert (first.title, history.title) == ("Results", "History of d")
    assert printed(first.blocks).startswith("The latest of 2 sessions: d/2.json, 2026-07-02T00:00:00+00:00.\n")


def test_many_files_are_shown_as_a_directory() -> None:
    """A section each would make the page too large."""
    many = [given(f"{day}.json", plain_session([1.0, 1.01], day=day)) for day in range(1, MOST_IN_FULL + 2)]
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
    figure, _ = history(plain_session([1.0, 1.01]), plain_session([2.0, 2.01], day=2, machine=other))
    assert {row[0] for row in figure.data.rows} == {"fp32, machine 1", "fp32, machine 2"}


def test_every_session_is_in_a_table_with_its_file_and_versions() -> None:
    """Failed sessions are not: they have no level."""
    _, table = history(
        Result(("modelzoo",), "2026-01-01"), plain_session([1.0, 1.01]), plain_session([1.1, 1.11], day=2)
    )
    assert (cells(table)["file"], "torch" in cells(table)) == (("2.json", "3.json"), True)


def compared_with_toy(other: Result) -> Section:
    """What is said of this result compared with a session of the toy."""
    base, new = (
        Side(name, (StoredResult("1.json", each),))
        for name, each in (("old", plain_session([1.0, 1.0])), ("new", other))
    )
    return compared(base, new, Question(), "c")


def test_a_refusal_is_said_in_place_of_the_table() -> None:
    """Of sessions that do not belong together, and of results in which nothing was measured."""
    found = compared_with_toy(Result(("modelzoo",), "2026-01-01"))
    assert printed(found.blocks).startswith("Not compared: new: nothing was measured")


def test_if_no_row_is_comparable_there_is_no_plot() -> None:
    """The page says so, and why; what both have in common is folded away."""
    said, *why, shared = compared_with_toy(plain_session([1.0, 1.0], workload="b")).blocks
    assert said == first_line("new is not comparable with old: only old has it", Tone.BAD)
    assert "NOT COMPARABLE" in printed(why)
    assert isinstance(shared, Details)


def section(result: Result) -> list[Block]:
    """The section of the only workload."""
    (name,) = {each.workload for each in result.requested}
    return list(workload_section(result, name, summary.rows(result), "m", 8).blocks)


def test_a_timed_workload_has_its_measurements_plots_and_details() -> None:
    """Without an audit and a profile there are no sections about them."""
    found = section(result_of(*(make([0.1] * 25, round=i, compile_seconds=2.0) for i in range(3))))
    assert headings(found) == ["Processes", "Distribution of the samples"]
    table = cells(found[0])
    assert (table["p90"], table["samples"], table["compiling"]) == (("100.0 ms",), ("75",), ("2.000 s",))
    assert "p99" not in table


def test_a_failed_workload_has_no_plots_and_a_judged_one_only_its_predictions() -> None:
    """The row of the former says how many processes failed."""
    found = section(result_of(make(None, error="died")))
    assert headings(found) == []
    assert cells(found[0])["processes"] == ("0 (1 failed)",)
    assert headings(section(store.read(DATA / "results" / "ssdlite.json"))) == ["Accuracy check"]


def test_a_pipeline_and_a_language_model_have_plots_of_their_own() -> None:
    """Below the tables that ``tests/snapshots`` has."""
    for result, title in ((staged(), "Stages"), (generated(), "Tokens")):
        (found,) = [each for each in section(result) if isinstance(each, Section) and each.title == title]
        assert isinstance(found.blocks[-1], Figure)


RESULT = store.read(DATA / "results" / "ssdlite.json")
(ENTRY,) = RESULT.validity
"""A judgement of a detector with three pictures."""


def test_verdict_checks_tables_pictures_and_files_are_shown() -> None:
    """In this order; pictures as they are stored, and files by their number."""
    *_, pictures, files = found = predictions(ENTRY, "bf16", 8)
    assert [type(each) for each in found[:3]] == [Lines, Table, Details]
    assert isinstance(pictures, Pictures)
    assert pictures.items == ENTRY.thumbnails
    assert files.summary == f"{len(ENTRY.files)} files were written"


def test_pictures_are_limited_for_the_whole_page() -> None:
    """The same number for each judgement, so that all together stay within the limit."""
    entry = replace(ENTRY, thumbnails=(Thumbnail("a.jpg", b"x" * 20_000),) * 8)
    most = pictures_each([replace(RESULT, validity=(entry,) * 8)])
    assert 8 * most * 20_000 <= PICTURE_BYTES < 8 * (most + 1) * 20_000
    [pictures] = [each for each in predictions(entry, "bf16", most) if isinstance(each, Pictures)]
    assert pictures.caption.startswith(f"{most} of 8 stored images")
    assert (pictures_each([RESULT]), pictures_each([])) == (3, 0)


def test_what_differs_between_processes_is_named() -> None:
    """The clock of the moment does not count."""
    other = replace(MACHINE, huge_pages="always", mhz=2000.0)
    text = printed(circumstances.machine(result_of(make([1.0]), make([1.0], round=1, machine=other))))
    assert text.startswith("CPU: Neoverse-N2\n")
    assert text.endswith("\nNot the same in all processes (shown: of the first one): huge pages.\n")
    assert circumstances.machine(result_of(make(None, error="died"))) == []


def test_settings_name_weights_inputs_variables_and_switches() -> None:
    """As they ran; a setting that never ran has only what was asked for."""
    changes = EnvironmentChanges({"A_B": "1"}, {"OMP_NUM_THREADS": "4"})
    trained = replace(WEIGHTS, kind=WeightsKind.PRETRAINED, name="toy", verification="partial")
    result = result_of(
        make([1.0], inputs_digest="0123456789abcdef", environment=changes, switches=("deterministic",)),
        make([1.0], weights=trained, setting=Setting(batch=2)),
        make(None, setting=Setting(batch=3), error="died"),
    )
    table, *_ = circumstances.settings(result, summary.rows(result))
    found = cells(table)
    assert (found["batch"], found["threads"]) == (("4", "2", "3"), ("1", "1", "–"))
    assert found["weights"] == ("random: seed 0, abc", "pretrained: toy, abc, partly verified", "–")
    assert found["variables"] == ("OMP_NUM_THREADS=4\nwithout A_B", "–", "–")
    assert (found["inputs"][0], found["switches"][0]) == ("0123456789ab", "deterministic")


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        (("/x/modelzoo/__main__.py", "run", "a b"), "modelzoo run 'a b'"),
        ((), "modelzoo"),
    ],
)
def test_the_command_can_be_typed(given: tuple[str, ...], typed: str) -> None:
    """Whatever started the program; with version and commit."""
    said, command = circumstances.command(Result(given, "2026-01-01", commit="abc"))
    assert command == Command(typed)
    assert "commit abc." in str(said)
