"""The stages of pipelines in a table and in sentences."""

from __future__ import annotations

from typing import Any

import pytest
from fake_runs import result_of as result
from pipelines import pipeline_run

from modelzoo.frozen import replace
from modelzoo.records.timing import LATENCY, MODEL, SYNCHRONIZED, UNDIVIDED
from modelzoo.results.pipeline import PipelineLevels, pipelines
from modelzoo.views import stages

COLUMNS = {LATENCY: [0.1] * 4, "decode": [0.02] * 4, MODEL: [0.07] * 4, "answer": [0.01] * 4, UNDIVIDED: [0.099] * 4}


def levels(columns: dict[str, Any], **more: Any) -> PipelineLevels:
    """The pipeline of two equal processes."""
    (found,) = pipelines(result(*(pipeline_run(columns, round=number, **more) for number in (0, 1))))
    return found


def test_the_table_has_a_row_per_stage_then_the_sum_and_the_whole() -> None:
    """Seconds, share and place of each; the share of the sum is that of the end-to-end time."""
    cells = {column.title: column.cells for column in stages.columns([levels(COLUMNS)])}
    assert cells["stage"] == ("decode", MODEL, "answer", stages.SUM, stages.END_TO_END)
    assert cells["on"] == ("host", "cpu", "host", "", "")
    assert cells["share"] == ("20.0 %", "70.0 %", "10.0 %", "100.0 %", "")
    assert [cell.partition(" ±")[0] for cell in cells["time"]] == [
        "20.00 ms",
        "70.00 ms",
        "10.00 ms",
        "100.0 ms",
        "100.0 ms",
    ]
    assert "workload" not in cells


def test_workload_and_setting_are_named_once() -> None:
    """With two pipelines, in the first row of each."""
    found = [levels(COLUMNS), replace(levels(COLUMNS), label="bf16 stages")]
    cells = {column.title: column.cells for column in stages.columns(found)}
    assert [cell for cell in cells["setting"] if cell] == ["fp32 stages", "bf16 stages"]


def test_one_sentence_names_the_bottleneck() -> None:
    """The slowest stage, and what the stages on the device and on the host take."""
    assert stages.sentences(levels(COLUMNS))[0] == (
        "bottleneck: model, 70.0 % of the stages' time; the stages on the device (here the CPU) take 70.0 % "
        "of the time, those on the host 30.0 %"
    )
    slow = levels({**COLUMNS, LATENCY: [0.28] * 4, "decode": [0.2] * 4})
    assert stages.sentences(slow)[0].startswith("bottleneck: decode, 71.4 % of the stages' time")


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (COLUMNS, "the stages add up to 100.0 % of the end-to-end time"),
        (
            {**COLUMNS, LATENCY: [0.11] * 4},
            "add up to 90.9 % of the end-to-end time of a pass, which is more than 2 % off",
        ),
        (
            {
                LATENCY: [0.1, 0.1, 0.2],
                "decode": [0.01, 0.05, 0.1],
                MODEL: [0.08, 0.04, 0.09],
                "answer": [0.01] * 3,
            },
            "add up to 140.0 % of the end-to-end time, although to 100.0 % within each pass",
        ),
    ],
)
def test_whether_the_stages_add_up_is_said(columns: dict[str, Any], text: str) -> None:
    """Within 2 %, or what is wrong."""
    assert any(text in sentence for sentence in stages.sentences(levels(columns)))


def test_what_timing_the_stages_costs_is_said() -> None:
    """A synchronization on an accelerator, timestamps on a CPU, with the interval over processes."""
    assert (
        "timestamps between the stages change the end-to-end time by +1.0 % [" in stages.sentences(levels(COLUMNS))[-1]
    )
    columns = {name: values for name, values in COLUMNS.items() if name != UNDIVIDED}
    said = stages.sentences(levels({**columns, SYNCHRONIZED: [0.12] * 4}))[-1]
    assert said.startswith("a synchronization after each stage changes the end-to-end time by +20.0 %")
