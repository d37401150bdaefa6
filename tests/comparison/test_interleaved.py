"""Two sides in the same rounds: their ratio is that of the rounds, and what else is said is as for stored results."""

from __future__ import annotations

import math

from fake_runs import WEIGHTS, evidence, judgement
from interleaved_sides import checked

from modelzoo.comparison.compare import Comparison, FailOn, compare_interleaved, gate
from modelzoo.comparison.model import StoredResult
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result
from modelzoo.records.timing import StopReason
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results.refusals import Obstacle
from modelzoo.stats import Outcome

ROUNDS = [0.999, 1.001, 1.0, 1.002, 0.998, 1.0, 1.001, 0.999]


def compared(result: Result, *allowed: Obstacle) -> Comparison:
    """The comparison of its two sides."""
    return compare_interleaved(StoredResult("check.json", result), ("base", "head"), allowed)


def test_a_difference_that_does_not_matter_is_no_failure() -> None:
    """Without a bound, ``slower`` is the verdict, and 0.5 % that are certain are SAME; a bound can be smaller."""
    found = compared(checked({"toy": [1.005 * each for each in ROUNDS]}))
    assert found.rows[0].outcome is Outcome.SAME
    assert [gate(found, [FailOn("slower", by)]).exit_code for by in (0.0, 0.001)] == [0, 1]


def test_each_look_at_the_data_spends_its_share_of_the_error() -> None:
    """What one look at the end would call slower is not, if that look had little left to spend."""
    rounds = [math.exp(0.03 * (1 + 0.8 * sign)) for sign in (1, -1) * 4]  # p = 0.013
    once = compared(checked({"toy": rounds}))
    planned = compared(checked({"toy": rounds}, looks=(8, 12, 16, 64), stop=StopReason.PRECISE))
    seen = [row.speed.found.seen for found in (once, planned) for row in found.rows if row.speed.found is not None]
    assert [[round(look.share, 3) for look in each] for each in seen] == [[1.0], [0.195]]
    assert [gate(each, [FailOn("slower", 0.0)]).exit_code for each in (once, planned)] == [1, 0]


def test_nothing_fails_before_the_first_planned_look() -> None:
    """Whoever interrupts a call because of what it shows decides nothing by that."""
    interrupted = checked({"toy": [2.0] * 4}, looks=(8,), stop=StopReason.INTERRUPTED)
    found = compared(interrupted)
    assert found.rows[0].outcome is Outcome.AMBIGUOUS
    assert gate(found, [FailOn("slower", 0.0)]).exit_code == 0


def test_what_is_allowed_is_compared() -> None:
    """Without ``--allow``, the row has no ratio; with it, it has that of the rounds, and a verdict."""
    for obstacle, changes in (
        (Obstacle.WEIGHTS, {"weights": replace(WEIGHTS, sha256="other")}),
        (Obstacle.UNPROVEN, {"evidence": evidence(ProofVerdict.UNKNOWN)}),
    ):
        result = checked({"toy": ROUNDS}, head=changes)
        (row,) = compared(result).rows
        assert (row.outcome, {each.obstacle for each in row.speed.refused}) == (Outcome.NOT_COMPARABLE, {obstacle})
        (row,) = compared(result, obstacle).rows
        assert (row.outcome, {each.obstacle for each in row.speed.allowed}) == (Outcome.SAME, {obstacle})
        assert row.speed.refused == ()


def test_a_side_whose_predictions_are_not_valid_fails() -> None:
    """``invalid`` is one of the conditions that fail a check by default."""
    wrong = replace(judgement(ValidityVerdict.NOT_VALID), workload="toy", group=1)
    found = compared(replace(checked({"toy": ROUNDS}), validity=(wrong,)))
    assert [each.obstacle for each in found.rows[0].speed.refused] == [Obstacle.INVALID]
    assert any(gate(found, [FailOn("invalid")]).failures)
