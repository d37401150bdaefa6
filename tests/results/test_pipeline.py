"""What the processes of a setting say about its stages."""

from __future__ import annotations

import pytest
from fake_runs import result_of as result
from pipelines import pipeline_run

from modelzoo.records.timing import LATENCY, MODEL, UNDIVIDED
from modelzoo.results.pipeline import pipelines

FIRST = {LATENCY: [0.1, 0.1], "decode": [0.02] * 2, MODEL: [0.07] * 2, "answer": [0.01] * 2, UNDIVIDED: [0.099] * 2}
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
