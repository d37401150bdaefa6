"""How a metric changed: intervals and the smallest loss of planted data, and the sentence about them."""

from __future__ import annotations

import pytest

from modelzoo.frozen import replace
from modelzoo.records.validity import MetricChange
from modelzoo.validity import TaskContext, ValidityRequest
from modelzoo.validity.average_precision import AP_NAMES, Evaluation
from modelzoo.validity.changes import (
    ap_change,
    change_tables,
    interval_text,
    item_change,
    resolution,
    with_allowed_losses,
)
from modelzoo.validity.thresholds import check_value, one_item_of

F1 = MetricChange("f1", 0.92, 0.917, -0.011, 0.005, 0.016, 42, 3, 1, None, 0.03)


def test_42_questions_without_a_change_show_no_loss_under_7_points() -> None:
    """The interval is not empty: what would hit one question in 14 may have hit none of these."""
    found = item_change("f1", [1.0] * 40 + [0.0] * 2, [1.0] * 40 + [0.0] * 2)
    assert found is not None
    assert (found.change, found.items, found.worse, found.better) == (0.0, 42, 0, 0)
    assert found.detectable_loss == pytest.approx(3 / 42)
    assert found.low == pytest.approx(-3 / 42, rel=0.1)
    assert found.high == pytest.approx(2 / 42)  # only two could get better


def test_right_and_wrong_items_have_mcnemars_p_value() -> None:
    """Six got worse and none better: 2 / 2⁶."""
    found = item_change("top1", [1.0] * 100, [0.0] * 6 + [1.0] * 94, right_or_wrong=True)
    assert found is not None
    assert (found.worse, found.better, found.p_value) == (6, 0, pytest.approx(2 / 64))
    assert found.low < -0.06 < found.high == pytest.approx(-0.013, abs=0.015)


def test_an_agreement_cannot_rise() -> None:
    """The interval ends at 0 if fp32 is its own reference."""
    found = item_change("top1_agreement", [1.0] * 50, [1.0] * 50)
    assert found is not None
    assert found.high == 0.0
    assert found.low < -0.05


def test_items_of_different_sizes_are_weighed() -> None:
    """9 of 10 objects in common in one picture and 1 of 1 in the other is 10 of 11."""
    found = item_change("detection_agreement", [10.0, 1.0], [9.0, 1.0], sizes=[10.0, 1.0])
    assert found is not None
    assert (found.reference, found.tested) == (1.0, 10 / 11)
    assert found.items == 2


@pytest.mark.parametrize(("reference", "sizes"), [([1.0], None), ([], None), ([0.0, 0.0], [0.0, 0.0])])
def test_one_item_has_no_interval(reference: list[float], sizes: list[float] | None) -> None:
    """Neither have pictures without objects."""
    assert item_change("f1", reference, reference, sizes=sizes) is None


def test_a_set_without_an_ap_has_no_change() -> None:
    """Nothing detected by fp32, or no annotated objects."""
    nothing = Evaluation(dict.fromkeys(AP_NAMES, 0.0), 10, {})
    assert ap_change("box_ap", nothing, nothing) is None


def test_the_allowed_loss_follows_from_the_threshold_in_force() -> None:
    """99 % of 0.9 less one item of 100 is 1.9 points; a metric without threshold has none."""
    checks = [check_value("accuracy", 1.0, {}, one_item_of(100, 0.9))]
    top1, top5 = replace(F1, metric="top1", reference=0.9), replace(F1, metric="top5", allowed_loss=None)
    found = with_allowed_losses([top1, top5], checks)
    assert found[0].allowed_loss == pytest.approx(0.019)
    assert found[1].allowed_loss is None
    (strict,) = with_allowed_losses([top1], [check_value("accuracy", 1.0, {"accuracy": 1.0})])
    assert strict.allowed_loss == 0


def test_the_sentence_says_what_cannot_be_seen() -> None:
    """And, if the predictions passed and the interval reaches beyond the threshold, that they may be worse."""
    text = "F1 -0.3 points [-1.1, +0.5]; losses under 1.6 points cannot be seen with these 42 questions"
    assert resolution(F1, "questions", passed=True) == text
    small = replace(F1, low=-0.05)
    warned = resolution(small, "questions", passed=True)
    assert warned.endswith("; the loss is within the threshold of 3.0 points, but a larger one is possible")
    assert "threshold" not in resolution(small, "questions", passed=False)


@pytest.mark.parametrize(
    ("detectable", "text"),
    [
        (0.2, "-0.3 points [-1.1, +0.5]"),
        (0.005, "-0.30 points [-1.10, +0.50]"),
        (4e-4, "-0.300 points [-1.100, +0.500]"),
    ],
)
def test_large_sets_get_more_digits(detectable: float, text: str) -> None:
    """As many as the smallest loss that is seen needs."""
    assert interval_text(replace(F1, detectable_loss=detectable)) == text


def test_the_table_shows_every_metric() -> None:
    """With a dash for what is not known."""
    ap = replace(F1, metric="box_ap", worse=None, better=None, allowed_loss=None)
    context = TaskContext("toy", ValidityRequest(), tested_name="bf16")
    (table,) = change_tables([F1, replace(ap, p_value=0.031)], "questions", context)
    assert table.rows == (
        ("F1", "-0.3 [-1.1, +0.5]", "3", "1", "–", "1.6", "3.0"),
        ("box AP", "-0.3 [-1.1, +0.5]", "–", "–", "0.031", "1.6", "–"),
    )
    assert "bf16 minus fp32" in table.note
    assert change_tables([], "questions", context) == ()
