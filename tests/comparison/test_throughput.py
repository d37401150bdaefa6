"""Results of ``modelzoo throughput`` side by side: the best configurations, what they cost, and what refuses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from example_machine import machine_with
from fake_runs import WEIGHTS, judgement
from instances import served
from proven_results import session, side

from modelzoo.comparison.compare import Comparison, Question, compare, gate
from modelzoo.comparison.estimate import Row, StoredResult
from modelzoo.comparison.machines import Price, prices_of
from modelzoo.errors import InputError, UsageError
from modelzoo.frozen import replace
from modelzoo.records.machine import Threads
from modelzoo.records.race import MachinePrice
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.records.serving import LatencyBound
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results.refusals import Metric, Obstacle
from modelzoo.setting import Setting
from modelzoo.stats import Doubt, Outcome
from modelzoo.views.compare import document
from modelzoo.views.comparison import accuracy, headline, notes
from modelzoo.views.speed import reason

STEADY = (1.0, 1.01, 0.99, 1.0, 1.02, 0.98)
HOUR = "2026-01-01T00:40:00+00:00"
BOUND = LatencyBound(90, 0.2)
PRICES = (Price("old", 1.0, "USD"), Price("new", 0.5, "USD"))


def rates(level: float, rounds: Sequence[float] = STEADY) -> list[float]:
    """Rows per second of rounds that spread over 1.4 %."""
    return [level * each for each in rounds]


def compared(base: Result, other: Result, *prices: Price, **question: Any) -> Comparison:
    """The comparison of two results."""
    return compare(side("old", base), side("new", other), Question(**question), prices)


def test_a_cost_has_the_verdict_of_its_ratio() -> None:
    """0.9 times the throughput at half of the price: 1.8 times cheaper, with the error of the throughput."""
    found = compared(served(rates(40)), served(rates(36), HOUR), *PRICES)
    (row,), (cost,) = found.rows, found.costs
    assert (cost.base.value, cost.other.value) == pytest.approx((1e6 / 3600 / 40, 0.5e6 / 3600 / 36), rel=1e-3)
    assert (cost.ratio.value, cost.ratio.low) == pytest.approx((2 * row.ratio.value, 2 * row.ratio.low))
    assert (cost.outcome, cost.alone_outcome) == (Outcome.CHEAPER, Outcome.CHEAPER)
    back = compare(side("new", served(rates(36), HOUR)), side("old", served(rates(40))), Question(), PRICES[::-1])
    assert (back.costs[0].outcome, back.costs[0].alone_outcome) == (Outcome.DEARER, Outcome.DEARER)


def test_a_result_and_its_like_are_neither_cheaper_nor_dearer() -> None:
    """Another session of the same machine at the same price."""
    alike = (1.0, 1.003, 0.997, 1.001, 0.999, 1.0)
    found = compared(served(rates(40, alike)), served(rates(40.1, alike[::-1]), HOUR), PRICES[0], PRICES[0])
    assert found.same_machine
    assert (found.costs[0].outcome, found.costs[0].alone_outcome) == (Outcome.AMBIGUOUS, Outcome.SAME)


def test_a_machine_that_was_measured_in_part_has_no_verdict_on_its_cost() -> None:
    """Its other cores are taken to be as fast, which is no measurement; nor is a single process one of a machine."""
    half = {"runs": {"machine": machine_with(threads=Threads(4, 4, 4, None))}}
    for part in (half, {"counts": (1, 2)}):
        (cost,) = compared(served(rates(40), **part), served(rates(20), HOUR, **part), *PRICES).costs
        assert cost.base_extrapolated is not None
        assert cost.outcome is cost.alone_outcome is None
    of_processes = compare(side("old", session()), side("new", session(0.01, 2)), Question(), PRICES)
    assert of_processes.costs[0].outcome is None


def test_too_few_rounds_say_nothing_of_the_sessions_alone() -> None:
    """Three; sessions of other days have nothing to say of one hour at all."""
    (row,) = compared(served(rates(40, STEADY[:3])), served(rates(20, STEADY[:3]), HOUR)).rows
    assert (row.alone.ratio, row.alone.verdict.doubt) == (None, Doubt.FEW_PROCESSES)
    assert reason(row.alone) == "fewer than 4 processes, or rounds of instances, on a side"
    (row,) = compared(served(rates(40)), served(rates(20), "2026-01-03T00:00:00+00:00")).rows
    assert row.alone is None


@pytest.mark.parametrize(
    ("changes", "obstacle", "text"),
    [
        ({"batches": (1, 4)}, Obstacle.BATCH, "baseline and candidate ran different batch sizes: 1 and 1, 4"),
        ({"bound": BOUND}, Obstacle.SLO, "baseline and candidate had to meet different bounds: no --slo and --slo"),
        ({"is_confirmed": False}, Obstacle.UNCONFIRMED, "the best configuration of new was not measured again after"),
        ({"runs": {"inputs_digest": "other"}}, Obstacle.INPUTS, "baseline and candidate ran different inputs"),
    ],
)
def test_what_was_measured_otherwise_is_refused_unless_it_is_allowed(
    changes: dict[str, Any], obstacle: Obstacle, text: str
) -> None:
    """As for single processes."""
    base, other = served(rates(40)), served(rates(36), HOUR, **changes)
    (row,) = compared(base, other).rows
    assert reason(row.speed).startswith(text)
    (row,) = compared(base, other, allowed=frozenset({obstacle})).rows
    assert row.ratio is not None


def test_a_bound_that_no_configuration_is_known_to_meet_is_refused() -> None:
    """The best one takes 0.1 s for a batch; it is not said to meet the bound."""
    hard, met = LatencyBound(90, 0.05), LatencyBound(90, 0.5)
    for bound, words in ((hard, "best that may meet p90=50ms: 4"), (met, "best under p90=500ms: 4")):
        found = compared(served(rates(40), bound=bound), served(rates(36), HOUR, bound=bound))
        assert words in str(document(found, gate(found, ())))
        why = "no configuration of old is known to meet p90=50ms; no configuration of new"
        assert reason(found.rows[0].speed).startswith(why) is (found.rows[0].ratio is None) is (bound is hard)


def test_a_side_without_a_whole_round_was_not_timed() -> None:
    """It has no best configuration, so it misses no bound either; it was said that only this side has the row."""
    whole, ended = served(rates(40)), served(rates(36), HOUR)
    (row,) = compared(whole, replace(ended, payload=replace(ended.payload, runs=(), stages=(), choice=None))).rows
    assert reason(row.speed) == "nothing was timed on new"


def test_only_results_of_one_command_are_compared() -> None:
    """And instances only by throughput."""
    with pytest.raises(InputError, match="^old is a result of 'modelzoo throughput', and new is none; compare results"):
        compared(served(rates(40)), session())
    with pytest.raises(UsageError, match="^--metric memory: results of 'modelzoo throughput' are compared by"):
        compared(served(rates(40)), served(rates(36), HOUR), metric=Metric.MEMORY)


def test_a_judgement_that_is_given_with_the_sessions_counts() -> None:
    """It is of the same workload, setting, weights and kind of machine, whatever its batch; else it says nothing."""
    measured = served(rates(40))
    requested = tuple(replace(each, setting=each.setting.replace(precision="bf16")) for each in measured.requested)
    measured = replace(measured, requested=requested)
    entry, where = judgement(ValidityVerdict.NOT_VALID), measured.runs[0].report.provenance
    report = replace(entry.report, prepared=replace(entry.report.prepared, weights=WEIGHTS), provenance=where)
    named = Setting("bf16", weights="random")  # elsewhere they were chosen by --weights auto
    own = replace(entry, workload="toy", requested=named, report=report)

    def row(judged: ValidityEntry) -> Row:
        found = Result(("modelzoo",), "2026-01-02T00:00:00+00:00", validity=(judged,))
        (compared,) = compare(side("old", measured, found), side("new", measured, found), Question()).rows
        return compared

    assert row(own).base.validity == own
    assert Obstacle.INVALID in [each.obstacle for each in row(own).speed.refused]
    elsewhere = replace(own, report=replace(report, provenance=replace(where, fingerprint="another machine")))
    for other in (replace(own, requested=Setting("bf16", mode="compile")), elsewhere):
        unlike = row(other).other
        assert unlike.validity is None
        assert accuracy(unlike).startswith("not judged; name a result of 'modelzoo validate'")
        why = "another workload or setting, other weights, another machine or another torch"
        assert accuracy(unlike, (StoredResult("2.json", measured),)) == f"not judged by 2.json: {why}"


def test_prices_that_were_stored_need_not_be_given_again() -> None:
    """Unless a side has none, or they are in different currencies; one that is given replaces the stored one."""
    dollars, euros = (served(rates(40), price=MachinePrice(2.0, name)) for name in ("USD", "EUR"))
    found = prices_of((), [side("old", dollars), side("new", dollars)])
    assert found == tuple(Price(name, 2.0, "USD", "", "stored with the result") for name in ("old", "new"))
    assert prices_of((), [side("old", dollars), side("new", euros)]) == ()
    assert prices_of((), [side("old", dollars), side("new", served(rates(40)))]) == ()
    given = prices_of([Price("new", 1.0)], [side("old", dollars), side("new", dollars)])
    assert [each.per_hour for each in given] == [2.0, 1.0]


def test_an_interrupted_measurement_is_noted() -> None:
    """It holds what was stored before; the headline says so if there is nothing else to say."""
    said = notes(compared(served(rates(40)), served(rates(36), HOUR, is_complete=False)))
    assert "new: stored before the call had ended: new/1.json." in said
    found = compared(served(rates(40)), served(rates(36), HOUR, is_confirmed=False, is_complete=False))
    (line,) = headline(found).items
    assert line.text.endswith("after the choice; new: stored before the call had ended: new/1.json")


def test_a_winner_that_is_measured_again_alone_is_a_session_of_its_search() -> None:
    """Another best configuration, or another bound, is another measurement."""
    search, again = served(rates(40)), served(rates(36), HOUR, counts=(4,))
    (row,) = compare(side("old", search, again), side("new", search), Question()).rows
    assert row.base is not None
    assert [each.configuration for each in row.base.served] == ["4 × 2 cores, batch 1"] * 2
    for other in (served(rates(36), HOUR, counts=(2,)), served(rates(36), HOUR, bound=BOUND)):
        with pytest.raises(InputError, match=r"hold different workloads, settings or best configurations, so they are"):
            side("old", search, other)
