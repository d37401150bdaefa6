"""Names of series and what they stand for."""

from __future__ import annotations

from fake_runs import timing
from pipelines import pipeline_run

from modelzoo.records.timing import LATENCY, MODEL, model_times


def test_the_time_of_the_model_is_that_of_its_stage() -> None:
    """Shares of the machine's ceiling are not taken from the whole pipeline."""
    assert model_times(timing([3.0, 4.0])) == (3.0, 4.0)
    run = pipeline_run({LATENCY: [3.0], MODEL: [2.0], "decode": [0.5], "answer": [0.5]})
    assert model_times(run.report.timing) == (2.0,)
