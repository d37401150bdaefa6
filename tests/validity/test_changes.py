"""How a metric changed: intervals and the smallest loss of planted data."""

from __future__ import annotations

import pytest

from modelzoo.frozen import replace
from modelzoo.records.partial import Row
from modelzoo.records.validity import MetricChange
from modelzoo.validity.changes import with_allowed_losses
from modelzoo.validity.checks import check_value
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
