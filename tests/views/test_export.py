"""Results and comparisons for programs."""

from __future__ import annotations

import csv
import io
import json
from typing import Any
from xml.etree import ElementTree

import pytest
from fake_runs import make, result_of, shown
from generated_results import generation_run
from proven_results import BF16, FP32, session_of, side

from modelzoo.comparison.compare import FailOn, Question, compare, gate
from modelzoo.results import summary
from modelzoo.views.export import FORMAT, Judged, comparisons_csv, comparisons_json, junit, report


def judged(*conditions: FailOn, processes: int = 8) -> Judged:
    """One row that is 5 times slower, and one that only the baseline has."""
    base = session_of([("toy", FP32, 0.1), ("toy", BF16, 0.1)], processes=processes)
    found = compare(side("old", base), side("new", session_of([("toy", FP32, 0.5)], 2)), Question())
    return [(found, gate(found, conditions))]


def as_json(found: Judged) -> dict[str, Any]:
    """The only comparison as parsed JSON."""
    data = json.loads(comparisons_json(found))
    assert data["format"] == FORMAT
    (comparison,) = data["comparisons"]
    return comparison


def test_json_holds_the_rows_without_the_samples() -> None:
    """Values in the unit of the metric, with what they rest on; an interval without a bound is null."""
    found = as_json(judged(FailOn("slower", 0.03)))
    assert (found["metric"], found["unit"], found["base"]["name"]) == ("latency", "s", "old")
    assert (found["other"]["paths"], found["exit_code"]) == (["new/1.json"], 1)
    slower, missing = found["rows"]
    assert slower["ratio"]["value"] < 0.21
    assert (slower["outcome"], slower["basis"], slower["failures"]) == ("SLOWER", "assumed", ["slower:3%"])
    assert (slower["base_sessions"], slower["base_processes"]) == (1, 8)
    assert missing["ratio"] is None
    assert missing["refused"] == [{"obstacle": "missing", "text": "only old has it"}]
    assert "steady" not in comparisons_json(judged())
    assert as_json(judged(processes=1))["rows"][0]["base"]["high"] is None, "JSON has no infinity"


def test_csv_has_a_line_per_row_in_full_precision() -> None:
    """Numbers stay numbers, and what is missing is empty."""
    first, second = csv.DictReader(io.StringIO(comparisons_csv(judged(FailOn("slower", 0.03)))))
    assert float(first["other_value"]) / float(first["base_value"]) > 4.9
    assert (first["unit"], first["outcome"], first["failures"]) == ("s", "SLOWER", "slower:3%")
    assert (second["ratio_value"], second["outcome"], second["reason"]) == ("", "NOT COMPARABLE", "only old has it")


def test_junit_has_a_case_per_row() -> None:
    """A row that fails is a failure; one that cannot be compared is skipped unless it is to fail."""
    suite = ElementTree.fromstring(junit(judged(FailOn("slower", 0.03))))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    failed, skipped = suite
    failure, reason = failed.find("failure"), skipped.find("skipped")
    assert failure.get("type") == "slower"
    assert "slower:3%: SLOWER 0.20×" in str(failure.get("message"))
    assert "only old has it" in str(reason.get("message"))
    strict = ElementTree.fromstring(junit(judged(FailOn("not-comparable"))))[0]
    assert (strict.get("failures"), strict.get("skipped")) == ("1", "0")


def test_tokens_of_a_language_model_have_fields_of_their_own() -> None:
    """They are empty for other models."""
    result = result_of(make([0.1, 0.1]), *(generation_run(0.4, [0.04, 0.06], round=number) for number in (0, 1)))
    rows = [("r", row) for row in summary.rows(result)]
    other, llm = csv.DictReader(report(rows, "csv").splitlines())
    assert other["first_token_value"] == other["per_token_value"] == other["output_rate_value"] == ""
    assert float(llm["first_token_value"]) == pytest.approx(0.4)
    assert float(llm["per_token_low"]) <= 0.05 <= float(llm["per_token_high"])
    other, llm = json.loads(report(rows, "json"))["rows"]
    assert (other["first_token"], llm["output_rate"]["value"]) == (None, pytest.approx(4 * 3 / 0.5))


def test_memory_that_is_not_known_is_not_zero() -> None:
    """As of a process that failed."""
    rows = [("r", row) for row in shown(make(None, error="died"))]
    assert json.loads(report(rows, "json"))["rows"][0]["peak_memory"] is None
    assert next(csv.DictReader(report(rows, "csv").splitlines()))["peak_memory"] == ""
