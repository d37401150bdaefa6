"""Whole comparisons: what their verdicts are, and what they do not depend on."""

from __future__ import annotations

import pytest
from fake_runs import MACHINE, evidence, make, result_of
from proven_results import BF16, FP32, session, session_of, sessions, side

from modelzoo.comparison.compare import Comparison, Question, compare
from modelzoo.comparison.estimate import STARTS
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Latency, Result
from modelzoo.records.timing import Design, StopReason
from modelzoo.results.refusals import Metric, Obstacle
from modelzoo.stats import Outcome
from modelzoo.views.comparison import notes
from modelzoo.views.speed import reason


def compared(base: list[Result], other: list[Result], question: Question | None = None) -> Comparison:
    """The comparison of these sessions."""
    return compare(side("old", *base), side("new", *other), question or Question())


def test_a_result_compared_with_itself_is_never_faster_or_slower() -> None:
    """Its ratio is 1, whatever the number of sessions; that is noted."""
    for base in ([session()], sessions(0.3)):
        found = compared(base, base)
        assert {row.outcome for row in found.rows} <= {Outcome.SAME, Outcome.AMBIGUOUS}
        assert found.mean.value == pytest.approx(1.0)
        assert any("belong to both baseline and candidate" in note for note in notes(found))


def test_what_cannot_be_compared_has_values_but_no_ratio() -> None:
    """The other rows and the geometric mean do without it."""
    base = session_of([("toy", FP32, 0.1), ("toy", BF16, 0.2), ("other", FP32, 0.1)])
    other = session_of([("toy", FP32, 0.05), ("toy", BF16, 0.1)], 2)
    broken = replace(other.runs[8].report, inputs_digest="other")
    other = replace(other, runs=tuple(replace(run, report=broken) if run.group else run for run in other.runs))
    found = compared([base], [other])
    assert [(row.workload, row.label, row.outcome) for row in found.rows] == [
        ("toy", "fp32", Outcome.FASTER),
        ("toy", "bf16", Outcome.NOT_COMPARABLE),
        ("other", "fp32", Outcome.NOT_COMPARABLE),
    ]
    assert [row.other_value is None for row in found.rows] == [False, False, True]
    obstacles = [[each.obstacle for each in row.speed.refused] for row in found.rows]
    assert obstacles == [[], [Obstacle.INPUTS], [Obstacle.MISSING]]
    assert found.mean.value == pytest.approx(2.0)


def test_nothing_was_timed_under_an_emulator() -> None:
    """Allowing the emulator does not make times."""
    emulated = {"machine": replace(MACHINE, emulator="qemu"), "evidence": evidence(ProofVerdict.FP32)}
    other = result_of(make(None, inputs_digest="def", **emulated))
    (row,) = compared([session()], [other], Question(allowed=frozenset({Obstacle.EMULATOR}))).rows
    assert reason(row.speed) == "nothing was timed on new"


def test_a_start_that_no_process_had_is_not_compared() -> None:
    """The first session filled the cache, so the second one has no cold start, and the first one no warm one."""
    starts = {"first_answer_seconds": 40.0, "compile_seconds": 40.0}
    cold, warm = session(compiled_libraries=3, **starts), session(day=2, compiled_libraries=0, **starts)
    reasons = [reason(compared([cold], [warm], Question(metric=metric)).rows[0].speed) for metric in STARTS]
    assert reasons == [
        "no process on new is known to have compiled its model, rather than found it in a cache",
        "no process on old is known to have found its compiled code in a cache",
    ]


def test_metrics() -> None:
    """A batch of 4 in 0.1 s, a first call of 9 s, 1 GiB; the other side is twice as fast in a quarter of the memory."""
    values = {
        Metric.LATENCY: (0.1, 2),
        Metric.THROUGHPUT: (40, 2),
        Metric.COLD_START: (9, 1),
        Metric.MEMORY: (2**30, 4),
    }
    for metric, (value, ratio) in values.items():
        (row,) = compared([session(0.1)], [session(0.05, 2, peak_memory=2**28)], Question(metric=metric)).rows
        assert (row.base_value.value, row.ratio.value) == pytest.approx((value, ratio), rel=1e-3)
        assert row.outcome is (Outcome.LESS if metric is Metric.MEMORY else row.outcome)


def test_a_session_that_has_not_ended_is_noted() -> None:
    """It holds what was stored before."""
    for stop_reason in (None, *StopReason):
        other = replace(session(day=2), payload=Latency((Design("toy", 0.05, stop_reason=stop_reason),)))
        is_noted = "new: stored before the call had ended: new/1.json." in notes(compared([session()], [other]))
        assert is_noted is (stop_reason in (None, StopReason.INTERRUPTED))
