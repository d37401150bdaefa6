"""The section of a workload."""

from __future__ import annotations

from fake_runs import make, result_of
from places import DATA
from printed import cells, headings
from shown_documents import generated, staged

from modelzoo.document import Block, Figure, Section
from modelzoo.records.run import Result
from modelzoo.results import store, summary
from modelzoo.views.page import workloads


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
