"""Comparisons: intervals of ratios, and how often verdicts are wrong or missed."""

from __future__ import annotations

import math
from statistics import fmean, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import autoregressive, binomial_error, heavy_processes, levels

from modelzoo import stats
from modelzoo.stats import Doubt, Interval, LogRatio, Looks, Outcome, Ratio, Seen, Variance, Verdict

DIFFERENT = (Outcome.FASTER, Outcome.SLOWER)
MANY = Looks(stats.planned_looks(8, 32), 32)
NOISE = 0.05
"""Standard deviation of log medians in simulations; times sqrt(2) for the log ratio of a round."""


def compare(a: list[list[float]], b: list[list[float]], looks: Looks | None = None) -> tuple[Interval, Verdict]:
    """The ratio of two sides, and the verdict of a table that has no other row."""
    found = stats.ratio_test(a, b, looks)
    return found.interval, stats.verdicts([found])[0]


@pytest.mark.parametrize("rounds", [3, 8])
def test_ratio_intervals_cover_the_truth_as_often_as_they_claim(rounds: int) -> None:
    """95 %, within the error of the simulation."""
    generator, trials, covered = np.random.default_rng(5), 1200, 0
    for _ in range(trials):
        found = stats.ratio_test(levels(generator, rounds, NOISE), levels(generator, rounds, 3 * NOISE)).interval
        covered += found.low <= 1 <= found.high
    assert abs(covered / trials - 0.95) <= binomial_error(0.95, trials)


def test_drift_shared_by_both_sides_cancels() -> None:
    """In paired rounds, whatever slows down both processes of a round affects neither ratio nor interval."""
    generator = np.random.default_rng(1)
    drift = [1.0, 1.3, 1.8, 2.4, 3.0]
    a = [[d * x for x in autoregressive(generator, 50, 0.4, 0.003)] for d in drift]
    b = [[d * 1.05 * x for x in autoregressive(generator, 50, 0.4, 0.003)] for d in drift]
    ratio, verdict = compare(a, b)
    assert ratio.value == pytest.approx(1 / 1.05, rel=0.01)
    assert verdict.outcome == "SLOWER"
    assert compare(a, b[::-1])[1].outcome == "AMBIGUOUS", "rounds in the wrong order do not match"


def test_p_values_agree_with_a_published_example() -> None:
    """Student's own data, R's data set ``sleep``, as logarithms: 0.07939 unpaired and 0.002833 paired, as in R."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    a, b = ([[math.exp(each)] for each in side] for side in (first, second))
    assert stats.ratio_test(a, b).p_value == pytest.approx(0.002833, abs=5e-7)
    whole = stats.total([Variance(variance(side) / 10, 9) for side in (first, second)])
    unpaired = LogRatio(fmean(first) - fmean(second), math.sqrt(whole.value), whole.freedom)
    assert unpaired.p_value == pytest.approx(0.07939, abs=5e-6)
    found = unpaired.interval()
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((-3.3654832, 0.2054832), abs=1e-6)


@given(st.lists(st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)), min_size=2, max_size=12))
def test_swapping_the_sides_inverts_the_ratio(rounds: list[tuple[float, float]]) -> None:
    """The p-value stays, the ratio and its interval are inverted."""
    a, b = ([[each] for each in side] for side in zip(*rounds))
    found, other = stats.ratio_test(a, b), stats.ratio_test(b, a)
    assert other.p_value == pytest.approx(found.p_value, rel=1e-6)
    assert other.interval.value * found.interval.value == pytest.approx(1)
    assert other.interval.low * found.interval.high == pytest.approx(1)


@pytest.mark.parametrize("count", [3, 15])
def test_heavy_tails_cause_no_more_errors(count: int) -> None:
    """Heavy tails make intervals wider, not wrong: at least 90 % cover, and A against A is seldom told apart."""
    generator = np.random.default_rng(3)
    trials, covered, false = 120, 0, 0
    for _ in range(trials):
        a, b = heavy_processes(generator, count), heavy_processes(generator, count)
        ratio, verdict = compare(a, b)
        covered += ratio.low <= 1 <= ratio.high
        false += verdict.outcome in DIFFERENT
    assert covered / trials >= 0.9
    assert false / trials <= 0.05, "A against A must not be found different"


def table_is_wrong(generator: np.random.Generator, rows: int, looks: Looks, rounds: int) -> bool:
    """Whether any row of a table of equals, compared with one baseline, is called different."""
    baseline = levels(generator, rounds, NOISE)
    others = [levels(generator, rounds, NOISE) for _ in range(rows)]
    found = stats.verdicts([stats.ratio_test(baseline, other, looks=looks) for other in others])
    return any(verdict.outcome in DIFFERENT for verdict in found)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("looks", "rounds"), [(MANY, 32), (Looks(MANY.planned, 32, final=True), 14)])
def test_tables_of_equals_seldom_have_a_false_alarm(rows: int, looks: Looks, rounds: int) -> None:
    """At most 2 %, within the error of the simulation, whether all looks were taken or the time was up before."""
    generator, tables = np.random.default_rng(rows + rounds), 800
    wrong = sum(table_is_wrong(generator, rows, looks, rounds) for _ in range(tables)) / tables
    assert wrong <= 0.02 + binomial_error(0.02, tables)


@pytest.mark.parametrize(
    ("spread", "scale", "outcome", "most"), [(0.01, 1.0, "SAME", 32), (0.0106, 1.03, "SLOWER", 16)]
)
def test_a_call_that_stops_when_it_is_decided_is_right_and_in_time(
    spread: float, scale: float, outcome: str, most: float
) -> None:
    """Equals, and 3 % at a spread of 1.5 % between rounds: in 95 % of calls, and most at the first looks."""
    generator, trials, right, rounds_used = np.random.default_rng(13), 300, 0, 0
    for _ in range(trials):
        a, b = levels(generator, 32, spread), levels(generator, 32, spread, scale)
        for rounds in MANY.planned:
            found = compare(a[:rounds], b[:rounds], looks=MANY)[1].outcome
            if found is not Outcome.AMBIGUOUS:
                break
        right += found == outcome
        rounds_used += rounds
    assert right / trials >= 0.95
    assert rounds_used / trials <= most


@given(st.lists(st.floats(-0.2, 0.25), min_size=8, max_size=32))
def test_sequential_p_values_only_get_smaller(differences: list[float]) -> None:
    """A difference that was proven at a look remains proven."""
    a, b = [[1.0] for _ in differences], [[math.exp(each)] for each in differences]
    found = [stats.ratio_test(a[:n], b[:n], looks=MANY).p_value for n in range(8, len(differences) + 1)]
    assert found == sorted(found, reverse=True)


def test_equal_rounds_decide_without_doubt() -> None:
    """No spread: a constant difference is certain, no difference is none."""
    assert stats.ratio_test([[1.0]] * 3, [[2.0]] * 3).p_value == 0
    assert stats.ratio_test([[1.0]] * 3, [[1.0]] * 3).p_value == 1


def test_holm_corrects_the_smallest_most() -> None:
    """The example of four p-values; the order of the input is kept, and corrected values never cross."""
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([0.9, 0.8]) == [1.0, 1.0]


def found(
    low: float, high: float, p: float, outside: float = 1.0, value: float | None = None, decisive: float | None = None
) -> Ratio:
    """A comparison with this interval and these p-values."""
    value = math.sqrt(max(low, 1e-9) * min(high, 1e9)) if value is None else value
    decisive = math.log(value) if decisive is None else decisive
    return Ratio(Interval(value, low, high), p, outside, decisive, 8, (Seen(LogRatio(0.0, 0.05, 7)),))


@pytest.mark.parametrize(
    ("low", "high", "p", "outside", "outcome"),
    [
        (0.99, 1.01, 0.9, 0.001, "SAME"),
        (1 / 1.02, 1.02, 0.9, 0.02, "SAME"),
        (0.98, 1.02, 0.9, 0.02, "AMBIGUOUS"),
        (0.98, 1.02, 0.9, 0.021, "AMBIGUOUS"),
        (1.001, 1.019, 0.001, 0.001, "SAME"),
        (1.001, 1.021, 0.001, 0.001, "FASTER"),
        (1.001, 1.05, 0.02, 1.0, "FASTER"),
        (1.001, 1.05, 0.021, 1.0, "AMBIGUOUS"),
        (1.5, 2.0, 0.0, 1.0, "FASTER"),
        (0.9, 0.999, 0.02, 1.0, "SLOWER"),
        (0.97, 1.01, 0.2, 0.001, "AMBIGUOUS"),
        (0.5, 2.0, 1.0, 1.0, "AMBIGUOUS"),
        (0.0, math.inf, 1.0, 1.0, "AMBIGUOUS"),
        (1.2, math.inf, 0.0, 1.0, "AMBIGUOUS"),
    ],
)
def test_the_verdict_follows_from_interval_and_p_values(
    low: float, high: float, p: float, outside: float, outcome: str
) -> None:
    """Every verdict needs its p-value, and SAME the whole interval as well; none follows from the ratio alone."""
    verdict = stats.verdicts([found(low, high, p, outside)])[0]
    assert verdict.outcome == outcome
    assert (verdict.doubt is not None) == (verdict.outcome is Outcome.AMBIGUOUS)


def test_without_a_look_there_is_no_verdict() -> None:
    """However clear the rounds are: whoever ended them may have done so for that."""
    a, b = [[1.0 + i / 1000] for i in range(7)], [[2.0] for _ in range(7)]
    verdict = compare(a, b, MANY)[1]
    assert (verdict.outcome, verdict.doubt, verdict.rounds) == (Outcome.AMBIGUOUS, Doubt.FEW_ROUNDS, 7)


def test_what_later_rounds_contradict_is_ambiguous() -> None:
    """FASTER at the first look, slower than the baseline over all rounds."""
    verdict = stats.verdicts([found(0.9, 1.05, 0.01, 1.0, value=0.98, decisive=0.1)])[0]
    assert (verdict.outcome, verdict.doubt) == (Outcome.AMBIGUOUS, Doubt.CONTRADICTED)


@pytest.mark.parametrize(
    ("p_values", "outside", "expected"),
    [
        ([0.004], [0.01], [(0.004, 0.01)]),
        # Both in play: 2 parts each; SAME needs p (2 × 2 - 1) ≤ 0.02.
        ([0.5, 0.6], [0.005, 0.9], [(1.0, 0.015), (1.0, 1.0)]),
        # The first differs, and half a part of the error stays with it, as it may be outside: 1.5 remain for the other.
        ([0.001, 0.012], [1.0, 1.0], [(0.002, 1.0), (0.018, 1.0)]),
        # The first differs and is not outside, so nothing can be wrong with it any more: 1 remains.
        ([0.001, 0.012], [0.001, 1.0], [(0.002, 0.003), (0.012, 1.0)]),
        ([], [], []),
    ],
)
def test_the_error_is_divided_among_what_may_still_be_true(
    p_values: list[float], outside: list[float], expected: list[tuple[float, float]]
) -> None:
    """By hand; of each comparison one hypothesis is true at most."""
    given = [found(0.9, 1.1, *each) for each in zip(p_values, outside)]
    values = [value for each in stats.corrected(given) for value in each]
    assert values == pytest.approx([value for each in expected for value in each])


def test_a_table_is_corrected_together() -> None:
    """p = 0.013 suffices alone, and not beside another row, unless that is certainly different."""
    alone, strong = found(1.01, 1.1, 0.013), found(1.5, 1.6, 1e-6)
    assert stats.verdicts([alone])[0].outcome is Outcome.FASTER
    both = stats.verdicts([alone, found(0.9, 1.1, 0.5)])
    assert (both[0].outcome, both[0].doubt, both[0].table) == (Outcome.AMBIGUOUS, Doubt.CHANCE, 2)
    assert both[0].p_value == pytest.approx(0.026)
    beside_a_certain_one = stats.verdicts([alone, strong])
    assert [each.outcome for each in beside_a_certain_one] == ["FASTER", "FASTER"]
    assert beside_a_certain_one[1].p_value == pytest.approx(2e-6)
