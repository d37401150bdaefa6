"""The default thresholds, and the check of a value against one.

``--tolerance name=value`` replaces a default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional, Union

from modelzoo.errors import UsageError
from modelzoo.records.validity import Check, ClassChange, PublishedQuality, Relation, WorstLayer

SIGNIFICANT_BITS = {"bf16": 8, "fp16": 11, "tf32": 11}
"""Of the numbers of the precisions that are narrower than fp32. Rounding to n bits changes a number by 2⁻ⁿ at most."""
FP32_DRIFT = 1e-5
"""Relative error that a different order of summation explains in fp32: 8 times ``torch.testing``'s rtol for one
operation (1.3e-6). Between kernels and memory formats, whole networks differ by 2e-6."""


@dataclass(frozen=True)
class Limit:
    """A default threshold; ``modelzoo.views.checks`` says what it applies to, and its source."""

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
            raise UsageError(f"--tolerance {name}: there is no such threshold (there are: {', '.join(LIMITS)})")
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
