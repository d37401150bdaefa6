"""Stored results for programs."""

from __future__ import annotations

import csv
import json

import pytest
from fake_runs import make, result_of
from generated_results import generation_run

from modelzoo.results import summary
from modelzoo.views.report_export import csv_export, json_text, report_row


def test_tokens_of_a_language_model_have_fields_of_their_own() -> None:
    """They are empty for other models."""
    result = result_of(make([0.1, 0.1]), *(generation_run(0.4, [0.04, 0.06], round=number) for number in (0, 1)))
    rows = [report_row("r", row) for row in summary.rows(result)]
    other, llm = csv.DictReader(csv_export(rows).splitlines())
    assert other["first_token_value"] == other["per_token_value"] == other["output_rate_value"] == ""
    assert float(llm["first_token_value"]) == pytest.approx(0.4)
    assert float(llm["per_token_low"]) <= 0.05 <= float(llm["per_token_high"])
    stored = json.loads(json_text(rows))["rows"]
    assert stored[0]["first_token"] is None
    assert stored[1]["output_rate"]["value"] == pytest.approx(4 * 3 / 0.5)


def test_memory_that_is_not_known_is_not_zero() -> None:
    """As of a process that failed."""
    rows = [report_row("r", row) for row in summary.rows(result_of(make(None, error="died")))]
    assert json.loads(json_text(rows))["rows"][0]["peak_memory"] is None
    (row,) = csv.DictReader(csv_export(rows).splitlines())
    assert row["peak_memory"] == ""
