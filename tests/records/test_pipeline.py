"""Names of series and what they stand for."""

from __future__ import annotations

from fake_runs import timing
from pipelines import pipeline_run

from modelzoo.records.timing import LATENCY, MODEL, PER_TOKEN, RESERVED_NAMES, SYNCHRONIZED, Role, model_times, role_of


def test_reserved_names_have_their_role_and_others_are_stages() -> None:
    """Stages cannot be mistaken for the whole: their names are not reserved, but for those that the suite adds."""
    assert (role_of(LATENCY), role_of(SYNCHRONIZED)) == (Role.LATENCY, Role.LATENCY)
    assert role_of(PER_TOKEN) is Role.INTERVAL
    assert (role_of("decode"), role_of(MODEL)) == (Role.STAGE, Role.STAGE)
    assert len(set(RESERVED_NAMES)) == len(RESERVED_NAMES)


def test_the_time_of_the_model_is_that_of_its_stage() -> None:
    """Shares of the machine's ceiling are not taken from the whole pipeline."""
    assert model_times(timing([3.0, 4.0])) == (3.0, 4.0)
    run = pipeline_run({LATENCY: [3.0], MODEL: [2.0], "decode": [0.5], "answer": [0.5]})
    assert run.report is not None and run.report.timing is not None
    assert model_times(run.report.timing) == (2.0,)
