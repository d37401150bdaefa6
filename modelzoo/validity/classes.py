"""Losses by class: a metric over the whole set may hide that one class is broken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from modelzoo.frozen import replace
from modelzoo.records.validity import Check, ClassChange, ClassLosses
from modelzoo.stats import holm
from modelzoo.validity.paired import binomial_tail, lower_bound
from modelzoo.validity.thresholds import LIMITS, check_value

SIGNIFICANCE = 0.01
"""How often a table of sound classes may call one of them broken."""
FEWEST_ITEMS = 5
"""Items that a class must have to be tested. Smaller ones could be significant among few classes only: if all of 4
items are lost, the p-value is 0.1⁴, which times 100 classes is 0.01."""
SHOWN = 10
"""Classes that are stored and shown."""


@dataclass(frozen=True)
class ClassItem:
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
