"""Checks of a sample: passed and failed if that is certain, else undecided, with how many more items would decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelzoo.frozen import replace
from modelzoo.records.partial import Row
from modelzoo.records.validity import Check
from modelzoo.validity.checks import more_items
from modelzoo.validity.rows import Rule, middle, ratio, share, shift

ACCURACY, KL = Rule("accuracy", ratio, "top1"), Rule("kl", share, "kl", highest=2.0)
DRIFT, BIAS = Rule("score_drift", middle, "x"), Rule("box_bias", shift, "x")


def accuracy(count: int, lost: int, **tolerance: float) -> Check:
    """fp32 is right on all pictures, the model under test on all but ``lost``."""
    rows = [Row(i, "", {"top1_reference": 1.0, "top1_tested": float(i >= lost)}) for i in range(count)]
    return ACCURACY.check(rows, tolerance)


def pictures(values: Sequence[Any], places: Sequence[int]) -> list[Row]:
    """Rows for the pictures ``places``, with the values of their objects: one for each, or four."""
    found: dict[int, list[float]] = {}
    for value, place in zip(np.atleast_2d(np.asarray(values).T).T.tolist(), places):
        found.setdefault(int(place), []).extend(value)
    return [Row(place, "", {"x": tuple(each)}) for place, each in found.items()]


def outcome(check: Check) -> str:
    return "passed" if check.passed else "undecided" if check.undecided else "failed"


@pytest.mark.parametrize(
    ("count", "lost", "expected"),
    [
        (400, 0, "passed"),
        (200, 0, "undecided"),  # the rule of three: 1.5 %
        (400, 2, "undecided"),  # 0.5 % is lost, and 1.6 % may be
        (2000, 8, "passed"),
        (400, 8, "undecided"),  # 2 % is lost, and 0.6 % may be
        (400, 40, "failed"),
    ],
)
def test_an_accuracy_passes_and_fails_only_if_that_is_certain(count: int, lost: int, expected: str) -> None:
    """A point estimate within the limit is not enough for either."""
    check = accuracy(count, lost)
    assert outcome(check) == expected
    assert check.bound < check.seen
    assert (check.more_items is not None) == (expected == "undecided")


@settings(max_examples=20, deadline=None)
@given(st.integers(20, 400).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count))))
def test_the_tolerance_that_would_have_passed_passes(pair: tuple[int, int]) -> None:
    """Giving would_pass_at back as --tolerance makes the check pass, and a slightly stricter one does not."""
    first = accuracy(*pair)
    assert accuracy(*pair, accuracy=first.would_pass_at).passed
    assert not accuracy(*pair, accuracy=first.would_pass_at + 2e-4).passed


def test_limits_from_above_are_compared_with_the_upper_bound() -> None:
    """The mean divergence of 1,000 pictures passes at 0.001, and fails at 0.02 if all of them have it."""
    for count, divergence, expected in ((1000, 0.001, "passed"), (1000, 0.02, "failed"), (100, 0.001, "undecided")):
        assert outcome(KL.check([Row(i, "", {"kl": divergence}) for i in range(count)], {})) == expected


def test_a_median_of_clustered_values() -> None:
    """Ten objects in each of 60 pictures: 0.004 passes, 0.05 fails, and halves on both sides are undecided."""
    places = np.repeat(np.arange(60), 10).tolist()
    mixed, most = ([0.025 if place % 5 < many else 0.01 for place in places] for many in (3, 2))
    for values, expected in (([0.004] * 600, "passed"), ([0.05] * 600, "failed"), (mixed, "undecided")):
        assert outcome(DRIFT.check(pictures(values, places), {})) == expected
    check = DRIFT.check(pictures(most, places), {})
    assert outcome(check) == "undecided" and 50 < check.more_items < 400


def test_a_shift_of_all_boxes_fails_and_jitter_does_not() -> None:
    """2 % to one side is a bias; as much jitter is none, but 10 pictures of it are too few to say so."""
    random = np.random.default_rng(0)
    places = np.repeat(np.arange(100), 5)
    jitter = random.normal(0, 0.02, (500, 4)) + random.normal(0, 0.01, (100, 4))[places]
    few = places < 10
    shifted = jitter + np.array([0.02, 0, 0.02, 0])
    assert outcome(BIAS.check(pictures(jitter, places), {})) == "passed"
    assert outcome(BIAS.check(pictures(shifted, places), {})) == "failed"
    undecided = BIAS.check(pictures(jitter[few], places[few]), {})
    assert outcome(undecided) == "undecided" and undecided.more_items
    assert outcome(BIAS.check(pictures([[0.0] * 4], [0]), {})) == "undecided"


def test_one_crowded_picture_among_many_is_one_picture() -> None:
    """Its 500 objects outweigh 30 others, so next to nothing is known about how shifts vary."""
    places = [0] * 500 + list(range(1, 31))
    check = BIAS.check(pictures([[0.001] * 4] * 530, places), {})
    assert (outcome(check), check.bound, check.more_items) == ("undecided", None, None)


def test_the_items_that_decide_all_checks() -> None:
    """The largest number, if all are known."""
    first, second = accuracy(200, 0), accuracy(100, 0)
    assert first.more_items == pytest.approx(100, abs=3), "300 in all, if none changes"
    assert more_items([first, second, accuracy(400, 0)]) == second.more_items
    assert more_items([first, replace(second, more_items=None)]) is None
    assert more_items([]) is None
