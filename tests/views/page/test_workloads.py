"""The section of a workload."""

from __future__ import annotations

from fake_runs import make, result_of
from generated_results import generation_run
from places import DATA
from printed import cells, headings
from shown_documents import staged

from modelzoo.document import Block, Figure, Section
from modelzoo.records.run import Result
from modelzoo.results import store, summary
from modelzoo.views.page import workloads


def section(result: Result) -> list[Block]:
    """The section of the only workload."""
    (name,) = {each.workload for each in result.requested}
    return list(workloads.section(result, name, summary.rows(result), "m", 8).blocks)


def part(result: Result, title: str) -> list[Block]:
    """The section in it with this title."""
    (found,) = [each for each in section(result) if isinstance(each, Section) and each.title == title]
    return list(found.blocks)


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


def test_a_pipeline_has_its_table_what_it_shows_and_a_plot() -> None:
    """Each sentence stands beside the name of its setting."""
    _, said, figure = part(staged(), "Stages")
    assert isinstance(figure, Figure)
    assert {line.name for line in said.items} == {"fp32 stages"}


def test_a_language_model_has_a_table_and_a_plot_of_its_tokens() -> None:
    """Beside the plots of whole generations."""
    result = result_of(*(generation_run(0.4, [0.04, 0.05], round=number) for number in (0, 1)))
    table, figure = part(result, "Tokens")
    assert isinstance(figure, Figure)
    assert list(cells(table))[:3] == ["setting", "TTFT", "TPOT"]
