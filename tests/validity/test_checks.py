"""How a metric changed, of all items and by class: intervals, the smallest loss, broken classes, no alarms."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from modelzoo.frozen import replace
from modelzoo.records.partial import Row
from modelzoo.records.validity import MetricChange
from modelzoo.validity.checks import (
    SIGNIFICANCE,
    certain_loss,
    check_value,
    class_changes,
    class_checks,
    lost_items,
    with_allowed_losses,
)
from modelzoo.validity.rows import Metric

F1 = MetricChange("f1", 0.92, 0.917, -0.011, 0.005, 0.016, 0.03, 42, 3, 1, None, 0.03)


def changed(
    reference: list[float], tested: list[float], clusters: list[int] | None = None, *, right_or_wrong: bool = False
) -> MetricChange | None:
    """How a metric changed, from the scores of the items."""
    rows = [
        Row(i, "", {"f1_reference": a, "f1_tested": b}, cluster=f"c{clusters[i]}" if clusters else "")
        for i, (a, b) in enumerate(zip(reference, tested))
    ]
    return Metric("f1", right_or_wrong=right_or_wrong).change(rows)


def agreed(objects: list[float], common: list[float]) -> MetricChange | None:
    """How an agreement changed, from the objects of pictures."""
    rows = [Row(i, "", {"objects": a, "common": b}) for i, (a, b) in enumerate(zip(objects, common))]
    return Metric("detection_agreement", of="common", per="objects").change(rows)


def test_42_questions_without_a_change_show_no_loss_under_7_points() -> None:
    """The interval is not empty: what would hit one question in 14 may have hit none of these."""
    found = changed([1.0] * 40 + [0.0] * 2, [1.0] * 40 + [0.0] * 2)
    assert (found.change, found.items, found.worse, found.better) == (0.0, 42, 0, 0)
    assert found.detectable_loss == pytest.approx(3 / 42)
    assert found.possible_loss == pytest.approx(1 - 0.05 ** (1 / 42), rel=0.05)
    assert found.low == pytest.approx(-(1 - 0.025 ** (1 / 42)), rel=0.05)
    assert found.high == pytest.approx(-found.low)


def test_questions_on_the_same_passage_are_one_cluster() -> None:
    """42 questions on 8 passages, none of them changed: a loss of 31 points would not show."""
    passages = [index % 8 for index in range(42)]
    found = changed([1.0] * 42, [1.0] * 42, passages)
    assert found.possible_loss == pytest.approx(1 - 0.05 ** (1 / 8), rel=0.06)
    assert found.detectable_loss == pytest.approx(3 / 8, rel=0.02)
    grouped = changed([1.0] * 42, [float(passage > 0) for passage in passages], passages)
    single = changed([1.0] * 42, [float(passage > 0) for passage in passages])
    assert grouped.change == single.change == pytest.approx(-6 / 42)
    assert grouped.worse == single.worse == 6
    assert grouped.low < single.low - 0.1
    assert changed([1.0] * 5, [1.0] * 5, [0] * 5) is None


def test_right_and_wrong_items_have_mcnemars_p_value() -> None:
    """Six got worse and none better: 2 / 2⁶."""
    found = changed([1.0] * 100, [0.0] * 6 + [1.0] * 94, right_or_wrong=True)
    assert (found.worse, found.better, found.p_value) == (6, 0, pytest.approx(2 / 64))
    assert found.low < -0.06 < found.high == pytest.approx(-0.013, abs=0.015)


def test_an_agreement_is_of_objects_and_cannot_rise() -> None:
    """9 of 10 in common in one picture and 1 of 1 in the other is 10 of 11; fp32 is its own reference."""
    found = agreed([10.0, 1.0], [9.0, 1.0])
    assert (found.reference, found.tested, found.items) == (1.0, 10 / 11, 2)
    found = agreed([1.0] * 50, [1.0] * 50)
    assert found.low < -0.05 < found.high == 0.0


@pytest.mark.parametrize("objects", [[1.0], [], [0.0, 0.0]])
def test_one_item_has_no_interval(objects: list[float]) -> None:
    """Neither have pictures without objects."""
    assert agreed(objects, objects) is None


def test_the_allowed_loss_follows_from_the_threshold_in_force() -> None:
    """1 % of 0.9 is 0.9 points; a metric without threshold has none."""
    checks = [check_value("accuracy", 1.0, {})]
    top1, top5 = replace(F1, metric="top1", reference=0.9), replace(F1, metric="top5", allowed_loss=None)
    found = with_allowed_losses([top1, top5], checks, "top1")
    assert found[0].allowed_loss == pytest.approx(0.009)
    assert found[1].allowed_loss is None
    (strict,) = with_allowed_losses([top1], [check_value("accuracy", 1.0, {"accuracy": 1.0})], "top1")
    assert strict.allowed_loss == 0


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


def test_gains_are_no_losses_and_fractions_count_as_nothing() -> None:
    """0.4 of an item is lost in one class, and the other gained; a class of four items is not tested."""
    few = class_changes(items("few", 4, 4, 0), 0.1)
    assert [(each.loss, each.p_value, each.broken) for each in few] == [(1.0, None, False)]
    assert class_checks(few, {}) == []
    changes = class_changes([*items("better", 9, 3, 6), *[item("worse", 1.0, 0.96) for _ in range(10)]], 0.1)
    assert [(each.name, lost_items(each), certain_loss(each, 0.01)) for each in changes] == [
        ("worse", 0, 0.0),
        ("better", 0, 0.0),
    ]
    (check,) = class_checks(changes, {})
    assert (check.seen, check.passed, check.about) == (0.0, True, None)
