"""How a metric changed between the two models, over the whole data set and by class.

A metric has an interval, and a smallest loss that the data set shows. Over the whole set it may hide that one class is
broken.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo.frozen import replace
from modelzoo.records.validity import Check, ClassChange, ClassLosses, MetricChange
from modelzoo.stats import holm
from modelzoo.validity import bounds
from modelzoo.validity.bounds import binomial_tail, lower_bound
from modelzoo.validity.checks import LIMITS, PASSES, check_value

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
    "same_top": "same_top",
}
"""The threshold that limits the loss of a metric, if there is one. All of these are ratios to fp32's value."""
SIGNIFICANCE = 0.01
"""How often a table of sound classes may call one of them broken."""
FEWEST_ITEMS = 5
"""Items that a class must have to be tested. Smaller ones could be significant among few classes only: if all of 4
items are lost, the p-value is 0.1⁴, which times 100 classes is 0.01."""
SHOWN = 10
"""Classes that are stored and shown."""


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
        detectable_loss=bounds.detectable_loss(bounds.standard_error(changed.tolist(), size.tolist()), total / typical),
        possible_loss=-drawn.lower(PASSES),
        items=count,
        worse=worse,
        better=better,
        p_value=bounds.mcnemar(worse, better) if right_or_wrong else None,
    )
    return _bounded(change)


def ap_change(metric: str, reference: Evaluation, tested: Evaluation, drawn: Optional[Drawn]) -> Optional[MetricChange]:
    """Compare the AP of both models; ``None`` if fp32 has none, or with fewer than two pictures.

    Args:
        drawn: the difference with random weights of the pictures, ``AveragePrecisions.difference``.
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
        detectable_loss=bounds.detectable_loss(error, reference.pictures / drawn.highest.denominator),
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


class ClassItem(msgspec.Struct, frozen=True):
    """An item's part in a class: the name of the class, and the quality of both models there, from 0 to 1."""

    name: str
    reference: float
    tested: float


def class_changes(items: Iterable[ClassItem], limit: float) -> list[ClassChange]:
    """Compare the models class by class; broken classes come first, then those with the largest certain loss.

    A class is broken if its items lost significantly more than ``limit``. If every item is lost with a probability of
    ``limit``, the number of lost items is binomial. What other items of the class gained counts against it, and
    fractions are rounded down, both of which make the test stricter. Holm's correction keeps the probability of any
    false alarm below ``SIGNIFICANCE``, however many classes there are.
    """
    by_name: dict[str, list[ClassItem]] = {}
    for item in items:
        by_name.setdefault(item.name, []).append(item)
    found = [_change(name, each) for name, each in by_name.items()]
    tested = [each for each in found if each.items >= FEWEST_ITEMS]
    p_values = holm([binomial_tail(lost_items(each), each.items, limit) for each in tested])
    judged = [replace(each, p_value=p, broken=p < SIGNIFICANCE) for each, p in zip(tested, p_values)]
    judged += [each for each in found if each.items < FEWEST_ITEMS]
    return sorted(judged, key=_order)


def _order(change: ClassChange) -> tuple[bool, float, float, str]:
    return (not change.broken, -certain_loss(change, SIGNIFICANCE), -change.loss * change.items, change.name)


def _change(name: str, items: Sequence[ClassItem]) -> ClassChange:
    count = len(items)
    reference, tested = (math.fsum(values) / count for values in zip(*((i.reference, i.tested) for i in items)))
    return ClassChange(name, count, reference, tested)


def lost_items(change: ClassChange) -> int:
    """The loss of a class as a number of whole items, rounded down; 0 if it gained."""
    return max(0, math.floor(change.loss * change.items + 1e-6))


def certain_loss(change: ClassChange, significance: float) -> float:
    """The lower bound of the loss of a class, from 0 to 1, rounded up to 4 decimals: one lost item is over 0."""
    return math.ceil(1e4 * lower_bound(lost_items(change), change.items, significance)) / 1e4


def class_limit(tolerance: Mapping[str, float]) -> float:
    """The threshold in force: the loss, from 0 to 1, beyond which a class is broken."""
    return tolerance.get("class_loss", LIMITS["class_loss"].value)


def class_checks(changes: Sequence[ClassChange], tolerance: Mapping[str, float]) -> list[Check]:
    """Check the largest certain loss of a class; no check if no class has enough items.

    The loss is certain with a confidence of 99 % over all classes together (Bonferroni's, which is Holm's first step:
    the check fails exactly if a class is broken).
    """
    tested = [each for each in changes if each.p_value is not None]
    if not tested:
        return []
    losses = [certain_loss(each, SIGNIFICANCE / len(tested)) for each in tested]
    worst = max(range(len(tested)), key=losses.__getitem__)
    return [check_value("class_loss", losses[worst], tolerance, tested[worst] if losses[worst] else None)]


def class_losses(changes: Sequence[ClassChange], limit: float) -> Optional[ClassLosses]:
    """What the classes lost, and the limit beyond which each is broken; ``None`` if there are none."""
    if not changes:
        return None
    lost = [each for each in changes if each.loss > 0]
    tested = sum(each.p_value is not None for each in changes)
    return ClassLosses(tuple(lost[:SHOWN]), len(changes), tested, FEWEST_ITEMS, limit, SIGNIFICANCE)
