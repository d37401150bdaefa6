"""Adjusted latencies: slow-downs that the reference load saw are taken out, and nothing is done without evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from fake_runs import make, result_of
from kept_sessions import beside
from simulated import binomial_error

from modelzoo.frozen import replace
from modelzoo.records.run import Latency, Result, Run
from modelzoo.records.timing import LoadEvidence
from modelzoo.results.adjustment import Adjustment, Unadjusted, adjustment, adjustments, fit_groups, reference_seconds
from modelzoo.setting import Setting
from modelzoo.stats import Sums

BF16 = Setting("bf16")
LOAD = 0.002
"""Seconds of the load at full speed."""


def session(
    slowdowns: Sequence[float], *, follows: float = 1.0, noise: Sequence[float] = (), speed: float | None = None
) -> Result:
    """Two settings of 0.1 and 0.2 s on a machine that is slowed down in each round; the load feels all of it.

    ``follows`` is how much of the slow-down the settings feel, as a power; ``noise`` is what only they feel.
    """
    runs = []
    for number, slow in enumerate(slowdowns):
        for group, (setting, level) in enumerate(((Setting(), 0.1), (BF16, 0.2))):
            own = noise[2 * number + group] if noise else 1.0
            run = make([level * slow**follows * own] * 3, setting=setting, group=group, round=number)
            runs.append(beside(run, 0.9 * LOAD * slow, LOAD * slow, 1.3 * LOAD * slow))
    return replace(result_of(*runs), payload=Latency(reference_seconds=speed))


UNSTEADY = (1.0, 1.2, 1.05, 1.3, 1.1, 1.0, 1.25, 1.15)


def test_planted_slow_downs_are_taken_out() -> None:
    """Both settings get the latency that they have at full speed, and their intervals have almost no width."""
    found = adjustment(session(UNSTEADY, speed=LOAD))
    assert found.refused is None
    assert found.fit is not None
    assert (found.fit.control.slope, found.fit.control.correlation) == pytest.approx((1, 1))
    for group, level in ((0, 0.1), (1, 0.2)):
        assert found.latencies[group].value == pytest.approx(level)
        assert found.latencies[group].half_width < 1e-6


def test_the_machine_was_as_unsteady_as_its_load() -> None:
    """The spread is from the fastest to the slowest round."""
    assert adjustment(session(UNSTEADY)).spread == pytest.approx(0.3)
    assert adjustment(session([1.0] * 8)).spread == pytest.approx(0)


def test_the_first_session_is_adjusted_to_its_own_speed_and_later_ones_to_that_of_the_machine() -> None:
    """Without a kept speed it is the median of the session's processes."""
    slow = [1.2 * each for each in UNSTEADY[:7]]
    first, later = adjustment(session(slow)), adjustment(session(slow, speed=LOAD))
    assert first.fit is not None
    assert math.exp(first.fit.speed) == pytest.approx(LOAD * 1.2 * 1.1)
    assert first.latencies[0].value == pytest.approx(0.1 * 1.2 * 1.1)
    assert later.fit is not None
    assert math.exp(later.fit.speed) == pytest.approx(LOAD)
    assert later.latencies[0].value == pytest.approx(0.1)


def test_a_workload_that_does_not_follow_the_load_is_left_out() -> None:
    """It neither gets adjusted latencies nor takes part in the slope of the others."""
    steady = [
        beside(make([0.3 * wobble] * 3, workload="steady", round=number), LOAD * slow, LOAD * slow, LOAD * slow)
        for number, (slow, wobble) in enumerate(zip(UNSTEADY, (1.0, 0.98, 1.02, 1.0, 0.99, 1.01, 0.98, 1.02)))
    ]
    found = adjustment(replace(result_of(*session(UNSTEADY).runs, *steady), payload=Latency(reference_seconds=LOAD)))
    assert found.left_out == ("steady",)
    assert set(found.latencies) == {0, 1}
    assert found.fit is not None
    assert found.fit.control.slope == pytest.approx(1)


def workload_alone(name: str, latencies: Sequence[float], loads: Sequence[float]) -> list[Run]:
    """One setting of a workload that takes 0.3 s, with these factors of its latency and of the load's time."""
    return [
        beside(make([0.3 * latency] * 3, workload=name, round=number), LOAD * load)
        for number, (latency, load) in enumerate(zip(latencies, loads))
    ]


ODD = (1.0, 1.01, 0.99, 1.01, 0.995, 0.99, 1.0, 1.0)
"""Latencies that correlate by 0.45 only with the load …"""
QUIET_LOAD = (1.0, 1.01, 1.0, 1.0, 0.99, 1.0, 1.01, 1.0)
"""… of a session that was unsteady by 1 %."""


def evidence(correlation: float, freedom: int = 28, workload: str = "odd") -> tuple[LoadEvidence, ...]:
    """What four earlier sessions on an unsteady machine showed."""
    return (LoadEvidence(workload, 4, Sums(freedom + 4, freedom, 1.0, 1.0, correlation)),)


def test_earlier_sessions_decide_whether_a_workload_is_adjusted() -> None:
    """What its processes of one session show by chance hardly counts beside what the machine has shown before."""
    follows = session(UNSTEADY).runs
    for latencies, loads in ((ODD, QUIET_LOAD), (UNSTEADY, UNSTEADY)):
        alone = workload_alone("odd", latencies, loads)
        for known, left_out in ((0.9, ()), (0.2, ("odd",))):
            found = adjustment(replace(result_of(*follows, *alone), payload=Latency(load_evidence=evidence(known))))
            assert found.left_out == left_out
            found = adjustment(replace(result_of(*alone), payload=Latency(load_evidence=evidence(known))))
            assert (found.refused is Unadjusted.UNPREDICTED) is bool(left_out)


def test_without_earlier_sessions_a_workload_is_judged_by_the_others_too() -> None:
    """Its own processes are few: a low correlation may be chance if the load predicts the other workload."""
    assert adjustment(result_of(*session(UNSTEADY).runs, *workload_alone("odd", ODD, QUIET_LOAD))).left_out == ()
    alone = adjustment(result_of(*workload_alone("odd", ODD * 2, QUIET_LOAD * 2)))
    assert refusal(alone) is Unadjusted.UNPREDICTED


def test_earlier_sessions_make_up_for_few_processes() -> None:
    """Their processes count for the slope and for whether there are enough; those of other workloads do not."""
    short = session(UNSTEADY[:3], follows=0.6)
    assert refusal(adjustment(short)) is Unadjusted.FEW_PROCESSES
    found = adjustment(replace(short, payload=Latency(load_evidence=evidence(0.9, workload="toy"))))
    assert found.refused is None
    assert found.fit is not None
    assert found.fit.control.blocks == 6 + 32
    assert adjustment(replace(short, payload=Latency(load_evidence=evidence(0.9)))) == adjustment(short)
    few = replace(short, payload=Latency(load_evidence=evidence(0.9, freedom=4, workload="toy")))
    found = adjustment(few)
    assert refusal(found) is Unadjusted.FEW_PROCESSES
    assert found.fit is not None
    assert (found.fit.control.blocks, found.fit.has_earlier) == (14, True)


def test_sessions_of_one_call_do_not_count_twice() -> None:
    """The second one knows the first one as an earlier session, which is among those that are adjusted."""
    first, second = (replace(session(UNSTEADY), created=f"2026-01-0{day}T00:00:00+00:00") for day in (1, 2))
    both = adjustments([first, second])
    assert adjustments([first, replace(second, payload=Latency(load_evidence=evidence(0.1, workload="toy")))]) == both
    assert adjustments([replace(first, payload=Latency(load_evidence=evidence(0.9, workload="toy"))), second]) != both


def test_a_workload_that_follows_the_load_with_another_slope_is_left_out() -> None:
    """With the slope of the others it would wander more than without, although it is correlated."""
    some = [(0.25 * math.log(slow), math.log(slow)) for slow in UNSTEADY]
    groups = [(name, [(4 * x, load) for x, load in some]) for name in ("one", "two")]
    similar = ("similar", [(2.5 * x, load) for x, load in some])
    assert fit_groups([*groups, ("odd", some), similar] * 3, 0.0).left_out == ("odd",)


def test_of_workloads_that_follow_the_load_few_are_left_out_by_chance() -> None:
    """A correlation of 0.7 in 8 processes of two settings, in a session without earlier ones; else it would be 18 %."""
    generator, trials, left_out = np.random.default_rng(8), 300, 0
    for _ in range(trials):
        groups = []
        for workload, correlation in (("one", 0.9), ("two", 0.9), ("three", 0.7)):
            for _ in range(2):
                load, own = generator.normal(size=(2, 8))
                latency = load + math.sqrt(1 / correlation**2 - 1) * own
                groups.append((workload, list(zip(latency, load))))
        left_out += "three" in fit_groups(groups, 0.0).left_out
    assert left_out / trials < 0.1


def test_the_slope_is_shrunk_towards_one() -> None:
    """14 degrees of freedom say 0.6, 8 say 1."""
    found = adjustment(session(UNSTEADY, follows=0.6))
    assert found.fit is not None
    assert found.fit.control.slope == pytest.approx((14 * 0.6 + 8 * 1) / 22)


def refusal(found: Adjustment) -> Unadjusted | None:
    """Why nothing was adjusted."""
    assert found.latencies == {}
    return found.refused


def test_few_processes_are_not_adjusted() -> None:
    """12 processes of two settings leave 10 degrees of freedom, in which chance correlates."""
    found = adjustment(session(UNSTEADY[:6]))
    assert refusal(found) is Unadjusted.FEW_PROCESSES
    assert found.fit is not None
    assert (found.fit.control.blocks, found.fit.freedom) == (12, 10)
    assert adjustment(session(UNSTEADY[:7])).refused is None


def test_a_load_that_predicts_nothing_is_not_used() -> None:
    """The latency moves, and the load moves otherwise; the spread of the machine is still said."""
    noise = [1.3, 1.3, 1.0, 1.0] * 4
    found = adjustment(session(UNSTEADY, follows=0.0, noise=noise))
    assert refusal(found) is Unadjusted.UNPREDICTED
    assert found.spread == pytest.approx(0.3)


def test_one_process_per_setting_is_too_few() -> None:
    """The least that a call can have."""
    assert refusal(adjustment(session([1.0]))) is Unadjusted.FEW_PROCESSES


def test_a_result_without_a_load_is_not_adjusted() -> None:
    """As are processes that failed or were not timed."""
    empty = Adjustment()
    assert adjustment(result_of(*(make([0.1] * 3, round=i) for i in range(20)))) == empty
    failed = beside(make(None, error="died"), LOAD)
    assert adjustment(result_of(failed, beside(make([]), LOAD))) == empty
    assert adjustment(Result((), "")) == empty


def test_processes_without_a_load_are_left_out() -> None:
    """The load died after 8 rounds: the later processes are neither adjusted nor counted."""
    whole = session(UNSTEADY, speed=LOAD)
    more = replace(whole, runs=(*whole.runs, *(make([9.9] * 3, round=i) for i in (8, 9))))
    assert adjustment(more) == adjustment(whole)


def test_processes_after_the_end_of_the_load_are_counted() -> None:
    """Only if the call had one: without a reference load nothing has ended."""
    complete = replace(session(UNSTEADY), payload=Latency(reference_load="version 1"))
    died = replace(complete, runs=(*complete.runs[:-3], *(replace(run, reference=()) for run in complete.runs[-3:])))
    assert adjustment(complete).without_load == 0
    assert adjustment(died).without_load == 3
    assert adjustment(replace(died, payload=Latency(reference_load=""))).without_load == 0


def test_the_interval_covers_the_latency_at_the_reference_speed() -> None:
    """In a session that was 15 % slow, too: there the error of the slope counts."""
    generator, trials, covered, used = np.random.default_rng(5), 300, 0, 0
    for _ in range(trials):
        slow = np.exp(generator.normal(math.log(1.15), 0.06, 10))
        noise = np.exp(generator.normal(0, 0.02, 20))
        found = adjustment(session([*slow], follows=0.85, noise=[*noise], speed=LOAD))
        if not found.refused:
            used += 1
            covered += found.latencies[0].low <= 0.1 <= found.latencies[0].high
    assert used > 0.9 * trials
    assert covered / used > 0.95 - binomial_error(0.95, used)


def test_sessions_of_one_call_are_adjusted_together() -> None:
    """With one slope and to one speed, so that their levels can be compared; few processes each are enough."""
    slow = [[factor * each for each in UNSTEADY[:4]] for factor in (1.0, 1.2, 1.4)]
    found = adjustments([session(each, follows=0.8) for each in slow])
    assert len({each.fit for each in found}) == 1
    adjusted = [each.latencies[0].value for each in found]
    assert max(adjusted) / min(adjusted) < 1.06
    assert [each.refused for each in found] == [None] * 3


def test_a_session_without_a_load_is_not_adjusted_with_the_others() -> None:
    """It says so, and does not keep them from it."""
    without = result_of(make([0.1] * 3))
    first, second = adjustments([session(UNSTEADY), without])
    assert (first.refused, second.refused) == (None, Unadjusted.NO_LOAD)
    assert (second.spread, second.latencies) == (None, {})


def test_the_time_of_the_load_beside_processes_is_their_geometric_mean() -> None:
    """It stands for the same processes as the level does."""
    runs = session([1.0, 4.0]).runs
    assert reference_seconds(runs) == pytest.approx(2 * LOAD)
    assert reference_seconds([make([0.1])]) is None


def test_the_interval_knows_that_the_prior_may_be_wrong() -> None:
    """Latencies follow the load by 0.6, not by 1, on a machine that is 5 % slow: 95 % of intervals cover the truth."""
    generator, trials, covered = np.random.default_rng(3), 600, 0
    for _ in range(trials):
        loads = 0.05 + 0.03 * generator.standard_normal(8)
        settings = [0.6 * loads + 0.008 * generator.standard_normal(8) for _ in range(2)]
        pairs = [list(zip(each.tolist(), loads.tolist())) for each in settings]
        found = fit_groups([("toy", each) for each in pairs], 0.0).interval(pairs[0])
        covered += found.low <= 1 <= found.high
    assert covered / trials >= 0.95 - binomial_error(0.95, trials)
