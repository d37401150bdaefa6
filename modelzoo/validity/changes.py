"""How a metric changed between the two models, over the whole data set and by class.

A metric has an interval, and a smallest loss that the data set shows. Over the whole set it may hide that one class is
broken.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import fmean

from modelzoo.frozen import replace
from modelzoo.records.partial import Row
from modelzoo.records.validity import Check, ClassChange, ClassLosses, MetricChange
from modelzoo.stats import holm
from modelzoo.validity.bounds import Drawn, binomial_tail, lower_bound
from modelzoo.validity.checks import PASSES, check_value

INTERVAL_END = 0.975
"""Confidence of each end of an interval, which has 95 % with both."""

SIGNIFICANCE = 0.01
"""How often a table of sound classes may call one of them broken."""
FEWEST_ITEMS = 5
"""Items that a class must have to be tested. Smaller ones could be significant among few classes only: if all of 4
items are lost, the p-value is 0.1⁴, which times 100 classes is 0.01."""
SHOWN = 10
"""Classes that are stored and shown."""


def metric_change(
    metric: str, reference: float, tested: float, drawn: Drawn, detectable_loss: float, items: int
) -> MetricChange:
    """Return the change of a metric, of which ``drawn`` is the difference with random weights of the items.

    The observed change is within its interval, and so is the loss that the items do not rule out.
    """
    change = tested - reference
    return MetricChange(
        metric,
        reference,
        tested,
        low=min(change, drawn.lower(INTERVAL_END)),
        high=max(change, drawn.upper(INTERVAL_END)),
        detectable_loss=min(detectable_loss, 1.0),
        possible_loss=max(0.0, -change, -drawn.lower(PASSES)),
        items=items,
    )


def with_allowed_losses(
    changes: Sequence[MetricChange], checks: Sequence[Check], decisive: str
) -> tuple[MetricChange, ...]:
    """Fill in the largest loss within the threshold that is in force for each metric.

    That is the one of its own name, or ``accuracy`` for the metric that decides; all of these are ratios to fp32's
    value.
    """
    required = {check.name: check.required for check in checks}
    limits = {decisive: "accuracy", **{name: name for name in required}}
    return tuple(
        replace(each, allowed_loss=(1 - required[limits[each.metric]]) * each.reference)
        if limits.get(each.metric) in required
        else each
        for each in changes
    )


def class_changes(rows: Iterable[Row], limit: float) -> list[ClassChange]:
    """Compare the models class by class; broken classes come first, then those with the largest certain loss.

    The items of a class in one cluster count as one. A class is broken if its items lost significantly more than
    ``limit``. If every item is lost with a probability of ``limit``, the number of lost items is binomial. What other
    items of the class gained counts against it, and fractions are rounded down, both of which make the test stricter.
    Holm's correction keeps the probability of any false alarm below ``SIGNIFICANCE``, however many classes there are.
    """
    classes: dict[str, dict[Hashable, list[tuple[float, float]]]] = {}
    for row in rows:
        for name, pair in row.classes.items():
            classes.setdefault(name, {}).setdefault(row.cluster or row.index, []).append(pair)
    found = []
    for name, items in classes.items():
        sides = zip(*(map(fmean, zip(*each)) for each in items.values()))
        reference, tested = (math.fsum(side) / len(items) for side in sides)
        found.append(ClassChange(name, len(items), reference, tested))
    enough = [each for each in found if each.items >= FEWEST_ITEMS]
    p_values = holm([binomial_tail(lost_items(each), each.items, limit) for each in enough])
    judged = [replace(each, p_value=p, broken=p < SIGNIFICANCE) for each, p in zip(enough, p_values)]
    judged += [each for each in found if each.items < FEWEST_ITEMS]
    return sorted(judged, key=lambda x: (not x.broken, -certain_loss(x, SIGNIFICANCE), -x.loss * x.items, x.name))


def lost_items(change: ClassChange) -> int:
    """The loss of a class as a number of whole items, rounded down; 0 if it gained."""
    return max(0, math.floor(change.loss * change.items + 1e-6))


def certain_loss(change: ClassChange, significance: float) -> float:
    """The lower bound of the loss of a class, from 0 to 1, rounded up to 4 decimals: one lost item is over 0."""
    return math.ceil(1e4 * lower_bound(lost_items(change), change.items, significance)) / 1e4


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


def class_losses(changes: Sequence[ClassChange], limit: float) -> ClassLosses | None:
    """What the classes lost, and the limit beyond which each is broken; ``None`` if there are none."""
    if not changes:
        return None
    lost = [each for each in changes if each.loss > 0]
    tested = sum(each.p_value is not None for each in changes)
    return ClassLosses(tuple(lost[:SHOWN]), len(changes), tested, FEWEST_ITEMS, limit, SIGNIFICANCE)
