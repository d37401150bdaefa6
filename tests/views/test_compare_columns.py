"""The tables of a comparison."""

from __future__ import annotations

import pytest
from fake_runs import MACHINE
from printed import headings
from proven_results import BF16, FP32, session, session_of, side

from modelzoo import stats
from modelzoo.comparison.compare import Comparison, Question, compare, gate
from modelzoo.comparison.conditions import Difference
from modelzoo.comparison.machines import Price
from modelzoo.comparison.pairing import parse_pairing
from modelzoo.document import Column
from modelzoo.frozen import replace
from modelzoo.results.refusals import Metric
from modelzoo.views import compare_columns
from modelzoo.views.compare import document

TWO = [("toy", FP32, 0.1), ("toy", BF16, 0.2)]


def two_rows() -> Comparison:
    """One row that is twice as fast, and one that only the baseline has."""
    return compare(side("old", session_of(TWO)), side("new", session(0.05, 2)), Question())


def cells(columns: list[Column]) -> dict[str, tuple[str, ...]]:
    """The cells by title."""
    return {column.title: column.cells for column in columns}


def test_rows_show_both_sides_the_ratio_and_the_verdict() -> None:
    """What cannot be compared has a tilde; a workload is named once; marks follow the verdict."""
    found = cells(compare_columns.row_columns(two_rows(), {0: "", 1: "[1]"}))
    assert found["workload"] == ("toy", "")
    assert found["setting"] == ("fp32", "bf16")
    assert found["old"] == ("100.0 ms ±0.6 %", "200.0 ms ±0.6 %")
    assert found["new"] == ("50.00 ms ±0.6 %", "–")
    assert found["ratio"][0].startswith("2.00× [")
    assert found["ratio"][1] == "~"
    assert found["verdict"] == ("FASTER (assumed)", "NOT COMPARABLE [1]")


def test_several_comparable_rows_have_a_geometric_mean() -> None:
    """It is the last row and has no verdict."""
    comparison = compare(
        side("old", session_of(TWO)), side("new", session_of([("toy", FP32, 0.05), ("toy", BF16, 0.1)], 2)), Question()
    )
    found = cells(compare_columns.row_columns(comparison, {}))
    assert found["workload"][-1] == "geometric mean"
    assert found["ratio"][-1].startswith("2.00× [")
    assert found["verdict"][-1] == ""
    assert len({len(each) for each in found.values()}) == 1


def test_both_settings_are_shown_if_they_were_paired_on_purpose() -> None:
    """The baseline's first."""
    result = session_of(TWO)
    question = Question(pairings=(parse_pairing("precision=fp32:precision=bf16"),))
    (row,) = compare(side("old", result), side("new", result), question).rows
    assert row.setting == "fp32 → bf16"


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (Metric.LATENCY, "2.0 s ±50.0 %"),
        (Metric.COLD_START, "2.0 s ±50.0 %"),
        (Metric.THROUGHPUT, "2.000/s ±50.0 %"),
    ],
)
def test_values_have_the_unit_of_their_metric(metric: Metric, text: str) -> None:
    """With the relative half width of their interval."""
    assert compare_columns.value_text(stats.Interval(2.0, 1.0, 3.0), metric) == text
    assert compare_columns.value_text(None, metric) == "–"


def test_memory_is_shown_in_megabytes() -> None:
    """Of 10⁶ bytes."""
    assert compare_columns.value_text(stats.Interval(5e8, 4e8, 6e8), Metric.MEMORY) == "500.0 MB ±20.0 %"


def test_differences_name_the_rows_that_they_concern() -> None:
    """If they do not concern all."""
    comparison = two_rows()
    differing = (
        Difference("torch", ("2.9.1",), ("2.10.0",)),
        Difference("kernels", ("a",), ("b",), ("toy fp32",)),
    )
    comparison = replace(comparison, conditions=replace(comparison.conditions, differing=differing))
    found = cells(compare_columns.difference_columns(comparison))
    assert found[""] == ("torch", "kernels")
    assert found["old"] == ("2.9.1", "a")
    assert found["concerns"] == ("all rows", "toy fp32")
    plain = replace(comparison, conditions=replace(comparison.conditions, differing=differing[:1]))
    assert "concerns" not in cells(compare_columns.difference_columns(plain))


def test_rates_and_costs_have_intervals() -> None:
    """Per machine, core and vCPU; and per million inferences in the currency of the prices."""
    other = session(0.05, 2, machine=replace(MACHINE, cpu="Neoverse-V1"))
    prices = (Price("old", 3.6, "EUR", "2026-01-01"), Price("new", 3.6, "EUR", "2026-01-01"))
    comparison = compare(side("old", session(0.1)), side("new", other), Question(), prices)
    rates = cells(compare_columns.rate_columns(comparison.rates, ("old", "new")))
    assert rates["unit"] == ("rows/s",)
    assert rates["old per core"][0].startswith("40.0 ±")
    assert rates["new per vCPU"][0].startswith("80.0 ±")
    costs = cells(compare_columns.cost_columns(comparison.costs, ("old", "new")))
    assert costs["old"][0].startswith("6.25 EUR ±")
    assert costs["times cheaper"][0].startswith("2.00× [")


def test_what_was_not_measured_is_marked() -> None:
    """One thread says nothing certain of four cores; of a machine with one core it says all."""
    single = replace(MACHINE, cores=1, logical=1)
    base, other = side("old", session(0.1)), side("new", session(0.05, 2, machine=single))
    comparison = compare(base, other, Question(), (Price("old", 1.0), Price("new", 1.0)))
    tables = [
        cells(compare_columns.rate_columns(comparison.rates, ("old", "new"))),
        cells(compare_columns.cost_columns(comparison.costs, ("old", "new"))),
    ]
    marked = {name for table in tables for name, texts in table.items() if any(text.endswith(" *") for text in texts)}
    assert marked == {"old per machine", "old per core", "old per vCPU", "old", "times cheaper"}


def test_rows_with_one_baseline_keep_their_own_differences() -> None:
    """Both ways to have bf16 are paired with the same fp32; only one of them is faster, and is explained."""
    ways = [BF16.replace(bf16_method=method) for method in ("autocast", "cast")]
    other = session_of([("toy", way, level) for way, level in zip(ways, (0.05, 0.1))], 2)
    question = Question(pairings=(parse_pairing("precision=fp32:precision=bf16"),))
    found = compare(side("old", session_of([("toy", FP32, 0.1)])), side("new", other), question)
    differing = [
        (each.name, *each.other, *each.rows) for each in found.conditions.differing if each.name == "precision"
    ]
    assert differing == [("precision", f"bf16={way.bf16_method}", f"toy fp32 → {way.label}") for way in ways]
    explained = [title for title in headings(document(found, gate(found, ()))) if "difference of" in title]
    assert explained == [f"Where the difference of toy fp32 → {ways[0].label} comes from"]
