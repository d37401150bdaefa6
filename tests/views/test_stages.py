"""The stages of pipelines in sentences; ``tests/snapshots`` has their table."""

from __future__ import annotations

from typing import Any

import pytest
from fake_runs import result_of
from pipelines import pipeline_run

from modelzoo.frozen import replace
from modelzoo.records.timing import LATENCY, MODEL, SYNCHRONIZED
from modelzoo.results.pipeline import PipelineLevels, pipelines
from modelzoo.views import stages

COLUMNS = {LATENCY: [0.1] * 4, "decode": [0.02] * 4, MODEL: [0.07] * 4, "answer": [0.01] * 4}


def levels(columns: dict[str, Any]) -> PipelineLevels:
    """The pipeline of two equal processes."""
    (found,) = pipelines(result_of(*(pipeline_run({**COLUMNS, **columns}, round=number) for number in (0, 1))))
    return found


def test_workload_and_setting_are_named_once() -> None:
    """With two pipelines, in the first row of each."""
    found = [levels({}), replace(levels({}), label="bf16 stages")]
    cells = {column.title: column.cells for column in stages.columns(found)}
    assert [cell for cell in cells["setting"] if cell] == ["fp32 stages", "bf16 stages"]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (
            {LATENCY: [0.28] * 4, "decode": [0.2] * 4},
            "bottleneck: decode, 71.4 % of the stages' time; the stages on the device (here the CPU) take 25.0 % of",
        ),
        ({LATENCY: [0.11] * 4}, "add up to 90.9 % of the end-to-end time of a pass, which is more than 2 % off"),
        (
            {
                LATENCY: [0.1, 0.1, 0.2],
                "decode": [0.01, 0.05, 0.1],
                MODEL: [0.08, 0.04, 0.09],
                "answer": [0.01] * 3,
            },
            "add up to 140.0 % of the end-to-end time, although to 100.0 % within each pass",
        ),
        ({SYNCHRONIZED: [0.12] * 4}, "a synchronization after each stage changes the end-to-end time by +20.0 %"),
    ],
)
def test_what_the_stages_show_is_said(columns: dict[str, Any], text: str) -> None:
    """The slowest one, whether they add up within 2 %, and what timing them costs on an accelerator."""
    assert any(text in sentence for sentence in stages.sentences(levels(columns)))
