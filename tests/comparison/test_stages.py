"""The stages of two pipelines side by side."""

from __future__ import annotations

import pytest
from fake_runs import result_of
from generated_results import generation_run
from pipelines import pipeline_run
from proven_results import side

from modelzoo.comparison.compare import Question, compare, stage_rows
from modelzoo.comparison.pairing import parse_pairing
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.records.timing import FIRST_TOKEN, LATENCY, MODEL, PER_TOKEN
from modelzoo.results.refusals import Metric, Obstacle
from modelzoo.results.speed import Speed
from modelzoo.setting import Setting
from modelzoo.stats import Outcome, Verdict
from modelzoo.views.speed import refusal


def session(model: float, day: int) -> Result:
    """Four processes whose model stage takes ``model`` seconds, the others 20 and 10 ms."""
    columns = {LATENCY: [model + 0.03] * 3, "decode": [0.02] * 3, MODEL: [model] * 3, "answer": [0.01] * 3}
    found = result_of(*(pipeline_run(columns, round=number) for number in range(4)))
    return replace(found, created=f"2026-07-{day:02}T00:00:00+00:00")


ALLOWED = Question(allowed=frozenset({Obstacle.UNPROVEN, Obstacle.UNRECORDED}))


def test_every_stage_has_a_ratio_with_an_interval() -> None:
    """The model of the other side is twice as fast, the other stages are equal; the whole has its own row."""
    found = compare(side("a", session(0.1, 1)), side("b", session(0.05, 2)), ALLOWED)
    assert [each.name for each in found.stages] == ["decode", MODEL, "answer"]
    assert [each.ratio.value for each in found.stages] == pytest.approx([1, 2, 1])
    model = found.stages[1]
    assert (model.base.value, model.other.value) == pytest.approx((0.1, 0.05))
    assert model.ratio.low < 2 < model.ratio.high
    assert found.rows[0].ratio.value == pytest.approx(0.13 / 0.08)


def test_a_row_that_only_one_side_has_has_stages_without_a_ratio() -> None:
    """Its side's."""
    (row,) = compare(side("a", session(0.1, 1)), side("b", session(0.1, 2)), ALLOWED).rows
    alone = replace(row, other=None, speed=Speed(None, Verdict(Outcome.NOT_COMPARABLE)))
    found = stage_rows([alone], Metric.LATENCY)
    assert [each.name for each in found] == ["decode", MODEL, "answer"]
    assert {(each.other, each.ratio) for each in found} == {(None, None)}


def test_a_pipeline_is_not_compared_with_the_model_alone() -> None:
    """Even if they are paired on purpose: the work is not the same."""
    piped = session(0.1, 2)
    runs = tuple(replace(run, requested=Setting(), report=replace(run.report, pipeline=None)) for run in piped.runs)
    alone = replace(piped, runs=runs, requested=tuple(replace(each, setting=Setting()) for each in piped.requested))
    question = replace(ALLOWED, pairings=(parse_pairing("stages=on:stages=off"),))
    (row,) = compare(side("a", session(0.1, 1)), side("b", alone), question).rows
    (refused,) = row.speed.refused
    assert refusal(refused) == "one result timed the model alone, the other one the whole pipeline"


def generated(first: float, token: float, day: int) -> Result:
    """Four processes of generations whose first token and other tokens take these seconds."""
    found = result_of(*(generation_run(first, [token, token], round=number) for number in range(4)))
    return replace(found, created=f"2026-07-{day:02}T00:00:00+00:00")


def test_the_tokens_of_language_models_have_ratios() -> None:
    """Prefill may be faster on one machine, and decoding on the other."""
    found = compare(side("a", generated(0.4, 0.04, 1)), side("b", generated(0.2, 0.05, 2)), ALLOWED)
    assert [each.name for each in found.stages] == [FIRST_TOKEN, PER_TOKEN]
    assert [each.ratio.value for each in found.stages] == pytest.approx([2, 0.8])


def test_times_of_tokens_have_verdicts() -> None:
    """Each by itself, with three sessions of a side on days of their own; the latency has another verdict."""
    sides = [
        side(name, *(generated(first * (1 + day / 1000), token * (1 + day / 1000), day) for day in days))
        for name, first, token, days in (("a", 0.4, 0.04, (1, 2, 3)), ("b", 0.2, 0.05, (4, 5, 6)))
    ]
    expected = (Metric.FIRST_TOKEN, 2, Outcome.FASTER), (Metric.PER_TOKEN, 0.8, Outcome.SLOWER)
    for metric, ratio, outcome in expected:
        found = compare(*sides, replace(ALLOWED, metric=metric))
        assert found.rows[0].ratio.value == pytest.approx(ratio, rel=0.01)
        assert (found.rows[0].outcome, found.stages) == (outcome, ())


def test_forward_passes_have_no_tokens_to_compare() -> None:
    """The reason is said, as for other metrics that a side lacks."""
    question = replace(ALLOWED, metric=Metric.PER_TOKEN)
    (row,) = compare(side("a", session(0.1, 1)), side("b", session(0.1, 2)), question).rows
    assert row.outcome is Outcome.NOT_COMPARABLE
    assert "no process on a and b timed the tokens that it generated" in [refusal(each) for each in row.speed.refused]
