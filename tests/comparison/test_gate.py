"""Which rows fail, and the exit code: of stored results, and of two sides in the same rounds."""

from __future__ import annotations

import math

from fake_runs import WEIGHTS, changed, evidence, judgement
from proven_results import FP32, checked, session, session_of, sessions, side

from modelzoo.comparison.compare import (
    FAILED,
    NOTHING,
    PASSED,
    Comparison,
    FailOn,
    Question,
    compare,
    compare_interleaved,
    gate,
)
from modelzoo.comparison.estimate import StoredResult
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result
from modelzoo.records.timing import StopReason
from modelzoo.records.validity import ValidityVerdict
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


def test_what_makes_a_row_incomparable_can_be_named() -> None:
    """Whether or not it was allowed."""
    base = session_of([("toy", FP32, 0.1), ("other", FP32, 0.1)])
    odd = changed(base.runs[0].report, weights=replace(WEIGHTS, sha256="other"))
    runs = tuple(run if run.group else replace(run, report=odd) for run in base.runs)
    other = replace(base, created="2026-03-02T00:00:00+00:00", runs=runs)
    for allowed in ((), (Obstacle.WEIGHTS,)):
        comparison = compared([base], [other], *allowed)
        assert gate(comparison, [FailOn("weights")]).failures == ((FailOn("weights"),), ())
        assert gate(comparison, [FailOn("inputs")]).exit_code == PASSED


def test_nothing_to_compare_is_neither_passed_nor_failed() -> None:
    """Whatever was to fail."""
    comparison = compared([session()], [session(day=2, inputs_digest=None)])
    assert gate(comparison, []).exit_code == NOTHING
    assert gate(comparison, [FailOn("not-comparable")]).exit_code == NOTHING


ROUNDS = [0.999, 1.001, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999]


def of_rounds(result: Result, *allowed: Obstacle) -> Comparison:
    """The comparison of its two sides."""
    return compare_interleaved(StoredResult("check.json", result), ("base", "head"), allowed)


def test_a_difference_that_does_not_matter_is_no_failure() -> None:
    """Without a bound, ``slower`` is the verdict, and 0.5 % that are certain are SAME; a bound can be smaller."""
    found = of_rounds(checked({"toy": [1.005 * each for each in ROUNDS]}))
    assert found.rows[0].outcome is Outcome.SAME
    assert [gate(found, [FailOn("slower", by)]).exit_code for by in (0.0, 0.001)] == [0, 1]


def test_each_look_at_the_data_spends_its_share_of_the_error() -> None:
    """What one look at the end would call slower is not, if that look had little left to spend."""
    rounds = [math.exp(0.03 * (1 + 0.8 * sign)) for sign in (1, -1) * 4]  # p = 0.013
    once = of_rounds(checked({"toy": rounds}))
    planned = of_rounds(checked({"toy": rounds}, looks=(8, 12, 16, 64), stop=StopReason.PRECISE))
    seen = [row.speed.found.seen for found in (once, planned) for row in found.rows if row.speed.found is not None]
    assert [[round(look.share, 3) for look in each] for each in seen] == [[1.0], [0.195]]
    assert [gate(each, [FailOn("slower", 0.0)]).exit_code for each in (once, planned)] == [1, 0]


def test_what_is_allowed_is_compared() -> None:
    """Without ``--allow``, the row has no ratio; with it, it has that of the rounds, and a verdict."""
    for obstacle, changes in (
        (Obstacle.WEIGHTS, {"weights": replace(WEIGHTS, sha256="other")}),
        (Obstacle.UNPROVEN, {"evidence": evidence(ProofVerdict.UNKNOWN)}),
    ):
        result = checked({"toy": ROUNDS}, head=changes)
        (row,) = of_rounds(result).rows
        assert (row.outcome, {each.obstacle for each in row.speed.refused}) == (Outcome.NOT_COMPARABLE, {obstacle})
        (row,) = of_rounds(result, obstacle).rows
        assert (row.outcome, {each.obstacle for each in row.speed.allowed}) == (Outcome.SAME, {obstacle})
        assert row.speed.refused == ()


def test_a_side_whose_predictions_are_not_valid_fails() -> None:
    """``invalid`` is one of the conditions that fail a check by default."""
    wrong = replace(judgement(ValidityVerdict.NOT_VALID), workload="toy", group=1)
    found = of_rounds(replace(checked({"toy": ROUNDS}), validity=(wrong,)))
    assert [each.obstacle for each in found.rows[0].speed.refused] == [Obstacle.INVALID]
    assert any(gate(found, [FailOn("invalid")]).failures)
