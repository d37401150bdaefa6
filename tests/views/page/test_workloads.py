"""The section of a workload."""

from __future__ import annotations

from fake_runs import make, result_of
from generated_results import generation_run
from pipelines import pipeline_run
from places import DATA

from modelzoo.document import Details, Figure, Lines, Section, Table
from modelzoo.records.run import Result
from modelzoo.records.timing import LATENCY, MODEL
from modelzoo.results import store, summary
from modelzoo.views.page import workloads


def section(result: Result, workload: str) -> Section:
    """The section of ``workload``."""
    rows = [each for each in summary.rows(result) if each.workload == workload]
    return workloads.section(result, workload, rows, "m", 8)


def titles(found: Section) -> list[str]:
    """The headings in it."""
    return [block.title for block in found.blocks if isinstance(block, Section)]


def test_a_timed_workload_has_its_measurements_plots_and_details() -> None:
    """Without an audit and a profile there are no sections about them."""
    found = section(result_of(*(make([0.1] * 25, round=i, compile_seconds=2.0) for i in range(3))), "toy")
    assert titles(found) == ["Processes", "Distribution of the samples"]
    table = found.blocks[0]
    assert isinstance(table, Table)
    assert table.caption == "a toy"
    cells = {column.title: column.cells for column in table.columns}
    assert cells["p90"] == ("100.0 ms",)
    assert "p99" not in cells
    assert cells["samples"] == ("75",)
    assert cells["compiling"] == ("2.000 s",)
    assert isinstance(found.blocks[1], Details)


def test_a_failed_workload_has_no_plots() -> None:
    """Its row says how many processes failed."""
    found = section(result_of(make(None, error="died")), "toy")
    assert titles(found) == []
    table = found.blocks[0]
    assert isinstance(table, Table)
    assert "0 (1 failed)" in table.rows[0]


def test_a_judged_workload_has_its_predictions_only() -> None:
    """Nothing was timed."""
    found = section(store.read(DATA / "results" / "ssdlite.json"), "ssdlite")
    assert titles(found) == ["Accuracy check"]


def test_a_pipeline_has_its_table_what_it_shows_and_a_plot() -> None:
    """Each sentence stands beside the name of its setting."""
    columns = {LATENCY: [0.1] * 4, "decode": [0.02] * 4, MODEL: [0.07] * 4, "answer": [0.01] * 4}
    found = section(result_of(*(pipeline_run(columns, round=number) for number in (0, 1))), "toy")
    table, said, figure = next(e for e in found.blocks if isinstance(e, Section) and e.title == "Stages").blocks
    assert isinstance(said, Lines) and isinstance(table, Table) and isinstance(figure, Figure)
    assert [line.name for line in said.items] == ["fp32 stages"] * 2


def test_a_language_model_has_a_table_and_a_plot_of_its_tokens() -> None:
    """Beside the plots of whole generations."""
    result = result_of(generation_run(0.4, [0.04, 0.05]), generation_run(0.41, [0.04, 0.05], round=1))
    made = section(result, "llm")
    (found,) = [block for block in made.blocks if isinstance(block, Section) and block.title == "Tokens"]
    table, figure = found.blocks
    assert isinstance(table, Table) and isinstance(figure, Figure)
    assert [column.title for column in table.columns][:3] == ["setting", "TTFT", "TPOT"]
