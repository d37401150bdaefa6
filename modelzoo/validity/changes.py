"""How a metric changed between the two models: its interval, and the smallest loss that the data set shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from modelzoo.frozen import replace
from modelzoo.records.validity import Check, MetricChange, Table
from modelzoo.stats import student_t
from modelzoo.validity import average_precision as ap
from modelzoo.validity import paired
from modelzoo.validity.protocol import TaskContext

TITLES = {
    "top1": "top-1 accuracy",
    "top5": "top-5 accuracy",
    "top1_agreement": "top-1 agreement",
    "em": "exact match",
    "f1": "F1",
    "box_ap": "box AP",
    "mask_ap": "mask AP",
    "detection_agreement": "objects in common",
}
"""What tables call the metrics."""
THRESHOLDS = {
    "top1": "accuracy",
    "f1": "accuracy",
    "box_ap": "accuracy",
    "mask_ap": "mask_ap",
    "top1_agreement": "top1_agreement",
    "detection_agreement": "detection_agreement",
}
"""The threshold that limits the loss of a metric, if there is one. All of these are ratios to fp32's value."""


def item_change(
    metric: str,
    reference: Sequence[float],
    tested: Sequence[float],
    *,
    sizes: Optional[Sequence[float]] = None,
    right_or_wrong: bool = False,
) -> Optional[MetricChange]:
    """Compare a metric that is a mean over items; ``None`` with fewer than two.

    Args:
        reference: score of each item in fp32, from 0 to 1, or to the item's size. tested: under test.
        sizes: size of each item, if the metric is sum(scores) ÷ sum(sizes).
        right_or_wrong: whether every score is 0 or 1 and the models can err in either direction.
    """
    count = len(reference)
    total = float(count) if sizes is None else sum(sizes)
    if count < 2 or not total:
        return None
    differences = [b - a for a, b in zip(reference, tested)]
    first, second = sum(reference) / total, sum(tested) / total
    worse, better = sum(each < 0 for each in differences), sum(each > 0 for each in differences)
    low, high = paired.difference_interval(differences, sizes)
    return _bounded(
        MetricChange(
            metric,
            first,
            second,
            low,
            high,
            paired.detectable_loss(paired.standard_error(differences, sizes), total),
            count,
            worse,
            better,
            paired.mcnemar(worse, better) if right_or_wrong else None,
        )
    )


def ap_change(metric: str, reference: ap.Evaluation, tested: ap.Evaluation) -> Optional[MetricChange]:
    """Compare the AP of both models; ``None`` if fp32 has none, or with fewer than two pictures.

    The interval is Student's t with the standard error of the paired bootstrap over pictures, to whose variance that
    of one lost and one new object is added, as ``paired.difference_interval`` adds two items.
    """
    first, second = reference.figures["ap"], tested.figures["ap"]
    objects = sum(float(each.objects.sum()) for each in reference.categories.values())
    if reference.pictures < 2 or not objects or first <= 0:
        return None
    error = ap.standard_error(reference, tested)
    quantile = student_t((1 + paired.CONFIDENCE) / 2, reference.pictures - 1)
    width = quantile * math.sqrt(error**2 + 2 / objects**2)
    change = second - first
    detectable = paired.detectable_loss(error, objects)
    found = MetricChange(metric, first, second, change - width, change + width, detectable, reference.pictures)
    return _bounded(found)


def _bounded(found: MetricChange) -> MetricChange:
    """The interval within what is possible: the tested metric is from 0 to 1, and the observed change is inside."""
    low = min(found.change, max(found.low, -found.reference))
    high = max(found.change, min(found.high, 1 - found.reference))
    return replace(found, low=low, high=high, detectable_loss=min(found.detectable_loss, 1.0))


def with_allowed_losses(changes: Sequence[MetricChange], checks: Sequence[Check]) -> tuple[MetricChange, ...]:
    """Fill in the largest loss within the threshold that is in force for each metric."""
    required = {check.name: check.required for check in checks}
    return tuple(
        replace(each, allowed_loss=(1 - required[THRESHOLDS[each.metric]]) * each.reference)
        if THRESHOLDS.get(each.metric) in required
        else each
        for each in changes
    )


def resolution(change: MetricChange, items: str, passed: bool) -> str:
    """Say in a sentence how the metric changed and which losses the data set cannot show.

    >>> resolution(MetricChange("f1", 0.92, 0.917, -0.011, 0.005, 0.016, 42, allowed_loss=0.03), "questions", True)
    'F1 -0.3 points [-1.1, +0.5]; losses under 1.6 points cannot be seen with these 42 questions'

    Args:
        items: what is counted, in the plural.
        passed: whether the predictions are valid. If the interval reaches beyond the threshold, this is then said.
    """
    digits = points_digits(change)
    text = (
        f"{TITLES.get(change.metric, change.metric)} {interval_text(change)}; losses under "
        f"{100 * change.detectable_loss:.{digits}f} points cannot be seen with these {change.items} {items}"
    )
    allowed = change.allowed_loss
    if not passed or allowed is None or -change.low <= allowed:
        return text
    threshold = f"{100 * allowed:.{digits}f}"
    return f"{text}; the loss is within the threshold of {threshold} points, but a larger one is possible"


def points_digits(change: MetricChange) -> int:
    """Decimals of a metric in points: one more than the smallest loss that is seen has zeros."""
    return max(1, min(4, -math.floor(math.log10(100 * change.detectable_loss)) + 1))


def interval_text(change: MetricChange) -> str:
    """The change in points with its interval: ``-0.3 points [-1.1, +0.5]``."""
    digits = points_digits(change)
    value, low, high = (f"{100 * each + 0.0:+.{digits}f}" for each in (change.change, change.low, change.high))
    return f"{value} points [{low}, {high}]"


def change_tables(changes: Sequence[MetricChange], items: str, context: TaskContext) -> tuple[Table, ...]:
    """All metrics with the interval of their change; no table if there are none."""
    if not changes:
        return ()
    rows = tuple(
        (
            TITLES.get(each.metric, each.metric),
            interval_text(each).replace(" points", ""),
            _count(each.worse),
            _count(each.better),
            "–" if each.p_value is None else f"{each.p_value:.2g}",
            f"{100 * each.detectable_loss:.{points_digits(each)}f}",
            "–" if each.allowed_loss is None else f"{100 * each.allowed_loss:.{points_digits(each)}f}",
        )
        for each in changes
    )
    columns = ("points", "change [95 %]", "worse", "better", "McNemar p", "seen from", "allowed")
    note = (
        f"{context.tested_name} minus {context.reference_name}; worse, better: {items} whose score fell, rose; "
        "smaller losses than 'seen from' cannot be seen"
    )
    return (Table("What this set can show", columns, rows, note),)


def _count(value: Optional[int]) -> str:
    return "–" if value is None else str(value)
