"""From findings to a verdict: the checks and rules that all tasks share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from modelzoo.records.partial import LayerError, PartialResult
from modelzoo.records.validity import Check, Relation, Validity, ValidityRequest, ValidityVerdict
from modelzoo.validity import explain
from modelzoo.validity.changes import change_tables, resolution, with_allowed_losses
from modelzoo.validity.classes import SHOWN, class_tables
from modelzoo.validity.protocol import Findings, JudgingTask
from modelzoo.validity.thresholds import SAME_DIRECTION, check_value

MINIMUM_ITEMS = 2
"""Items that a pass requires: one picture is never enough."""


def conclude(task: JudgingTask, result: PartialResult, findings: Findings) -> Validity:
    """Complete the checks, decide, and put everything into one record."""
    context, request = task.context, task.context.request
    count = len(result.classified) + len(result.detected) + len(result.answered)
    checks = [finite_check(findings.nonfinite, count, result.layers)]
    metric, reference, tested = findings.metric, findings.reference, findings.tested
    if request.weights_are_random:
        checks.append(tensor_check(result.layers, request.tolerance))
        metric, reference, tested = "tensor_error", None, checks[-1].seen
    else:
        checks += [common_check(findings.in_common), *findings.checks]
        checks += layer_checks(result.layers, request.tolerance)
    verdict, exit_code, reason = decide(
        checks, count, task.item_name, findings.reference_problem, request.weights_are_random
    )
    items = "crops" if "crops" in findings.counts else f"{task.item_name}s"
    # With random weights there is no quality that could change.
    changes = () if request.weights_are_random else with_allowed_losses(findings.changes, checks)
    classes = () if request.weights_are_random else findings.classes
    valid = verdict is ValidityVerdict.VALID
    return Validity(
        workload=context.workload,
        task=task.name,
        metric=metric,
        reference=reference,
        tested=tested,
        verdict=verdict,
        exit_code=exit_code,
        scope=findings.scope,
        reason=reason,
        checks=tuple(checks),
        tables=(
            *findings.tables,
            *class_tables(classes, items, context),
            *change_tables(changes, items, context),
            *explain.tables(result.layers, request),
        ),
        counts=dict(findings.counts),
        figures={name: value for name, value in findings.figures.items() if math.isfinite(value)},
        notes=result.notes,
        reference_name=context.reference_name,
        tested_name=context.tested_name,
        small=request.data is None,
        changes=changes,
        classes=tuple(each for each in classes if each.loss > 0)[:SHOWN],
        resolution=next((resolution(each, items, valid) for each in changes if each.metric == metric), ""),
    )


def finite_check(nonfinite: int, total: int, layers: Sequence[LayerError]) -> Check:
    """No output under test, and no layer's, may hold NaN or Inf; there is no tolerance for it."""
    first = next((layer.name for layer in layers if not layer.finite), "")
    count = max(nonfinite, int(bool(first)))
    source = f"of {total}; never passes" + (f"; first in {first}" if first else "")
    return Check("finite", "outputs with NaN or Inf", float(count), Relation.AT_MOST, 0.0, source, not count, None)


def common_check(in_common: bool) -> Check:
    """The two models must have something in common; there is no tolerance for it."""
    source = "nothing in common never passes"
    return Check("in_common", "outputs in common", float(in_common), Relation.AT_LEAST, 1.0, source, in_common, None)


def layer_checks(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> list[Check]:
    """Check the largest change of scale and the largest error of all layers; no checks without layers."""
    if not layers:
        return []
    largest = max(layers, key=lambda layer: layer.excess_scale)
    worst = _largest_error(layers)
    return [
        check_value("layer_scale", largest.excess_scale, tolerance, source=f"{SAME_DIRECTION}; seen in {largest.name}"),
        check_value("layer_drift", worst.ratio, tolerance, source=_baseline_of(worst)),
    ]


def tensor_check(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> Check:
    """The only check with random weights: the largest error of the layers and of the output."""
    if not layers:
        return check_value("tensor_error", None, tolerance)
    worst = _largest_error(layers)
    return check_value("tensor_error", worst.ratio, tolerance, source=_baseline_of(worst))


def _largest_error(layers: Sequence[LayerError]) -> LayerError:
    return max(layers, key=lambda layer: math.inf if layer.ratio is None else layer.ratio)


def _baseline_of(layer: LayerError) -> str:
    return f"rounding explains an error of {layer.baseline:.2g}; seen in {layer.name}"


def published_check(
    published: float, seen: float, deviation: float, count: int, request: ValidityRequest
) -> list[Check]:
    """Check that fp32 itself is near the published quality of the weights; if it is not, the set-up is broken.

    Args:
        published: from 0 to 1; 0 if none is known.
        seen: fp32's metric on this data set, from 0 to 1.
        deviation: standard deviation of the metric between items. The margin is
            3 × deviation ÷ √count + 1 ÷ count.
    """
    if not published or request.own_weights or request.weights_are_random or not count:
        return []
    margin = 3 * deviation / math.sqrt(count) + 1 / count
    source = f"published {100 * published:.2f}, here {100 * seen:.2f}; {count} items: margin {100 * margin:.1f}"
    return [check_value("published", (published - seen) / margin, request.tolerance, source=source)]


def decide(
    checks: Sequence[Check], count: int, item_name: str, reference_problem: str, random: bool
) -> tuple[ValidityVerdict, int, str]:
    """Return (verdict, exit code, reason).

    A failed check of the tested model gives NOT VALID. With random weights only its numbers are checked: an error that
    rounding does not explain is a fault, whatever the weights. A reference that is itself broken (NaN, nothing
    detected, far from the published quality) or a data set of one item gives CANNOT JUDGE.
    """
    failed = [check for check in checks if not check.passed]
    names = {check.name for check in failed}
    reason = "; ".join(_failure(check) for check in failed)
    if "finite" in names:
        return ValidityVerdict.NOT_VALID, 1, reason
    if reference_problem:
        return ValidityVerdict.CANNOT_JUDGE, 2, reference_problem
    if "published" in names:
        reason = f"fp32 itself is far from the published quality: a broken set-up; {reason}"
        return ValidityVerdict.CANNOT_JUDGE, 2, reason
    if failed:
        return ValidityVerdict.NOT_VALID, 1, reason
    if count < MINIMUM_ITEMS:
        reason = f"{count} {item_name} is never enough for a pass: give at least {MINIMUM_ITEMS}"
        return ValidityVerdict.CANNOT_JUDGE, 2, reason
    if random:
        return ValidityVerdict.NUMERIC_ONLY, 0, "random weights: numbers agree, predictions mean nothing"
    return ValidityVerdict.VALID, 0, ""


def _failure(check: Check) -> str:
    seen = "none" if check.seen is None else f"{check.seen:.4g}"
    return f"{check.title} is {seen}, required {check.relation.value} {check.required:.4g}"
