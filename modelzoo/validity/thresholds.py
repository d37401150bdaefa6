"""The default thresholds, each with its source, and the check of a value against one.

``--tolerance name=value`` replaces a default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from modelzoo.errors import UsageError
from modelzoo.records.validity import Check, Relation

SIGNIFICANT_BITS = {"bf16": 8, "fp16": 11, "tf32": 11}
"""Of the numbers of the precisions that are narrower than fp32. Rounding to n bits changes a number by 2⁻ⁿ at most."""
FP32_DRIFT = 1e-5
"""Relative error that a different order of summation explains in fp32: 8 times ``torch.testing``'s rtol for one
operation (1.3e-6). Between kernels and memory formats, whole networks differ by 2e-6."""


@dataclass(frozen=True)
class Limit:
    """A default threshold, with what it applies to and its source."""

    title: str
    relation: Relation
    value: float
    source: str


MLPERF = "MLPerf Inference: 99 % of the fp32 metric"
SAME_DIRECTION = "two operands, each rounded by 2⁻⁸ in the same direction, give 0.8 %"
LIMITS: dict[str, Limit] = {
    "accuracy": Limit("task metric ÷ fp32's", Relation.AT_LEAST, 0.99, MLPERF),
    "mask_ap": Limit("mask AP ÷ fp32's", Relation.AT_LEAST, 0.99, MLPERF),
    "top1_agreement": Limit(
        "top-1 agreement, near ties excused",
        Relation.AT_LEAST,
        0.99,
        "accuracy cannot fall by more than what changes (MLPerf's 99 %); a near tie is within one rounding step",
    ),
    "kl": Limit(
        "mean KL divergence, each at most 2 nats",
        Relation.AT_MOST,
        0.01,
        "Pinsker: no class's probability is off by more than √(KL/2) = 7 % on average, and by 100 % from 2 nats on",
    ),
    "detection_agreement": Limit(
        "detections in common ÷ all",
        Relation.AT_LEAST,
        0.95,
        "1 object in 20 may appear or vanish; bf16 changes 1 in 250 on a trained SSDLite",
    ),
    "box_iou": Limit("mean IoU of matched boxes", Relation.AT_LEAST, 0.95, "COCO's strictest IoU threshold"),
    "box_bias": Limit(
        "mean shift or growth of boxes ÷ their size",
        Relation.AT_MOST,
        0.01,
        "rounding has no preferred direction; two operands rounded the same way would give 2⁻⁷",
    ),
    "score_drift": Limit(
        "median change of a matched score",
        Relation.AT_MOST,
        0.02,
        "about 5 bf16 steps (2⁻⁸) of a probability near 1",
    ),
    "answer_agreement": Limit(
        "F1 of the answers with fp32's as gold",
        Relation.AT_LEAST,
        0.95,
        "bf16 preserves 99 % of a trained model's answers; near ties may select another span",
    ),
    "class_loss": Limit(
        "certain loss of the worst class",
        Relation.AT_MOST,
        0.1,
        "1 % of all items (MLPerf), if it falls on one class in ten",
    ),
    "layer_scale": Limit(
        "largest change of scale of a layer",
        Relation.AT_MOST,
        0.01,
        SAME_DIRECTION,
    ),
    "layer_drift": Limit(
        "largest error of a layer ÷ what rounding explains",
        Relation.AT_MOST,
        3.0,
        "the same model in fp32 with every operand rounded as the setting rounds it",
    ),
    "tensor_error": Limit(
        "error of the outputs ÷ what rounding explains",
        Relation.AT_MOST,
        3.0,
        "the same model in fp32 with every operand rounded as the setting rounds it",
    ),
    "published": Limit(
        "published quality − fp32's, in margins of this data set",
        Relation.AT_MOST,
        1.0,
        "a margin is three standard errors of the mean over the data set",
    ),
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


def check_value(name: str, seen: Optional[float], tolerance: Mapping[str, float], source: str = "") -> Check:
    """Compare ``seen`` with the threshold ``name``.

    Args:
        seen: the observed value; ``None`` or NaN never passes.
        tolerance: the user's thresholds by name.
        source: replaces the threshold's source.
    """
    limit = LIMITS[name]
    required, origin = limit.value, source or limit.source
    if name in tolerance:
        required, origin = float(tolerance[name]), "--tolerance"
    if seen is None or not math.isfinite(seen):
        return Check(name, limit.title, None, limit.relation, required, origin, False, None)
    passed = limit.relation.holds(seen, required)
    return Check(name, limit.title, seen, limit.relation, required, origin, passed, would_pass_at(seen, limit.relation))


def would_pass_at(seen: float, relation: Relation) -> float:
    """``seen`` rounded to 4 decimals (3 digits if it is small), towards the side on which it passes."""
    if seen == 0:
        return 0.0
    digits = max(4, 2 - math.floor(math.log10(abs(seen))))
    factor = 10.0**digits
    return (math.floor if relation is Relation.AT_LEAST else math.ceil)(seen * factor) / factor
