"""The default thresholds, and checks of a value against one.

``--tolerance name=value`` replaces a default. What a sample of a population shows has passed or failed if that is
certain, and is undecided otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Any, Optional, Union

import msgspec

from modelzoo.errors import UsageError, suggestion
from modelzoo.frozen import replace
from modelzoo.records.validity import Check, ClassChange, PublishedQuality, Relation, WorstLayer
from modelzoo.stats import student_t
from modelzoo.validity.bounds import (
    POWER,
    Drawn,
    Extreme,
    clusters_needed,
    draw,
    median_bounds,
    standard_error,
    sums_by_cluster,
    typical_size,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


class Limit(msgspec.Struct, frozen=True):
    """A default threshold; ``modelzoo.views.judgement`` says what it applies to, and its source."""

    relation: Relation
    value: float


LIMITS: dict[str, Limit] = {
    "accuracy": Limit(Relation.AT_LEAST, 0.99),
    "mask_ap": Limit(Relation.AT_LEAST, 0.99),
    "top1_agreement": Limit(Relation.AT_LEAST, 0.99),
    "kl": Limit(Relation.AT_MOST, 0.01),
    "detection_agreement": Limit(Relation.AT_LEAST, 0.95),
    "box_iou": Limit(Relation.AT_LEAST, 0.95),
    "box_bias": Limit(Relation.AT_MOST, 0.01),
    "score_drift": Limit(Relation.AT_MOST, 0.02),
    "answer_agreement": Limit(Relation.AT_LEAST, 0.95),
    "ln_perplexity_ratio": Limit(Relation.AT_MOST, 0.01),
    "token_kl": Limit(Relation.AT_MOST, 0.01),
    "token_kl_p99": Limit(Relation.AT_MOST, 0.1),
    "same_top": Limit(Relation.AT_LEAST, 0.95),
    "class_loss": Limit(Relation.AT_MOST, 0.1),
    "layer_scale": Limit(Relation.AT_MOST, 0.01),
    "layer_drift": Limit(Relation.AT_MOST, 3.0),
    "tensor_error": Limit(Relation.AT_MOST, 3.0),
    "published": Limit(Relation.AT_MOST, 1.0),
}


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


def check_value(
    name: str,
    seen: Optional[float],
    tolerance: Mapping[str, float],
    about: Optional[Union[WorstLayer, PublishedQuality, ClassChange]] = None,
) -> Check:
    """Compare ``seen`` with the threshold ``name``.

    Args:
        seen: the observed value; ``None`` or NaN never passes.
        tolerance: the user's thresholds by name.
        about: what the check is about, if not all items.
    """
    limit = LIMITS[name]
    is_known = seen is not None and math.isfinite(seen)
    required = float(tolerance.get(name, limit.value))
    return Check(
        name=name,
        seen=seen if is_known else None,
        relation=limit.relation,
        required=required,
        passed=seen is not None and is_known and limit.relation.holds(seen, required),
        would_pass_at=would_pass_at(seen, limit.relation) if seen is not None and is_known else None,
        is_own=name in tolerance,
        about=about,
    )


def would_pass_at(seen: float, relation: Relation) -> float:
    """``seen`` rounded to 4 decimals (3 digits if it is small), towards the side on which it passes."""
    if seen == 0:
        return 0.0
    digits = max(4, 2 - math.floor(math.log10(abs(seen))))
    factor = 10.0**digits
    return (math.floor if relation is Relation.AT_LEAST else math.ceil)(seen * factor) / factor


def check_ratio(name: str, drawn: Drawn, items: int, tolerance: Mapping[str, float]) -> Check:
    """Compare the ratio in the population with the threshold ``name``.

    Args:
        drawn: the ratio and its clusters.
        items: number of items in the clusters, for ``Check.more_items``.
        tolerance: the user's thresholds by name.
    """
    found = check_value(name, drawn.value, tolerance)
    if drawn.value is None:  # nothing that could be lost
        return replace(found, undecided=True)
    above = found.relation is Relation.AT_LEAST
    bounds = (drawn.lower(PASSES), drawn.upper(FAILS)) if above else (drawn.upper(PASSES), drawn.lower(FAILS))
    decided = check_bounds(found, *bounds)
    return _with_items(decided, drawn, found.required, items, above=above) if decided.undecided else decided


def _with_items(check: Check, drawn: Drawn, limit: float, items: int, *, above: bool) -> Check:
    """Fill in how many more items would decide on which side of ``limit`` the ratio is; ``above`` is the good one."""
    needed = clusters_needed(drawn, limit, PASSES, above=above)
    if needed is None:
        needed = clusters_needed(drawn, limit, FAILS, above=not above)
    if needed is None:
        return check
    return replace(check, more_items=_items_of(max(needed - drawn.clusters, 1), drawn.clusters, items))


def check_shares(
    name: str,
    sums: Sequence[float] | NDArray[Any],
    sizes: Sequence[float] | NDArray[Any],
    items: int,
    tolerance: Mapping[str, float],
    *,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> Check:
    """Compare a mean, sum(sums) ÷ sum(sizes), with the threshold ``name``.

    Args:
        sums: sum of the values in each cluster. sizes: number of values in each cluster.
        items: as for ``check_ratio``.
        lowest: the least that a value can be. highest: the most.
    """
    return check_ratio(name, _share(sums, sizes, lowest, highest), items, tolerance)


def _share(
    sums: Sequence[float] | NDArray[Any], sizes: Sequence[float] | NDArray[Any], lowest: float, highest: float
) -> Drawn:
    size = typical_size(sizes)
    return draw(sums, sizes, Extreme(lowest * size, size), Extreme(highest * size, size))


def check_median(
    name: str,
    values: Sequence[float],
    clusters: Sequence[Hashable],
    items: int,
    tolerance: Mapping[str, float],
    *,
    highest: float = 1.0,
) -> Check:
    """Compare the median of values from 0 to ``highest`` with the threshold ``name``, which it may not exceed.

    Args:
        values: one or more. clusters: what each value belongs to.
        items: as for ``check_ratio``.
    """
    found = check_value(name, median(values), tolerance)
    decided = check_bounds(found, *median_bounds(values, clusters, highest, PASSES, FAILS))
    if not decided.undecided:
        return decided
    # At most half of the values exceed what the median may not exceed.
    sizes, (within,) = sums_by_cluster(clusters, [float(value <= found.required) for value in values])
    return _with_items(decided, _share(within, sizes, 0.0, 1.0), 0.5, items, above=True)


def check_shift(
    name: str,
    shifts: Sequence[Sequence[float]],
    clusters: Sequence[Hashable],
    items: int,
    tolerance: Mapping[str, float],
) -> Check:
    """Compare the largest mean of signed values with the threshold ``name``, which none may exceed in either direction.

    The bounds are Student's t, with the standard error of a ratio over clusters, and Satterthwaite's degrees of freedom
    ("An approximate distribution of estimates of variance components", Biometrics Bulletin 2, 1946) for clusters whose
    sums vary in proportion to their sizes: a few large clusters among many small ones are as few as they are.

    Args:
        shifts: rows of values, a column for each mean; one row or more. clusters: what each row belongs to.
        items: as for ``check_ratio``.
    """
    sizes, columns = sums_by_cluster(clusters, *zip(*shifts))
    means = [abs(float(column.sum())) / len(shifts) for column in columns]
    found, count = check_value(name, max(means), tolerance), len(sizes)
    if count < 2:
        return replace(found, passed=False, undecided=True)
    errors = [standard_error(column.tolist(), sizes.tolist()) for column in columns]
    freedom = float((sizes**2).sum() ** 2 / (sizes**4).sum()) - 1
    passes, fails = student_t(PASSES, freedom), student_t(1 - (1 - FAILS) / (2 * len(means)), freedom)
    if not math.isfinite(passes):
        return replace(found, passed=False, undecided=True)
    worst = max(mean + passes * error for mean, error in zip(means, errors))
    best = max(mean - fails * error for mean, error in zip(means, errors))
    decided = check_bounds(found, worst, best)
    distance = abs(max(means) - found.required)
    if not decided.undecided or not distance:
        return decided
    quantile = (passes if max(means) < found.required else fails) + NormalDist().inv_cdf(POWER)
    needed = math.ceil(count * (quantile * max(errors) / distance) ** 2)
    return replace(decided, more_items=_items_of(max(needed - count, 1), count, items))


def check_bounds(found: Check, worst: float, best: float) -> Check:
    """Decide by the bounds of a value: ``worst`` must be within the limit to pass, ``best`` beyond it to fail."""
    bound = worst if math.isfinite(worst) else None
    within = found.relation.holds(worst, found.required)
    beyond = not found.relation.holds(best, found.required)
    return replace(
        found,
        passed=within,
        undecided=not within and not beyond,
        bound=bound,
        would_pass_at=None if bound is None else would_pass_at(bound, found.relation),
    )


def on_few_clusters(check: Check, clusters: int, items: int) -> Check:
    """The check if there are fewer clusters than a verdict requires: undecided, and no tolerance lets it pass."""
    least = _items_of(MINIMUM_CLUSTERS - clusters, clusters, items)
    return replace(
        check, passed=False, undecided=True, would_pass_at=None, more_items=max(least, check.more_items or 0)
    )


def _items_of(clusters: int, observed: int, items: int) -> int:
    return math.ceil(clusters * items / observed)


def more_items(checks: Sequence[Check]) -> Optional[int]:
    """How many more items would decide all undecided checks; ``None`` if that is not known of one of them."""
    needed = [check.more_items for check in checks if check.undecided]
    return None if not needed or None in needed else max(each for each in needed if each is not None)
