"""Design: components of variance are recovered, formulas agree with each other, and looks spend what they may."""

from __future__ import annotations

import math
from statistics import fmean, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import nested

from modelzoo import stats
from modelzoo.stats import Components, Looks, planned_looks, ratio_test
from modelzoo.stats.design import spending

TRUTH = Components(between=0.05**2, tau2=0.08**2)


def estimates(count: int, trials: int, **changes: float) -> list[Components]:
    """Estimates from ``trials`` calls of ``count`` simulated processes."""
    generator = np.random.default_rng(1)
    truth = {"between": TRUTH.between, "tau2": TRUTH.tau2, "sample": 0.05, **changes}
    return [stats.components(list(nested(generator, count, 4.0, **truth))) for _ in range(trials)]


def test_components_are_recovered() -> None:
    """Over many calls, both components are near the truth; the cut at 0 biases ``between`` upwards a little."""
    found = estimates(16, 60)
    assert 0.75 <= fmean(each.between for each in found) / TRUTH.between <= 1.25
    assert 0.9 <= fmean(each.tau2 for each in found) / TRUTH.tau2 <= 1.7


def test_processes_that_do_not_differ_have_no_negative_variance() -> None:
    """Half of the differences are negative: cut off at 0."""
    found = estimates(6, 60, between=0.0)
    assert min(each.between for each in found) == 0
    assert fmean(each.between for each in found) < 0.1 * TRUTH.tau2


def test_estimates_are_shrunk_towards_the_prior_by_degrees_of_freedom() -> None:
    """Three processes have two degrees of freedom: an estimate that counts for eight has four fifths of the weight."""
    processes = [[0.9] * 20, [1.0] * 20, [1.1] * 20]
    alone = stats.components(processes)
    spread = variance([math.log(samples[0]) for samples in processes])
    assert alone == Components(pytest.approx(spread), 0.0)
    assert stats.components(processes, Components(0.04, 0.0)).between == pytest.approx(0.2 * spread + 0.8 * 0.04)


def test_one_process_has_only_the_prior() -> None:
    """The spread between processes cannot be seen from one; without a prior that is an error."""
    found = stats.components([[1.0, 1.1] * 10], Components(0.04, 0.01))
    assert found.between == pytest.approx(0.04)
    assert found.tau2 != 0.01
    assert stats.components([], Components(0.04, 0.01)) == Components(0.04, 0.01)
    for few in ([[1.0, 1.1] * 10], [[1.0], [1.1]]):
        with pytest.raises(ValueError, match="two values, or an earlier estimate"):
            stats.components(few)


def test_settings_are_pooled() -> None:
    """One choice for all settings of a round: the mean of their variances counts."""
    assert stats.pooled([Components(0.01, 0.02), Components(0.03, 0.04)]) == Components(0.02, pytest.approx(0.03))


@pytest.mark.parametrize(
    ("sample", "found", "seconds"),
    [
        (0.0, Components(0.0, 0.01), 60),
        (0.0, Components(0.01, 0.0), 1),
        (0.0, Components(0.0, 0.0), 1),
        (0.0, Components(1.0, 1e-6), 1),
        (3.0, Components(0.01, 0.0), 15),
        (30.0, Components(0.01, 0.0), 60),
    ],
)
def test_the_time_per_process_is_limited(sample: float, found: Components, seconds: float) -> None:
    """Processes that do not differ sample as long as allowed, constant ones as short; five samples fit in."""
    assert stats.seconds_per_process(8.0, sample, found, (1, 60)) == seconds


@given(st.floats(1, 30), st.floats(1e-6, 0.05), st.floats(1e-6, 0.05), st.floats(0.1, 10))
def test_no_other_time_per_process_is_better(cost: float, between: float, tau2: float, factor: float) -> None:
    """At equal wall time, the variance of the mean is smallest at the chosen time."""
    found = Components(between, tau2)
    chosen = stats.seconds_per_process(cost, 0.0, found, (0.0, math.inf))
    value, other = ((found.between + found.tau2 / seconds) * (cost + seconds) for seconds in (chosen, chosen * factor))
    assert value <= other * (1 + 1e-9)


@pytest.mark.parametrize(("rounds", "difference"), [(2, 0.5), (3, 0.1), (4, 0.1), (8, 0.03), (8, 0.05), (16, 0.03)])
def test_the_power_is_how_often_simulated_rounds_show_a_difference(rounds: int, difference: float) -> None:
    """In their direction, within four standard errors of 20,000 simulations."""
    spread, trials = 0.03, 20_000
    drawn = np.random.default_rng(5).normal(math.log1p(difference), spread, (trials, rounds))
    t = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / math.sqrt(rounds))
    found = float((t > stats.student_t(0.99, rounds - 1)).mean())
    assert stats.power(spread, rounds, math.log1p(difference), 0.02) == pytest.approx(found, abs=0.014)
    assert 0.05 < found < 0.99


def test_one_round_has_no_power_and_rounds_that_do_not_differ_have_all_of_it() -> None:
    """Nor is there any beyond a bound that the difference does not reach."""
    assert stats.power(0.03, 1, 1.0, 0.02) == 0
    assert (stats.power(0.0, 4, 0.01, 0.02), stats.power(0.0, 4, 0.0, 0.02)) == (1, 0)
    assert stats.power(0.03, 16, -0.03, 0.02) < 1e-3


@pytest.mark.parametrize("difference", [0.005, 0.03, 0.5])
def test_the_fewest_rounds_tell_a_difference(difference: float) -> None:
    """One fewer would not."""
    rounds = stats.rounds_to_tell(0.04, difference, 0.02)
    assert stats.power(0.04, rounds, math.log1p(difference), 0.02) >= 0.8
    assert rounds == 2 or stats.power(0.04, rounds - 1, math.log1p(difference), 0.02) < 0.8


@pytest.mark.parametrize(
    ("minimum", "maximum", "planned"),
    [
        (8, 64, (8, 12, 16, 24, 32, 48, 64)),
        (8, 100, (8, 12, 16, 24, 32, 48, 64, 100)),
        (8, 33, (8, 12, 16, 24, 33)),
        (8, 10, (8, 10)),
        (8, 9, (9,)),
        (3, 3, (3,)),
        (3, 20, (3, 8, 12, 16, 20)),
        (8, 5, (5,)),
    ],
)
def test_looks_are_planned_from_the_minimum_to_the_maximum(
    minimum: int, maximum: int, planned: tuple[int, ...]
) -> None:
    """Each adds a third to a half of the rounds before it, and the last is not wasted."""
    assert planned_looks(minimum, maximum) == planned


def test_spending_goes_from_nothing_to_everything() -> None:
    """Half of the rounds spend 62 % (Lan and DeMets 1983)."""
    assert spending(0) == 0
    assert spending(0.5) == pytest.approx(0.6201, abs=1e-4)
    assert spending(1) == spending(1.5) == pytest.approx(1), "rounds beyond the maximum have nothing left to spend"


@given(st.integers(2, 12), st.integers(0, 200), st.integers(1, 300), st.booleans())
def test_looks_never_spend_more_than_everything(minimum: int, more: int, rounds: int, final: bool) -> None:
    """The shares of all looks that are taken add up to 1 at most, and to exactly 1 once sampling has ended."""
    looks = Looks(planned_looks(minimum, minimum + more), minimum + more, final)
    taken = looks.taken(rounds)
    total = math.fsum(share for _, share in taken)
    assert total <= 1 + 1e-12
    if final or rounds >= looks.maximum:
        assert total == pytest.approx(1)
    assert all(share > 0 and used <= rounds for used, share in taken)


def test_a_look_that_was_not_planned_is_taken_only_if_sampling_has_ended_by_itself() -> None:
    """At 10 rounds of a design with looks at 8 and 12: the first, or the first and the rest."""
    first = spending(8 / 16)
    assert Looks((8, 12, 16), 16).taken(10) == ((8, first),)
    assert Looks((8, 12, 16), 16, final=True).taken(10) == ((8, first), (10, 1 - first))
    assert Looks((8, 12, 16), 16, final=True).taken(8) == ((8, 1.0),)
    assert Looks((8, 12, 16), 16, final=True).taken(5) == ((5, 1.0),)
    assert Looks((8, 12, 16), 16).taken(5) == ()


def test_rounds_beyond_the_maximum_are_no_look() -> None:
    """The whole error has been spent at the maximum; more rounds narrow the interval, and divide nothing by zero."""
    looks = Looks((2, 4), 4, final=True)
    assert looks.taken(5) == looks.taken(4) == Looks((2, 4), 4).taken(5)
    a, b = [[1.0, 1.01], [1.0, 1.02], [1.01, 1.0], [1.0, 1.01], [1.0, 1.0]], [[2.0, 2.01]] * 5
    found, planned = (ratio_test(a[:end], b[:end], looks=looks) for end in (5, 4))
    assert found.p_value == planned.p_value
    assert 0 < found.interval.low < found.interval.high < 1
