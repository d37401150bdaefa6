"""What the processes of a setting say about its stages."""

from __future__ import annotations

import pytest
from fake_runs import result_of as result
from pipelines import pipeline_run

from modelzoo.frozen import replace
from modelzoo.records.timing import LATENCY, MODEL, SYNCHRONIZED, UNDIVIDED
from modelzoo.results.pipeline import pipelines

FIRST = {LATENCY: [0.1, 0.1], "decode": [0.02] * 2, MODEL: [0.07] * 2, "answer": [0.01] * 2, UNDIVIDED: [0.099] * 2}
SECOND = {LATENCY: [0.12, 0.12], "decode": [0.02] * 2, MODEL: [0.09] * 2, "answer": [0.01] * 2, UNDIVIDED: [0.119] * 2}


def test_stages_have_the_level_of_the_processes() -> None:
    """Geometric means of the processes' medians with intervals over them, and shares of their sum."""
    (found,) = pipelines(result(pipeline_run(FIRST), pipeline_run(SECOND, round=1)))
    assert [level.stage.name for level in found.stages] == ["decode", MODEL, "answer"]
    model = found.stages[1]
    assert model.seconds.value == pytest.approx((0.07 * 0.09) ** 0.5)
    assert model.seconds.low < 0.07 < 0.09 < model.seconds.high
    assert sum(level.share for level in found.stages) == pytest.approx(1)
    assert found.end_to_end.value == pytest.approx((0.1 * 0.12) ** 0.5)
    assert found.device_share == pytest.approx(model.seconds.value / found.end_to_end.value)
    assert found.adds_up


def test_time_outside_of_all_stages_shows() -> None:
    """3 % of a pass that are in no stage are more than the tolerance of 2 %."""
    (found,) = pipelines(result(pipeline_run({**FIRST, LATENCY: [0.103, 0.103]})))
    assert found.within_passes == pytest.approx(0.1 / 0.103)
    assert found.adds_up is False
    (found,) = pipelines(result(pipeline_run({**FIRST, LATENCY: [0.101, 0.101]})))
    assert found.adds_up


def test_medians_that_do_not_add_up_show_although_each_pass_does() -> None:
    """A reader adds the numbers of the table, which are medians."""
    columns = {
        LATENCY: [0.10, 0.10, 0.20],
        "decode": [0.01, 0.05, 0.10],
        MODEL: [0.08, 0.04, 0.09],
        "answer": [0.01, 0.01, 0.01],
    }
    (found,) = pipelines(result(pipeline_run(columns)))
    assert found.within_passes == pytest.approx(1)
    assert found.sum == pytest.approx(0.14)
    assert found.adds_up is False


@pytest.mark.parametrize(("other", "ratio"), [(UNDIVIDED, 0.1 / 0.099), (SYNCHRONIZED, 0.099 / 0.1)])
def test_what_timing_costs_is_a_ratio_within_each_process(other: str, ratio: float) -> None:
    """Time stamps are compared with passes without, synchronizations with passes that wait only at the end."""
    runs = []
    for number, columns in enumerate((FIRST, FIRST)):
        kept = {name: values for name, values in columns.items() if name != UNDIVIDED}
        runs.append(pipeline_run({**kept, other: columns[UNDIVIDED]}, round=number))
    (found,) = pipelines(result(*runs))
    assert found.other_series == other
    assert found.timing_cost is not None
    assert found.timing_cost.value == pytest.approx(ratio)


def test_settings_without_pipelines_have_none() -> None:
    """A failed process and a run of the model alone say nothing about stages."""
    run = pipeline_run(FIRST)
    assert run.report is not None
    alone = replace(run, report=replace(run.report, pipeline=None))
    assert pipelines(result(alone)) == []
    (found,) = pipelines(result(run, replace(run, round=1, report=None, error="it failed")))
    assert len(found.stages) == 3
