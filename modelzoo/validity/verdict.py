"""From checks to a verdict: the rules that every task shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from modelzoo.validity.outcome import (
    CANNOT_JUDGE,
    NOT_VALID,
    NUMERIC_ONLY,
    VALID,
    Check,
    Job,
    Table,
    Validity,
    ValidityRequest,
)
from modelzoo.validity.rounding import LayerError
from modelzoo.validity.thresholds import hold

ENOUGH = 2
"""Items that a pass needs at least: one picture is never enough."""


def finite_check(broken: int, total: int, layers: Sequence[LayerError]) -> Check:
    """No output of the tested side, and none of its layers, may hold NaN or Inf; nothing tolerates it."""
    first = next((layer.name for layer in layers if not layer.finite), "")
    count = max(broken, int(bool(first)))
    source = f"of {total}; never passes" + (f"; first in {first}" if first else "")
    return Check("finite", "outputs with NaN or Inf", float(count), "<=", 0.0, source, not count, None)


def common_check(in_common: bool) -> Check:
    """Something must have come out of both sides alike; there is no tolerance for it."""
    return Check(
        "in_common",
        "outputs in common",
        float(in_common),
        ">=",
        1.0,
        "nothing in common never passes",
        in_common,
        None,
    )


def layer_checks(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> list[Check]:
    """Hold the layers' worst scale and worst drift against their thresholds; none where none was seen."""
    if not layers:
        return []
    largest = max(layers, key=lambda layer: layer.excess_scale)
    worst = max(layers, key=lambda layer: math.inf if math.isnan(layer.ratio) else layer.ratio)
    scale_source = f"two operands rounded by 2⁻⁸ each, all the same way, give 0.8 %; seen in {largest.name}"
    drift_source = f"{_yardstick(worst)}; seen in {worst.name}"
    return [
        hold("layer_scale", largest.excess_scale, tolerance, source=scale_source),
        hold("layer_drift", worst.ratio, tolerance, source=drift_source),
    ]


def _yardstick(layer: LayerError) -> str:
    return f"rounding explains an error of {layer.explained:.2g}"


def tensor_check(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> Check:
    """The only check for random weights: the worst error of the layers and of the output."""
    if not layers:
        return hold("tensor_error", None, tolerance)
    worst = max(layers, key=lambda layer: math.inf if math.isnan(layer.ratio) else layer.ratio)
    return hold("tensor_error", worst.ratio, tolerance, source=f"{_yardstick(worst)}; seen in {worst.name}")


def published_check(
    published: float | None, seen: float, deviation: float, count: int, request: ValidityRequest
) -> list[Check]:
    """fp32 itself must be near the published quality of the weights, or the set-up is broken.

    Args:
        published: as a share, ``None`` where there is none.
        seen: fp32's metric on this set, as a share.
        deviation: the standard deviation of the metric from item to item; the margin is
            3 × deviation ÷ √count + 1 ÷ count.
    """
    if not published or request.own_weights or request.weights_are_random or not count:
        return []
    margin = 3 * deviation / math.sqrt(count) + 1 / count
    source = f"published {100 * published:.2f}, here {100 * seen:.2f}; {count} items: margin {100 * margin:.1f}"
    return [hold("published", (published - seen) / margin, request.tolerance, source=source)]


@dataclass(frozen=True)
class Evidence:
    """What a task hands over for the verdict.

    Attributes:
        task: the kind of task. metric, reference, tested: as in ``Validity``.
        what: what is counted: "picture", "question". count: how many there were.
        reference_broken: why the reference itself is no measure; empty where it is.
    """

    task: str
    metric: str
    reference: float | None
    tested: float | None
    checks: Sequence[Check]
    what: str
    count: int
    scope: str
    reference_broken: str = ""
    tables: Sequence[Table] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    files: Sequence[str] = ()


def concluded(job: Job, evidence: Evidence) -> Validity:
    """Turn the evidence into a ``Validity``."""
    word, code, reason = conclude(
        evidence.checks,
        evidence.count,
        evidence.what,
        evidence.reference_broken,
        job.request.weights_are_random,
    )
    return Validity(
        workload=job.workload,
        task=evidence.task,
        metric=evidence.metric,
        reference=evidence.reference,
        tested=evidence.tested,
        verdict=word,
        exit_code=code,
        scope=evidence.scope,
        reason=reason,
        checks=tuple(evidence.checks),
        tables=tuple(evidence.tables),
        counts=dict(evidence.counts),
        figures=dict(evidence.figures),
        notes=tuple(evidence.notes),
        files=tuple(evidence.files),
        reference_name=job.reference.name,
        tested_name=job.tested.name,
        small=job.request.data is None,
    )


def conclude(
    checks: Sequence[Check], count: int, what: str, reference_broken: str, random: bool
) -> tuple[str, int, str]:
    """Return (verdict, exit code, reason).

    A failure on the tested side is NOT VALID. A reference that is itself broken (NaN, nothing detected, far
    from the published quality) makes a judgement impossible, as does a set of one.
    """
    bad = [check for check in checks if not check.passed]
    names = {check.name for check in bad}
    reason = "; ".join(_failure(check) for check in bad)
    if "finite" in names:
        return NOT_VALID, 1, reason
    if reference_broken:
        return CANNOT_JUDGE, 2, reference_broken
    if "published" in names:
        return CANNOT_JUDGE, 2, f"fp32 itself is far from the published quality: a broken set-up; {reason}"
    if bad:
        return (NUMERIC_ONLY if random else NOT_VALID), 1, reason
    if count < ENOUGH:
        return CANNOT_JUDGE, 2, f"{count} {what} is never enough for a pass: give at least {ENOUGH}"
    if random:
        return NUMERIC_ONLY, 0, "random weights: numbers agree, predictions mean nothing"
    return VALID, 0, ""


def _failure(check: Check) -> str:
    seen = "none" if check.seen is None else f"{check.seen:.4g}"
    return f"{check.title} is {seen}, required {check.relation} {check.required:.4g}"


def resolution(metric: float, count: int) -> tuple[float, str]:
    """The allowance for a small set on a ratio to ``metric``: one item's worth, and why in words."""
    if not count or not metric:
        return 0.0, ""
    return 1 / (count * metric), f"less one item of {count}, the least that this set can resolve"
