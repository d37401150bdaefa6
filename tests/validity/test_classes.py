"""Losses by class: a broken class under an unchanged mean is found, and noise is not."""

from __future__ import annotations

from itertools import count

import numpy as np

from modelzoo.records.partial import Row
from modelzoo.validity.changes import SIGNIFICANCE, certain_loss, class_changes, class_checks, lost_items

INDICES = count()


def item(name: str, reference: float, tested: float) -> Row:
    """An item of a class that is independent of all others."""
    return Row(next(INDICES), "", {}, classes={name: (reference, tested)})


def items(name: str, size: int, right: int, kept: int) -> list[Row]:
    """``size`` items, of which fp32 has the first ``right`` right and the model under test the first ``kept``."""
    return [item(name, float(i < right), float(i < kept)) for i in range(size)]


def unchanged_mean() -> list[Row]:
    """Of 20 classes one lost 19 of 20 items, and the 19 others gained one each."""
    others = [each for number in range(19) for each in items(f"class {number}", 20, 15, 16)]
    return [*others, *items("broken", 20, 19, 0)]


def test_the_tolerance_is_the_loss_that_a_class_may_have() -> None:
    """With the value at which the check would have passed it passes, and no class is called broken."""
    (check,) = class_checks(class_changes(unchanged_mean(), 0.1), {})
    for limit, passes in ((check.would_pass_at, True), (check.would_pass_at - 0.001, False), (0.0, False), (1.0, True)):
        changes = class_changes(unchanged_mean(), limit)
        assert class_checks(changes, {"class_loss": limit})[0].passed is passes
        assert any(each.broken for each in changes) is not passes


def test_classes_that_all_lose_as_much_as_is_allowed_are_not_flagged() -> None:
    """The worst case that is still within the threshold: 1 % of the tables may be flagged, 200 are simulated."""
    random = np.random.default_rng(3)
    alarms = 0
    for _ in range(200):
        lost = random.binomial(50, 0.1, 10)
        found = class_changes([i for n, k in enumerate(lost) for i in items(str(n), 50, 50, 50 - int(k))], 0.1)
        alarms += found[0].broken
    assert alarms / 200 <= SIGNIFICANCE + 0.022  # three standard errors of the simulation


def test_a_class_of_few_items_is_listed_but_not_tested() -> None:
    """Four items, all of them lost: there is no p-value, and no check."""
    changes = class_changes(items("few", 4, 4, 0), 0.1)
    assert [(each.name, each.loss, each.p_value, each.broken) for each in changes] == [("few", 1.0, None, False)]
    assert class_checks(changes, {}) == []


def test_gains_are_no_losses_and_fractions_count_as_nothing() -> None:
    """0.4 of an item is lost in one class, and the other gained."""
    changes = class_changes([*items("better", 9, 3, 6), *[item("worse", 1.0, 0.96) for _ in range(10)]], 0.1)
    assert [(each.name, lost_items(each), certain_loss(each, 0.01)) for each in changes] == [
        ("worse", 0, 0.0),
        ("better", 0, 0.0),
    ]
    (check,) = class_checks(changes, {})
    assert (check.seen, check.passed, check.about) == (0.0, True, None)
