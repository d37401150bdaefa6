"""Which rows fail, and the exit code."""

from __future__ import annotations

import pytest
from fake_runs import WEIGHTS, changed
from proven_results import FP32, session, session_of, sessions, side

from modelzoo.comparison.compare import (
    FAILED,
    NOTHING,
    PASSED,
    Comparison,
    FailOn,
    Question,
    compare,
    gate,
)
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.results.refusals import Obstacle
from modelzoo.stats import Outcome


def compared(base: list[Result], other: list[Result], *allowed: Obstacle) -> Comparison:
    """The comparison of these sessions."""
    return compare(side("old", *base), side("new", *other), Question(allowed=frozenset(allowed)))


def test_a_row_that_fails_is_slower() -> None:
    """The bound is tested at the confidence of verdicts, so a row cannot fail with another verdict."""
    for percent in range(30):
        comparison = compared(sessions(0.1), sessions(0.1 * (1 + percent / 100), first_day=11))
        failures = gate(comparison, [FailOn("slower", 0.0)]).failures
        assert bool(failures[0]) == (comparison.rows[0].outcome is Outcome.SLOWER)


def test_the_bound_is_corrected_for_the_number_of_rows() -> None:
    """What fails alone may pass among twenty rows."""
    others = [(f"w{i}", FP32, 0.1) for i in range(19)]
    base, other = ([("toy", FP32, level)] for level in (0.1, 0.15))
    condition = [FailOn("slower", 0.03)]
    assert gate(compared([session_of(base)], [session_of(other, 2)]), condition).exit_code == FAILED
    among = compared([session_of([*base, *others])], [session_of([*other, *others], 2)])
    assert gate(among, condition).exit_code == PASSED


def test_rows_without_a_verdict_pass_unless_they_are_not_to() -> None:
    """One session a side cannot tell 5 %; a workload that is missing is not comparable."""
    comparison = compared([session_of([("toy", FP32, 0.1), ("other", FP32, 0.1)])], [session(0.105, 2)])
    assert gate(comparison, [FailOn("slower", 0.03)]).exit_code == PASSED
    conditions = FailOn("ambiguous"), FailOn("not-comparable")
    found = gate(comparison, [FailOn("slower", 0.03), *conditions])
    assert (found.exit_code, found.failures) == (FAILED, tuple((each,) for each in conditions))


@pytest.mark.parametrize("allowed", [(), (Obstacle.WEIGHTS,)])
def test_what_makes_a_row_incomparable_can_be_named(allowed: tuple[Obstacle, ...]) -> None:
    """Whether or not it was allowed."""
    levels = [("toy", FP32, 0.1), ("other", FP32, 0.1)]
    other = session_of(levels, 2)
    odd = changed(other.runs[0].report, weights=replace(WEIGHTS, sha256="other")) if other.runs[0].report else None
    other = replace(other, runs=tuple(run if run.group else replace(run, report=odd) for run in other.runs))
    comparison = compared([session_of(levels)], [other], *allowed)
    assert gate(comparison, [FailOn("weights")]).failures == ((FailOn("weights"),), ())
    assert gate(comparison, [FailOn("inputs")]).exit_code == PASSED


def test_nothing_to_compare_is_neither_passed_nor_failed() -> None:
    """Whatever was to fail."""
    comparison = compared([session()], [session(day=2, inputs_digest=None)])
    assert gate(comparison, []).exit_code == NOTHING
    assert gate(comparison, [FailOn("not-comparable")]).exit_code == NOTHING
