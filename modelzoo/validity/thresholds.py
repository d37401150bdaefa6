"""The default thresholds, each with its source, and how a figure is held against one.

``--tolerance name=value`` replaces a default; the replaced value is taken as it stands, without the
allowance for a small set.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from modelzoo.errors import UsageError
from modelzoo.validity.outcome import Check

BF16_STEP = 2.0**-8
"""Largest relative error of rounding one number to bf16 (8 significant bits)."""
FP32_DRIFT = 1e-5
"""Relative error that fp32 in another order of summation explains: 8 times ``torch.testing``'s rtol (1.3e-6)
for one operation. Other kernels and memory formats part by 2e-6 over whole networks."""


@dataclass(frozen=True)
class Limit:
    """A threshold: ``relation`` is ``>=`` or ``<=``."""

    title: str
    relation: str
    value: float
    source: str


MLPERF = "MLPerf Inference: 99 % of the fp32 metric"
LIMITS: dict[str, Limit] = {
    "accuracy": Limit("task metric ÷ fp32's", ">=", 0.99, MLPERF),
    "mask_ap": Limit("mask AP ÷ fp32's", ">=", 0.99, MLPERF),
    "top1_agreement": Limit(
        "top-1 agreement, near ties aside",
        ">=",
        0.99,
        "accuracy falls by no more than what flips (MLPerf's 99 %); a near tie is one bf16 step of a logit",
    ),
    "kl": Limit(
        "mean KL divergence, nats",
        "<=",
        0.01,
        "Pinsker: no class's probability is off by more than √(KL/2) = 7 % on average",
    ),
    "detection_agreement": Limit(
        "detections in common ÷ all",
        ">=",
        0.95,
        "1 in 20 may appear or vanish; bf16 changes 1 in 250 on a trained SSDLite",
    ),
    "box_iou": Limit("mean IoU of matched boxes", ">=", 0.95, "COCO's strictest IoU threshold"),
    "box_bias": Limit(
        "mean shift or growth of boxes ÷ their size",
        "<=",
        0.01,
        "rounding has no direction: 2⁻⁷ is what two operands rounded the same way would give",
    ),
    "score_drift": Limit(
        "median change of a matched score",
        "<=",
        0.02,
        "about 5 bf16 steps (2⁻⁸) of a probability near 1",
    ),
    "answer_agreement": Limit(
        "F1 of the answers with fp32's as gold",
        ">=",
        0.95,
        "bf16 keeps 99 % of a trained model's answers; near ties may jump to another span",
    ),
    "layer_scale": Limit(
        "largest change of scale of a layer",
        "<=",
        0.01,
        "two operands rounded by 2⁻⁸ each, all the same way, give 0.8 %",
    ),
    "layer_drift": Limit(
        "largest error of a layer ÷ what rounding explains",
        "<=",
        3.0,
        "the same model in fp32 with every operand rounded to bf16 by hand",
    ),
    "tensor_error": Limit(
        "error of the outputs ÷ what rounding explains",
        "<=",
        3.0,
        "the same model in fp32 with every operand rounded to bf16 by hand",
    ),
    "published": Limit(
        "published quality − fp32's, in margins of this set",
        "<=",
        1.0,
        "a margin is three standard errors of a mean over the set",
    ),
}


def verified(tolerance: Mapping[str, float]) -> None:
    """Raise ``UsageError`` for a name that is no threshold or a value that is not finite."""
    for name, value in tolerance.items():
        if name not in LIMITS:
            raise UsageError(f"--tolerance {name}: there is no such threshold (there are: {', '.join(LIMITS)})")
        if not math.isfinite(value):
            raise UsageError(f"--tolerance {name} must be a number, not {value}")


def hold(
    name: str,
    seen: float | None,
    tolerance: Mapping[str, float],
    allowance: float = 0.0,
    allowed_for: str = "",
    source: str = "",
) -> Check:
    """Hold ``seen`` against the threshold ``name``.

    Args:
        seen: the figure; ``None`` or NaN never passes.
        tolerance: the user's values by name.
        allowance: how much the default is relaxed, because the set cannot resolve more.
        allowed_for: why, in words.
        source: replaces the limit's source.
    """
    limit = LIMITS[name]
    origin = source or limit.source
    if name in tolerance:
        required, origin = float(tolerance[name]), "--tolerance"
    else:
        sign = -1 if limit.relation == ">=" else 1
        required = limit.value + sign * allowance
        if allowance:
            origin = f"{origin}; {allowed_for}"
    if seen is None or not math.isfinite(seen):
        return Check(name, limit.title, None, limit.relation, required, origin, False, None)
    passed = seen >= required if limit.relation == ">=" else seen <= required
    return Check(name, limit.title, seen, limit.relation, required, origin, passed, _just(seen, limit.relation))


def _just(seen: float, relation: str) -> float:
    """``seen`` rounded to 4 decimals (or 3 digits, where it is small) to the side on which it passes."""
    if seen == 0:
        return 0.0
    digits = max(4, 2 - math.floor(math.log10(abs(seen))))
    factor = 10.0**digits
    return (math.floor if relation == ">=" else math.ceil)(seen * factor) / factor


def failed(checks: Iterable[Check]) -> list[Check]:
    """The checks that did not pass."""
    return [check for check in checks if not check.passed]
