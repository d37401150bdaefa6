"""How a metric changed between the two models: its interval, and the smallest loss that the data set shows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Optional

from modelzoo.frozen import replace
from modelzoo.records.validity import Check, MetricChange
from modelzoo.validity import bounds, paired
from modelzoo.validity.sampled import PASSES

if TYPE_CHECKING:
    from modelzoo.validity.average_precision import Evaluation
    from modelzoo.validity.bounds import Drawn

INTERVAL_END = 0.975
"""Confidence of each end of an interval, which has 95 % with both."""

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
    change = MetricChange(
        metric=metric,
        reference=sum(reference) / total,
        tested=sum(tested) / total,
        low=drawn.lower(INTERVAL_END),
        high=drawn.upper(INTERVAL_END),
        detectable_loss=paired.detectable_loss(paired.standard_error(changed.tolist(), size.tolist()), total / typical),
        possible_loss=-drawn.lower(PASSES),
        items=count,
        worse=worse,
        better=better,
        p_value=paired.mcnemar(worse, better) if right_or_wrong else None,
    )
    return _bounded(change)


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
    change = MetricChange(
        metric=metric,
        reference=first,
        tested=second,
        low=drawn.lower(INTERVAL_END),
        high=drawn.upper(INTERVAL_END),
        detectable_loss=paired.detectable_loss(error, reference.pictures / drawn.highest.denominator),
        possible_loss=-drawn.lower(PASSES),
        items=reference.pictures,
    )
    return _bounded(change)


def _bounded(found: MetricChange) -> MetricChange:
    """The observed change is within its interval, and so is the loss that the items do not rule out."""
    low, high = min(found.change, found.low), max(found.change, found.high)
    possible = max(0.0, -found.change, found.possible_loss)
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
