"""The section of a workload, its predictions, and under which circumstances it was measured."""

from __future__ import annotations

import base64

import pytest
from fake_runs import MACHINE, WEIGHTS, make, result_of
from places import DATA
from printed import cells, headings, printed
from shown_documents import generated, staged

from modelzoo.document import Block, Command, Details, Figure, Lines, Pictures, Section, Table
from modelzoo.frozen import replace
from modelzoo.records.run import EnvironmentChanges, Result, Thumbnail
from modelzoo.records.workload import WeightsKind
from modelzoo.results import store, summary
from modelzoo.setting import Setting
from modelzoo.views.page import circumstances, workloads


def section(result: Result) -> list[Block]:
    """The section of the only workload."""
    (name,) = {each.workload for each in result.requested}
    return list(workloads.section(result, name, summary.rows(result), "m", 8).blocks)


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
    *_, pictures, files = found = workloads.predictions(ENTRY, "bf16", 8)
    assert [type(each) for each in found[:3]] == [Lines, Table, Details]
    assert isinstance(pictures, Pictures)
    assert [base64.b64decode(each.jpeg) for each in pictures.items] == [each.jpeg for each in ENTRY.thumbnails]
    assert files.summary == f"{len(ENTRY.files)} files were written"


def test_pictures_are_limited_for_the_whole_page() -> None:
    """The same number for each judgement, so that all together stay within the limit."""
    entry = replace(ENTRY, thumbnails=(Thumbnail("a.jpg", b"x" * 20_000),) * 8)
    most = workloads.pictures_each([replace(RESULT, validity=(entry,) * 8)])
    assert 8 * most * 20_000 <= workloads.PICTURE_BYTES < 8 * (most + 1) * 20_000
    [pictures] = [each for each in workloads.predictions(entry, "bf16", most) if isinstance(each, Pictures)]
    assert pictures.caption.startswith(f"{most} of 8 stored images")
    assert (workloads.pictures_each([RESULT]), workloads.pictures_each([])) == (3, 0)


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
    [table] = circumstances.settings(summary.rows(result))
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
