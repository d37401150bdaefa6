"""The default thresholds, and checks of a value against one.

``--tolerance name=value`` replaces a default. What a sample of a population shows has passed or failed if that is
certain, and is undecided otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from modelzoo.errors import UsageError, suggestion
from modelzoo.frozen import replace
from modelzoo.records.validity import Check, ClassChange, PublishedQuality, Relation, WorstLayer, holds
from modelzoo.records.workload import ROUNDED
from modelzoo.validity.bounds import Drawn, clusters_needed

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
