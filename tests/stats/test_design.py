"""Design: components of variance are recovered from simulated processes, and formulas agree with each other."""

from __future__ import annotations

import math
from statistics import fmean, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import nested

from modelzoo import stats
from modelzoo.stats import Components, Costs

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
    ("costs", "found", "seconds"),
    [
        (Costs(8.0), Components(0.0, 0.01), 60),
        (Costs(8.0), Components(0.01, 0.0), 1),
        (Costs(8.0), Components(0.0, 0.0), 1),
        (Costs(8.0), Components(1.0, 1e-6), 1),
        (Costs(8.0, sample=3.0), Components(0.01, 0.0), 15),
        (Costs(8.0, sample=30.0), Components(0.01, 0.0), 60),
    ],
)
def test_the_time_per_process_is_limited(costs: Costs, found: Components, seconds: float) -> None:
    """Processes that do not differ sample as long as allowed, constant ones as short; five samples fit in."""
    assert stats.seconds_per_process(costs, found, (1, 60)) == seconds


@given(st.floats(1, 30), st.floats(1e-6, 0.05), st.floats(1e-6, 0.05), st.floats(0.1, 10))
def test_no_other_time_per_process_is_better(cost: float, between: float, tau2: float, factor: float) -> None:
    """At equal wall time, the variance of the mean is smallest at the chosen time."""
    found = Components(between, tau2)
    chosen = stats.seconds_per_process(Costs(cost), found, (0.0, math.inf))
    value, other = (found.variance(seconds) * (cost + seconds) for seconds in (chosen, chosen * factor))
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
