"""The default thresholds, checks of a value against one, how a metric changed, in all and by class, and NaN and Inf.

``--tolerance name=value`` replaces a default. What a sample of a population shows has passed or failed if that is
certain, and is undecided otherwise. A metric may hide that one class is broken.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from modelzoo.errors import UsageError, suggestion
from modelzoo.frozen import replace
from modelzoo.records.partial import Row
from modelzoo.records.validity import (
    Check,
    ClassChange,
    ClassLosses,
    MetricChange,
    PublishedQuality,
    Relation,
    WorstLayer,
    holds,
)
from modelzoo.records.workload import ROUNDED
from modelzoo.stats import holm
from modelzoo.validity.bounds import Drawn, binomial_tail, clusters_needed, lower_bound
from modelzoo.workload.nested import leaves

SIGNIFICANT_BITS = {"bf16": 8, "fp16": 11, "tf32": 11, "int8": 8}
"""Of the numbers of the precisions that are narrower than fp32. Rounding to n bits changes a number by 2⁻ⁿ at most; in
int8, the largest number of a tensor or a row, because all of them are rounded to the same step."""
FP32_DRIFT = 1e-5
"""Relative error that a different order of summation explains in fp32: 8 times ``torch.testing``'s rtol for one
operation (1.3e-6). Between kernels and memory formats, whole networks differ by 2e-6."""
MINIMUM_CLUSTERS = 20
"""Pictures or passages that a verdict on the user's data requires. What holds for fewer may be due to how they were
chosen."""
PASSES = 0.95
"""Confidence with which a value is within its limit if a check passes. All checks must pass, and predictions that are
beyond one limit pass that check in 1 case of 20, so no correction is needed (intersection–union test: Berger,
"Multiparameter hypothesis testing and acceptance sampling", Technometrics 24, 1982)."""
FAILS = 0.995
"""Confidence with which a value is beyond its limit if a check fails. One failed check is enough for NOT VALID, so that
the six checks of a detector and the test of its classes (1 %) together are wrong in 4 cases of 100 at most
(Bonferroni)."""


LIMITS = {
    "accuracy": 0.99,
    "mask_ap": 0.99,
    "top1_agreement": 0.99,
    "kl": 0.01,
    "detection_agreement": 0.95,
    "box_iou": 0.95,
    "box_bias": 0.01,
    "score_drift": 0.02,
    "answer_agreement": 0.95,
    "ln_perplexity_ratio": 0.01,
    "token_kl": 0.01,
    "token_kl_p99": 0.1,
    "same_top": 0.95,
    "class_loss": 0.1,
    "layer_scale": 0.01,
    "layer_drift": 3.0,
    "tensor_error": ROUNDED,
    "published": 1.0,
}
"""The default thresholds; ``modelzoo.views.judgement`` says what each applies to, and its source."""
LEAST = {"accuracy", "mask_ap", "top1_agreement", "detection_agreement", "box_iou", "answer_agreement", "same_top"}
"""The thresholds that values must reach; others they must not exceed."""


def check_tolerances(tolerance: Mapping[str, float]) -> None:
    """Check the names and values given by ``--tolerance``.

    Raises:
        UsageError: a name that is no threshold, or a value that is not finite.
    """
    for name, value in tolerance.items():
        if name not in LIMITS:
            known = ", ".join(LIMITS)
            hint = suggestion(name, LIMITS)
            raise UsageError(f"--tolerance {name}: there is no such threshold (there are: {known}){hint}")
        if not math.isfinite(value):
            raise UsageError(f"--tolerance {name} must be a number, not {value}")


def limit(name: str, tolerance: Mapping[str, float]) -> float:
    """The threshold ``name`` that is in force."""
    return float(tolerance.get(name, LIMITS[name]))


def check_value(
    name: str,
    seen: float | None,
    tolerance: Mapping[str, float],
    about: WorstLayer | PublishedQuality | ClassChange | None = None,
) -> Check:
    """Compare ``seen`` with the threshold ``name``.

    Args:
        seen: the observed value; ``None`` or NaN never passes.
        tolerance: the user's thresholds by name.
        about: what the check is about, if not all items.
    """
    relation: Relation = ">=" if name in LEAST else "<="
    required = limit(name, tolerance)
    is_known = seen is not None and math.isfinite(seen)
    return Check(
        name=name,
        seen=seen if is_known else None,
        relation=relation,
        required=required,
        passed=seen is not None and is_known and holds(seen, relation, required),
        would_pass_at=would_pass_at(seen, relation) if seen is not None and is_known else None,
        is_own=name in tolerance,
        about=about,
    )


def would_pass_at(seen: float, relation: Relation) -> float:
    """``seen`` rounded to 4 decimals (3 digits if it is small), towards the side on which it passes."""
    if seen == 0:
        return 0.0
    digits = max(4, 2 - math.floor(math.log10(abs(seen))))
    factor = 10.0**digits
    return (math.floor if relation == ">=" else math.ceil)(seen * factor) / factor


def check_ratio(name: str, drawn: Drawn | None, items: int, tolerance: Mapping[str, float]) -> Check:
    """Compare the ratio in the population with the threshold ``name``.

    Args:
        drawn: the ratio and its clusters; ``None`` or without a value if there is nothing that could be lost.
        items: number of items in the clusters, for ``Check.more_items``.
        tolerance: the user's thresholds by name.
    """
    found = check_value(name, None if drawn is None else drawn.value, tolerance)
    if drawn is None or drawn.value is None:
        return replace(found, undecided=True)
    above = found.relation == ">="
    bounds = (drawn.lower(PASSES), drawn.upper(FAILS)) if above else (drawn.upper(PASSES), drawn.lower(FAILS))
    decided = check_bounds(found, *bounds)
    return with_items(decided, drawn, found.required, items, above=above) if decided.undecided else decided


def with_items(check: Check, drawn: Drawn, limit: float, items: int, *, above: bool) -> Check:
    """Fill in how many more items would decide on which side of ``limit`` the ratio is; ``above`` is the good one."""
    needed = clusters_needed(drawn, limit, PASSES, above=above)
    if needed is None:
        needed = clusters_needed(drawn, limit, FAILS, above=not above)
    if needed is None:
        return check
    return replace(check, more_items=items_of(max(needed - drawn.clusters, 1), drawn.clusters, items))


def check_bounds(found: Check, worst: float, best: float) -> Check:
    """Decide by the bounds of a value: ``worst`` must be within the limit to pass, ``best`` beyond it to fail."""
    bound = worst if math.isfinite(worst) else None
    within = holds(worst, found.relation, found.required)
    beyond = not holds(best, found.relation, found.required)
    return replace(
        found,
        passed=within,
        undecided=not within and not beyond,
        bound=bound,
        would_pass_at=None if bound is None else would_pass_at(bound, found.relation),
    )


def items_of(clusters: int, observed: int, items: int) -> int:
    """How many items are in ``clusters``, if they are like the ``observed`` ones, which have ``items``."""
    return math.ceil(clusters * items / observed)


def more_items(checks: Sequence[Check]) -> int | None:
    """How many more items would decide all undecided checks; ``None`` if that is not known of one of them."""
    needed = [check.more_items for check in checks if check.undecided]
    return None if not needed or None in needed else max(each for each in needed if each is not None)


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


def places(output: Any) -> str:
    """Return a digest of where NaN, inf and -inf are in the tensors of ``output``; empty if there are none.

    Args:
        output: tensors, nested as in ``leaves``.
    """
    import torch

    digest, found = hashlib.sha256(), False
    tensors = (each for each in leaves(output) if isinstance(each, torch.Tensor) and each.is_floating_point())
    for number, tensor in enumerate(tensors):
        if not torch.isfinite(tensor).all():
            found = True
            kinds = torch.isnan(tensor) * 3 + torch.isposinf(tensor) * 2 + torch.isneginf(tensor) * 1
            digest.update(f"{number} {tuple(tensor.shape)}".encode())
            digest.update(kinds.to("cpu", torch.uint8).numpy().tobytes())
    return digest.hexdigest() if found else ""


def without_alike(first: Any, second: Any) -> tuple[Any, Any]:
    """Return two tensors of one shape, flat, without the places at which both hold NaN, or the same infinity."""
    alike = ~first.isfinite() & ((first == second) | (first.isnan() & second.isnan()))
    return (first[~alike], second[~alike]) if alike.any() else (first, second)


def usable(reference: Any, tested: Any, *, is_logits: bool = True) -> tuple[bool, bool]:
    """Return whether each of two predictions can be judged.

    fp32's can if it is free of NaN and, for logits, of inf, and not all of it is infinite. The other one's NaN and Inf
    must be those of fp32; if fp32's cannot be judged, it is asked the same alone.

    Args:
        reference: numbers; of logits, each row of the last axis is a distribution.
        tested: likewise.
    """
    import numpy as np

    def is_finite(values: Any) -> bool:
        return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())

    def is_usable(values: Any) -> bool:
        if is_finite(values) or not values.size:
            return True
        if np.isnan(values).any() or (is_logits and np.isposinf(values).any()):
            return False
        return bool(np.isfinite(values).any(-1).all() if is_logits else np.isfinite(values).any())

    first, second = np.asarray(reference), np.asarray(tested)
    if not is_usable(first):
        return False, is_usable(second)
    if is_finite(first) and is_finite(second):
        return True, True
    if first.shape != second.shape:
        return True, False
    first, second = (np.where(np.isfinite(each), 0, each) for each in (first, second))
    return True, bool(np.array_equal(first, second, equal_nan=True))
