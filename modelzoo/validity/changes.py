"""How a metric changed between the two models: its interval, and the smallest loss that the data set shows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Optional

from modelzoo.frozen import replace
from modelzoo.records.validity import Check, MetricChange, Table
from modelzoo.validity import bounds, paired
from modelzoo.validity.protocol import TaskContext
from modelzoo.validity.sampled import PASSES

if TYPE_CHECKING:
    from modelzoo.validity.average_precision import Evaluation
    from modelzoo.validity.bounds import Drawn

INTERVAL_END = 0.975
"""Confidence of each end of an interval, which has 95 % with both."""

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
    clusters: Optional[Sequence[Hashable]] = None,
    sizes: Optional[Sequence[float]] = None,
    right_or_wrong: bool = False,
    agreement: bool = False,
) -> Optional[MetricChange]:
    """Compare a metric that is a mean over items; ``None`` with fewer than two clusters.

    Args:
        reference: score of each item in fp32, from 0 to 1, or to the item's size. tested: under test.
        clusters: what each item belongs to; by default every item is a cluster.
        sizes: size of each item, if the metric is sum(scores) ÷ sum(sizes).
        right_or_wrong: whether every score is 0 or 1, the models can err in either direction, and items are clusters.
        agreement: whether fp32 is its own reference, so that nothing can be gained.
    """
    count = len(reference)
    each_size = [1.0] * count if sizes is None else sizes
    total = sum(each_size)
    differences = [b - a for a, b in zip(reference, tested)]
    groups = range(count) if clusters is None else clusters
    _, (changed, size) = bounds.sums_by_cluster(groups, differences, each_size)
    if len(size) < 2 or not total:
        return None
    worse, better = sum(each < 0 for each in differences), sum(each > 0 for each in differences)
    typical = bounds.typical_size(size)
    most = bounds.Extreme(0.0 if agreement else typical, typical)
    drawn = bounds.draw(changed, size, bounds.Extreme(-typical, typical), most)
    return _bounded(
        MetricChange(
            metric,
            sum(reference) / total,
            sum(tested) / total,
            drawn.lower(INTERVAL_END),
            drawn.upper(INTERVAL_END),
            paired.detectable_loss(paired.standard_error(changed.tolist(), size.tolist()), total / typical),
            count,
            worse,
            better,
            paired.mcnemar(worse, better) if right_or_wrong else None,
            possible_loss=-drawn.lower(PASSES),
        )
    )


def ap_change(metric: str, reference: Evaluation, tested: Evaluation, drawn: Optional[Drawn]) -> Optional[MetricChange]:
    """Compare the AP of both models; ``None`` if fp32 has none, or with fewer than two pictures.

    Args:
        drawn: the difference with random weights of the pictures, as ``ap_drawn`` gives it.
    """
    if drawn is None or reference.pictures < 2:
        return None
    first, second = reference.figures["ap"], tested.figures["ap"]
    # The added picture does not count here; what a fault in few pictures may hide is in the rule of three.
    error = float((drawn.numerators / drawn.denominators).std())
    found = MetricChange(
        metric,
        first,
        second,
        drawn.lower(INTERVAL_END),
        drawn.upper(INTERVAL_END),
        paired.detectable_loss(error, reference.pictures / drawn.highest.denominator),
        reference.pictures,
        possible_loss=-drawn.lower(PASSES),
    )
    return _bounded(found)


def _bounded(found: MetricChange) -> MetricChange:
    """The observed change is within its interval, and so is the loss that the items do not rule out."""
    low, high = min(found.change, found.low), max(found.change, found.high)
    possible = max(0.0, -found.change, found.possible_loss or 0.0)
    return replace(found, low=low, high=high, detectable_loss=min(found.detectable_loss, 1.0), possible_loss=possible)


def with_allowed_losses(changes: Sequence[MetricChange], checks: Sequence[Check]) -> tuple[MetricChange, ...]:
    """Fill in the largest loss within the threshold that is in force for each metric."""
    required = {check.name: check.required for check in checks}
    return tuple(
        replace(each, allowed_loss=(1 - required[THRESHOLDS[each.metric]]) * each.reference)
        if THRESHOLDS.get(each.metric) in required
        else each
        for each in changes
    )


def resolution(change: MetricChange, items: str) -> str:
    """Say in a sentence how the metric changed and which losses the data set does not rule out.

    >>> resolution(MetricChange("f1", 0.92, 0.917, -0.011, 0.005, 0.016, 42, possible_loss=0.08), "questions")
    'F1 -0.3 points [-1.1, +0.5]; losses up to 8.0 points would not show on these 42 questions'

    Args:
        items: what is counted, in the plural.
    """
    text = f"{TITLES.get(change.metric, change.metric)} {interval_text(change)}"
    if change.possible_loss is None:
        return text
    return f"{text}; {unseen_losses(change, items)}"


def unseen_losses(change: MetricChange, items: str) -> str:
    """Say up to which loss, in points, nothing is known."""
    possible = 100 * (change.possible_loss or 0.0)
    return f"losses up to {possible:.{points_digits(change)}f} points would not show on these {change.items} {items}"


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
