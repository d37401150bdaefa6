"""Counting inside the window, stragglers, instances that died, scaling, the frontier and the best configuration."""

from __future__ import annotations

import random

import pytest
from instances import configuration, ran, result, series
from instances import placement as placed

from modelzoo.frozen import replace
from modelzoo.records.machine import Placement
from modelzoo.records.race import Exclusion, ExclusionKind, MachinePrice, Stage, StageKind
from modelzoo.records.run import Result
from modelzoo.records.serving import LatencyBound
from modelzoo.results import throughput as results
from modelzoo.results.counting import RoundError, count, rate, stragglers, uncertainty
from modelzoo.results.proof import InstanceKernels, instance_kernels, instance_placement
from modelzoo.stats.race import Choice


def test_only_the_time_in_which_all_ran_counts() -> None:
    """One instance started late, another one ended early; of one alone, whole batches only."""
    window, latencies = count([series(1.0, 20, start=0.0), series(1.0, 20, start=5.3), series(1.0, 12, start=0.25)])
    assert (window, [*map(len, latencies)]) == (pytest.approx(12.25 - 6.3), [6, 5, 6])
    window, latencies = count([series(0.1, 51)])
    assert (window, latencies[0]) == (pytest.approx(5.0), pytest.approx([0.1] * 50))


def test_the_total_is_off_by_less_than_a_batch_per_instance_and_unbiased() -> None:
    """Of instances of any speed and phase, against the work that was really done in the window."""
    source = random.Random(3)
    errors = []
    for _ in range(300):
        speeds = [source.uniform(0.05, 0.15) for _ in range(4)]
        instances = [series(speed, 80, start=source.uniform(0, 0.2)) for speed in speeds]
        window, latencies = count(instances)
        true = sum(window / speed for speed in speeds)
        errors.append(sum(map(len, latencies)) - true)
    assert max(map(abs, errors)) < 4
    assert abs(sum(errors) / len(errors)) < 0.2


@pytest.mark.parametrize("batches", [0, 1])
def test_without_a_common_stretch_nothing_is_counted(batches: int) -> None:
    """An instance that completed at most one batch opens no window."""
    assert count([series(0.1, 50), series(0.1, batches)]) == (None, ((), ()))
    assert count([]) == (None, ())
    assert count([series(0.1, 5), series(0.1, 5, start=10.0)])[0] is None, "they did not run at the same time"


def test_throughput_is_items_by_the_window_and_no_sum_of_averages() -> None:
    """An instance that runs alone for a while afterwards adds nothing."""
    own = configuration(2, batch=4)
    run = ran(0, own, 0, [0.1, 0.2])
    alone = series(0.1, 100)
    assert [*map(len, count([alone, series(0.2, 10)])[1])] == [18, 9]
    assert rate(run, 4) == pytest.approx(4 * (10 + 5), rel=0.02)
    assert uncertainty(run) == pytest.approx(2 / run.counted)


def test_a_straggler_is_named() -> None:
    """It is far behind the median, and by more than counting can be off."""
    own = configuration(4)
    assert stragglers(ran(0, own, 0, [0.1, 0.1, 0.1, 0.13])) == {3: pytest.approx(0.77, abs=0.02)}
    assert stragglers(ran(0, own, 0, [0.1, 0.1, 0.1, 0.103])) == {}
    assert stragglers(ran(0, own, 0, [2.0, 2.0, 2.0, 2.6])) == {}, "4 batches and 3 prove nothing"
    assert stragglers(ran(0, configuration(1), 0, [0.1])) == {}


def test_a_round_in_which_an_instance_died_counts_for_nothing() -> None:
    """It is named; the other rounds give the throughput."""
    own = configuration(2)
    died = ran(0, own, 1, [0.1, 0.1], errors={1: "the worker process was ended by SIGKILL"})
    (row,) = results.rows(result([own], [ran(0, own, 0, [0.1, 0.1]), died, ran(0, own, 2, [0.1, 0.1])]))
    assert (row.rounds, row.failed) == (2, 1)
    assert row.errors == (RoundError("the worker process was ended by SIGKILL", ((1, 1),)),)
    assert row.throughput.value == pytest.approx(20, rel=0.02)


def test_scaling_is_the_ratio_within_rounds() -> None:
    """A machine that is slower in one round slows both; the single instance with as many cores comes first."""
    one, large, many = configuration(1), configuration(1, cores=4), configuration(4)
    runs = []
    for number, factor in enumerate((1.0, 1.3, 0.8)):
        runs += [ran(0, one, number, [0.1 * factor]), ran(1, large, number, [0.03 * factor])]
        runs += [ran(2, many, number, [0.125 * factor] * 4)]
    single, _, scaled = results.rows(result([one, large, many], runs))
    assert single.scaling is None
    assert (scaled.scaling.value, scaled.efficiency) == pytest.approx((3.2, 0.8), rel=0.03)
    assert scaled.scaling.half_width < 0.05
    others = [replace(run, configuration=run.configuration - 1) for run in runs[1:3]]
    _, scaled = results.rows(result([large, many], others))
    assert (scaled.scaling is None, scaled.efficiency) == (False, None), "that single instance has other cores"


def test_the_best_configuration_meets_the_bound() -> None:
    """The fastest of all may be over it; without enough samples a bound is not met, but few suffice to be over it."""
    small, large = own = [configuration(4), configuration(4, batch=8)]
    runs = [run for n in range(2) for run in (ran(0, small, n, [0.05] * 4), ran(1, large, n, [0.2] * 4))]
    assert results.best(results.rows(result(own, runs)), None).configuration is large
    bounds = (LatencyBound(95, 0.1), LatencyBound(99.99, 0.1), LatencyBound(99.99, 0.01))
    found = [(bound, results.rows(result(own, runs, bound))) for bound in bounds]
    assert [[row.meets for row in rows] for _, rows in found][:2] == [[True, False], [None, None]]
    assert [[row.is_over for row in rows] for _, rows in found][1:] == [[False, True], [True, True]]
    best, possible, none = (results.best(rows, bound) for bound, rows in found)
    assert (best.configuration, possible.configuration, none) == (small, small, None), "it may meet the bound"
    assert possible.judged.more_samples == 10_000 - possible.samples // 2


def again(*seconds: float, rounds: int = 3) -> Result:
    """Two configurations, the second 3 % faster in the rounds that chose it, and its confirmation with these times."""
    own = [configuration(1), configuration(4)]
    runs = [run for n in range(rounds) for run in (ran(0, own[0], n, [0.1]), ran(1, own[1], n, [0.097] * 4))]
    runs += [ran(1, own[1], rounds + n, [each] * 4) for n, each in enumerate(seconds)]
    planned = Stage(StageKind.CONFIRMATION, (0, 1), rounds, None, rounds)
    return result(own, runs, stages=(planned,), choice=Choice(1, 1))


def test_what_is_recommended_is_what_was_measured_again() -> None:
    """The rounds that chose it say nothing of its throughput, and the confirmation nothing of the others."""
    found = again(0.1, 0.101, 0.102)
    recommended = results.recommendation(found)
    assert recommended.backing == "confirmed"
    assert recommended.row.index == 1
    assert recommended.row.rounds == 3
    assert recommended.row.throughput.value == pytest.approx(4 / 0.101, rel=0.02)
    assert [row.rounds for row in results.rows(found)] == [3, 3]
    assert [(row.index, row.rounds) for row in results.confirmed(found)] == [(1, 3), (0, 0)]


def test_what_was_not_measured_again_is_not_confirmed() -> None:
    """Because the call was interrupted before; a single configuration needs no confirmation."""
    for found in (again(), replace(again(), payload=replace(results.of(again()), stages=()))):
        recommended = results.recommendation(found)
        assert recommended.backing == "unconfirmed"
        assert recommended.row.index == 1
        assert results.confirmed(found) == []
    own = configuration(2)
    sole = results.recommendation(result([own], [ran(0, own, n, [0.1, 0.1]) for n in range(2)]))
    assert sole.backing == "sole"


def test_ties_are_what_the_rounds_do_not_tell_apart() -> None:
    """By the ratio within rounds, however much the rounds themselves differ."""
    own = [configuration(4) for _ in range(3)]
    runs = []
    for number, factor in enumerate((1.0, 1.3, 0.8)):
        wobble = 1.0 + 0.02 * (number - 1)
        for index, seconds in enumerate((0.1, 0.1005 * wobble, 0.11)):
            runs.append(ran(index, own[index], number, [seconds * factor] * 4, duration=60.0))
    recommended = results.recommendation(result(own, runs))
    assert recommended.row.index == 0
    assert [row.index for row in recommended.ties] == [1]


def test_of_configurations_that_are_tied_the_one_with_the_fewest_instances_wins() -> None:
    """If it is at most 2 % slower: noisy rounds tell nothing apart."""
    own = [configuration(4), configuration(2, cores=2)]
    for behind, winner in ((0.995, 1), (0.9, 0)):
        runs = []
        for number, wobble in enumerate((0.9, 1.0, 1.1)):
            runs.append(ran(0, own[0], number, [0.1] * 4, duration=60.0))
            runs.append(ran(1, own[1], number, [0.05 / behind * wobble] * 2, duration=60.0))
        recommended = results.recommendation(result(own, runs))
        assert (recommended.row.index, [row.index for row in recommended.ties]) == (winner, [1 - winner])


def test_of_a_search_only_the_last_stage_counts_for_what_was_in_it() -> None:
    """The rounds before decided that it was; what was dropped there keeps its own."""
    own = [configuration(2), configuration(4)]
    runs = [ran(0, own[0], 0, [0.05] * 2), ran(1, own[1], 0, [0.2] * 4), ran(0, own[0], 1, [0.1] * 2)]
    stages = [Stage(StageKind.SEARCH, (0, 1), 1, None, 0), Stage(StageKind.SEARCH, (0,), 1, None, 1)]
    slower = Exclusion(1, ExclusionKind.SLOWER)
    found = result(own, runs, is_search=True, stages=tuple(stages), excluded=(slower,))
    rows = results.rows(found)
    assert rows[0].rounds == 1
    assert rows[0].throughput.value == pytest.approx(20, rel=0.02)
    assert rows[1].rounds == 1
    assert (rows[1].is_final, rows[1].exclusion) == (False, slower)


def test_the_throughput_of_a_language_model_is_in_tokens() -> None:
    """Each prompt of a batch gives as many as it generates; a million of them have a price."""
    own = configuration(2)
    runs = [ran(0, own, number, [0.1, 0.1]) for number in range(3)]
    price = MachinePrice(3.6, "USD")
    (prompts,), (tokens,) = (
        results.rows(found := result([own], runs, price=price, per_item=per_item)) for per_item in (1, 32)
    )
    assert tokens.throughput.value == pytest.approx(32 * prompts.throughput.value)
    cost = results.cost_per_million(results.of(found), tokens)
    assert cost.value == pytest.approx(3.6 / 3600 / tokens.throughput.value * 1e6)


def test_the_proof_is_of_every_instance() -> None:
    """Kernels as audited, own CPUs, memory on their node; otherwise it is said of how many."""
    own = configuration(2)
    run = ran(0, own, 0, [0.1, 0.1])
    found = result([own], [run])
    (row,) = results.rows(found)
    assert instance_kernels(results.context(found, 0), results.instances_of(results.of(found), row)) == InstanceKernels(
        2, False
    )
    proven = instance_placement(results.instances_of(results.of(found), row))
    assert (proven.instances, proven.elsewhere, proven.unproven) == (2, 0, ())
    first, second = run.instances
    far, lost = (
        instance_placement((first, replace(second, placement=each)))
        for each in (placed(second.place, elsewhere=400_000), Placement((3,), (0,)))
    )
    assert [each.local_share for each in far.unproven] == [pytest.approx(0.6)]
    assert lost.elsewhere == 1
