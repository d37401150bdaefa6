"""From findings to a verdict: the checks and rules that all tasks share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from modelzoo.frozen import replace
from modelzoo.records.partial import LayerError, PartialResult
from modelzoo.records.validity import Check, Reason, ReasonKind, Validity, ValidityVerdict, WorstLayer
from modelzoo.validity.changes import class_changes, class_checks, class_losses, with_allowed_losses
from modelzoo.validity.checks import MINIMUM_CLUSTERS, check_value, items_of, limit, more_items
from modelzoo.validity.layers import explained
from modelzoo.validity.rows import clusters
from modelzoo.validity.task import Task

MINIMUM_ITEMS = 2
"""Items that any pass requires: one picture is never enough."""


def conclude(task: Task, result: PartialResult) -> Validity:
    """Complete the checks, decide, and put everything into one record."""
    context, request, rows = task.context, task.context.request, result.rows
    random, tolerance = request.weights_are_random, request.tolerance
    groups, problem = len(set(clusters(rows))), task.reference_problem(rows)
    if result.unrepeatable is not None:
        problem = Reason(ReasonKind.REFERENCE_NOT_REPEATABLE, unrepeatable=result.unrepeatable)
    findings, classes = task.findings(rows), class_changes(rows, limit("class_loss", tolerance))
    figures, metric = findings.figures, task.metric
    reference = figures.get(f"{metric}_reference", 1.0 if metric in figures else None)
    tested = figures.get(f"{metric}_tested", figures.get(metric))
    numbers = ReasonKind.BUILT_IN_DATA if request.data is None else None
    checks = [finite_check(sum(not row.tested_finite for row in rows), result.layers)]
    if random:  # there is no quality that could change
        checks.append(drift_check("tensor_error", result.layers, tolerance))
        metric, reference, tested, numbers = "tensor_error", None, checks[-1].seen, ReasonKind.RANDOM_WEIGHTS
    else:
        checks.append(common_check(task.in_common(rows)))
        sampled = [*findings.checks, *class_checks(classes, tolerance)]
        checks += sampled if numbers or groups >= MINIMUM_CLUSTERS else of_few_clusters(sampled, groups, len(rows))
        checks += layer_checks(result.layers, tolerance, numeric_only=numbers is not None)
    verdict, exit_code, reason = decide(checks, problem, items=len(rows), clusters=groups, numbers=numbers)
    changes = [each for each in findings.changes if each is not None and not random]
    return Validity(
        workload=context.workload,
        task=task.name,
        metric=metric,
        reference=reference,
        tested=tested,
        verdict=verdict,
        exit_code=exit_code,
        item=task.item_name,
        items=len(rows),
        cluster=task.cluster_name or task.item_name,
        clusters=groups,
        labelled=task.labelled,
        small=request.data is None,
        reason=reason,
        checks=tuple(checks),
        changes=with_allowed_losses(changes, checks, metric),
        classes=None if random else class_losses(classes, limit("class_loss", tolerance)),
        shown=findings.shown,
        layers=explained(result.layers, tolerance) if request.explain else None,
        counts=task.counts(rows),
        figures={name: value for name, value in figures.items() if math.isfinite(value)},
        notes=result.notes,
        data_notes=tuple(task.data_notes),
        reference_name=context.reference_name,
        tested_name=context.tested_name,
    )


def finite_check(nonfinite: int, layers: Sequence[LayerError]) -> Check:
    """No output under test, and no layer's, may hold other NaN or Inf than fp32's; there is no tolerance for it."""
    first = next((layer.name for layer in layers if not layer.finite), None)
    count = max(nonfinite, int(first is not None))
    about = None if first is None else WorstLayer(first)
    return Check("finite", float(count), "<=", 0.0, not count, None, about=about)


def common_check(in_common: bool) -> Check:
    """The two models must have something in common; there is no tolerance for it."""
    return Check("in_common", float(in_common), ">=", 1.0, in_common, None)


def of_few_clusters(checks: Sequence[Check], clusters: int, items: int) -> list[Check]:
    """The checks of a sample on fewer pictures or passages of the user's than a verdict requires.

    They are undecided, and no tolerance lets them pass; but the reference may be shown to be broken.
    """
    least = items_of(MINIMUM_CLUSTERS - clusters, clusters, items)

    def undecided(check: Check) -> Check:
        more = max(least, check.more_items or 0)
        return replace(check, passed=False, undecided=True, would_pass_at=None, more_items=more)

    return [each if each.name == "published" else undecided(each) for each in checks]


def layer_checks(layers: Sequence[LayerError], tolerance: Mapping[str, float], *, numeric_only: bool) -> list[Check]:
    """Check the largest change of scale and the largest error of all layers.

    Layers whose expected rounding error is unknown are left out. If they are all that is judged, the check is
    undecided.
    """
    drift = drift_check("layer_drift", layers, tolerance)
    if drift.undecided and not numeric_only:
        layers = [layer for layer in layers if layer.baseline is not None]
        drift = drift_check("layer_drift", layers, tolerance)
    if not layers:
        return [drift] if numeric_only else []
    largest = max(layers, key=lambda layer: layer.excess_scale)
    return [check_value("layer_scale", largest.excess_scale, tolerance, WorstLayer(largest.name)), drift]


def drift_check(name: str, layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> Check:
    """Check the largest error; undecided without layers, or if it passes and the baseline of some layer is unknown."""
    known = [layer for layer in layers if layer.baseline is not None or layer.error is None]
    unknown = WorstLayer(next((layer.name for layer in layers if layer.baseline is None), None))
    if not known:
        return replace(check_value(name, None, tolerance, unknown), undecided=True)
    worst = max(known, key=lambda layer: math.inf if layer.ratio is None else layer.ratio)
    check = check_value(name, worst.ratio, tolerance, WorstLayer(worst.name, worst.baseline))
    if check.passed and unknown.name is not None:
        return replace(check, passed=False, undecided=True, about=unknown)
    return check


Decision = tuple[ValidityVerdict, int, Reason | None]
"""Verdict, exit code, reason."""


def decide(
    checks: Sequence[Check], problem: Reason | None, *, items: int, clusters: int, numbers: ReasonKind | None
) -> Decision:
    """Decide about predictions, or, with ``numbers``, about numbers alone: with random weights, or built-in inputs.

    A failed check of the tested model gives NOT VALID. VALID requires that all have passed; if some are undecided, the
    verdict is INCONCLUSIVE. A reference that is itself broken (NaN, not repeatable, nothing detected, far from the
    published quality) gives CANNOT JUDGE.

    Of numbers, an error beyond the expected rounding error is a fault, whatever the weights and inputs. If that error
    is unknown, the verdict is INCONCLUSIVE. The built-in inputs pass no check of quality, but a loss that is certain on
    them is a fault.

    Args:
        problem: why the reference cannot serve as one; ``None`` if it can.
        numbers: why numbers alone are judged; ``None`` if predictions are.
    """
    failed = {check.name for check in checks if not check.passed and not check.undecided}
    undecided = [check for check in checks if check.undecided]
    if problem is None and "published" in failed and "finite" not in failed:
        problem = Reason(ReasonKind.FAR_FROM_PUBLISHED)
    if problem is not None:
        return ValidityVerdict.CANNOT_JUDGE, 2, problem
    if failed:
        return ValidityVerdict.NOT_VALID, 1, Reason(ReasonKind.FAILED_CHECKS)
    if numbers is not None:
        if items < MINIMUM_ITEMS:
            return ValidityVerdict.INCONCLUSIVE, 2, Reason(ReasonKind.FEW_ITEMS, MINIMUM_ITEMS)
        if any(check.name in ("layer_drift", "tensor_error") for check in undecided):
            return ValidityVerdict.INCONCLUSIVE, 2, Reason(ReasonKind.UNKNOWN_ROUNDING)
        return ValidityVerdict.NUMERIC_ONLY, 0, Reason(numbers)
    if not undecided:
        return ValidityVerdict.VALID, 0, None
    few = clusters < MINIMUM_CLUSTERS
    kind = ReasonKind.FEW_CLUSTERS if few else ReasonKind.UNDECIDED_CHECKS
    reason = Reason(kind, MINIMUM_CLUSTERS if few else None, more_items(undecided))
    return ValidityVerdict.INCONCLUSIVE, 2, reason
