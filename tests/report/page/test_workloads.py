"""The section of a workload."""

from __future__ import annotations

from fake_runs import make, result_of
from places import DATA

from modelzoo.records.run import Result
from modelzoo.report.differences import shown_rows
from modelzoo.report.page import figures, workloads
from modelzoo.report.page.content import Details, Section, Table
from modelzoo.results import store, summary


def section(result: Result, workload: str) -> Section:
    """The section of ``workload``."""
    rows = [each for each in shown_rows(result, summary.rows(result)) if each.row.workload == workload]
    return workloads.section(result, workload, rows, "m", 8, figures.ONE)


def titles(found: Section) -> list[str]:
    """The headings in it."""
    return [block.title for block in found.blocks if isinstance(block, Section)]


def test_a_timed_workload_has_its_measurements_plots_and_details() -> None:
    """What was not asked for is said."""
    found = section(result_of(*(make([0.1] * 25, round=i, compile_seconds=2.0) for i in range(3))), "toy")
    assert titles(found) == ["Processes", "Distribution of the samples", "Time by kernel and precision", "Operators"]
    table = found.blocks[0]
    assert isinstance(table, Table)
    assert table.caption == "a toy"
    cells = {column.title: column.cells for column in table.columns}
    assert cells["p90"] == ("100.0 ms",)
    assert "p99" not in cells
    assert cells["samples"] == ("75",)
    assert cells["compiling"] == ("2.000 s",)
    assert isinstance(found.blocks[1], Details)
    assert "--profiling" in str(found)
    assert "--no-audit" in str(found)


def test_a_failed_workload_has_no_plots() -> None:
    """Its row says how many processes failed."""
    found = section(result_of(make(None, error="died")), "toy")
    assert titles(found) == ["Time by kernel and precision", "Operators"]
    table = found.blocks[0]
    assert isinstance(table, Table)
    assert "0 (1 failed)" in table.rows[0]


def test_a_judged_workload_has_its_predictions_only() -> None:
    """Nothing was timed."""
    found = section(store.read(DATA / "results" / "format2" / "ssdlite.json"), "ssdlite")
    assert titles(found) == ["Predictions"]
