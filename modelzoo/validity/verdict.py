"""From findings to a verdict: the checks and rules that all tasks share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Optional

from modelzoo.frozen import replace
from modelzoo.records.partial import LayerError, PartialResult
from modelzoo.records.validity import (
    Check,
    PublishedQuality,
    Reason,
    ReasonKind,
    Relation,
    Validity,
    ValidityRequest,
    ValidityVerdict,
    WorstLayer,
)
from modelzoo.validity.changes import class_limit, class_losses, with_allowed_losses
from modelzoo.validity.checks import MINIMUM_CLUSTERS, check_value, more_items, on_few_clusters
from modelzoo.validity.layers import explained
from modelzoo.validity.protocol import Findings, JudgingTask

MINIMUM_ITEMS = 2
"""Items that any pass requires: one picture is never enough."""


def conclude(task: JudgingTask, result: PartialResult, findings: Findings) -> Validity:
    """Complete the checks, decide, and put everything into one record."""
    context, request = task.context, task.context.request
    count = len(result.items)
    if result.unrepeatable is not None:
        problem = Reason(ReasonKind.REFERENCE_NOT_REPEATABLE, unrepeatable=result.unrepeatable)
        findings = replace(findings, reference_problem=problem)
    checks = [finite_check(findings.nonfinite, result.layers)]
    metric, reference, tested = findings.metric, findings.reference, findings.tested
    numeric_only = request.weights_are_random or request.data is None
    if request.weights_are_random:
        checks.append(tensor_check(result.layers, request.tolerance))
        metric, reference, tested = "tensor_error", None, checks[-1].seen
    else:
        checks += [common_check(findings.in_common), *sampled_checks(findings, count, numeric_only=numeric_only)]
        checks += layer_checks(result.layers, request.tolerance, numeric_only=numeric_only)
    if numeric_only:
        decision = decide_numbers(checks, count, findings.reference_problem, random_weights=request.weights_are_random)
    else:
        decision = decide(checks, findings)
    verdict, exit_code, reason = decision
    # With random weights there is no quality that could change.
    judged = not request.weights_are_random
    return Validity(
        workload=context.workload,
        task=task.name,
        metric=metric,
        reference=reference,
        tested=tested,
        verdict=verdict,
        exit_code=exit_code,
        item="crop" if "crops" in findings.counts else task.item_name,
        items=count,
        cluster=findings.cluster_name,
        clusters=findings.clusters,
        labelled=findings.labelled,
        small=request.data is None,
        reason=reason,
        checks=tuple(checks),
        changes=with_allowed_losses(findings.changes, checks) if judged else (),
        classes=class_losses(findings.classes, class_limit(request.tolerance)) if judged else None,
        shown=findings.shown,
        layers=explained(result.layers, request.tolerance) if request.explain else None,
        tables=tuple(findings.tables),
        counts=dict(findings.counts),
        figures={name: value for name, value in findings.figures.items() if math.isfinite(value)},
        notes=result.notes,
        reference_name=context.reference_name,
        tested_name=context.tested_name,
    )


def finite_check(nonfinite: int, layers: Sequence[LayerError]) -> Check:
    """No output under test, and no layer's, may hold other NaN or Inf than fp32's; there is no tolerance for it."""
    first = next((layer.name for layer in layers if not layer.finite), None)
    count = max(nonfinite, int(first is not None))
    about = None if first is None else WorstLayer(first)
    return Check("finite", float(count), Relation.AT_MOST, 0.0, not count, None, about=about)


def common_check(in_common: bool) -> Check:
    """The two models must have something in common; there is no tolerance for it."""
    return Check("in_common", float(in_common), Relation.AT_LEAST, 1.0, in_common, None)


def sampled_checks(findings: Findings, items: int, *, numeric_only: bool) -> list[Check]:
    """The task's own checks; on few pictures or passages of the user's they decide nothing.

    The built-in inputs pass no check of quality, but a loss that is certain on them is a fault.
    """
    if numeric_only or findings.clusters >= MINIMUM_CLUSTERS:
        return list(findings.checks)
    clusters = findings.clusters
    return [each if each.name == "published" else on_few_clusters(each, clusters, items) for each in findings.checks]


def layer_checks(layers: Sequence[LayerError], tolerance: Mapping[str, float], *, numeric_only: bool) -> list[Check]:
    """Check the largest change of scale and the largest error of all layers.

    Layers whose expected rounding error is unknown are left out. If they are all that is judged, the check is
    undecided.
    """
    drift = _drift_check("layer_drift", layers, tolerance)
    if drift.undecided and not numeric_only:
        layers = [layer for layer in layers if layer.baseline is not None]
        drift = _drift_check("layer_drift", layers, tolerance)
    if not layers:
        return [drift] if numeric_only else []
    largest = max(layers, key=lambda layer: layer.excess_scale)
    return [check_value("layer_scale", largest.excess_scale, tolerance, WorstLayer(largest.name)), drift]


def tensor_check(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> Check:
    """The only check with random weights: the largest error of the layers and of the output."""
    return _drift_check("tensor_error", layers, tolerance)


def _drift_check(name: str, layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> Check:
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


def published_check(
    published: float, seen: float, deviation: float, clusters: int, request: ValidityRequest
) -> list[Check]:
    """Check that fp32 itself is near the published quality of the weights; if it is not, the set-up is broken.

    Args:
        published: from 0 to 1; 0 if none is known.
        seen: fp32's metric on this data set, from 0 to 1.
        deviation: standard deviation of the metric between items. The margin is
            3 × deviation ÷ √clusters + 1 ÷ clusters, as if the items of a cluster were all alike.
    """
    if not published or request.own_weights or request.weights_are_random or not clusters:
        return []
    margin = 3 * deviation / math.sqrt(clusters) + 1 / clusters
    about = PublishedQuality(published, seen, margin, clusters)
    return [check_value("published", (published - seen) / margin, request.tolerance, about)]


Decision = tuple[ValidityVerdict, int, Optional[Reason]]
"""Verdict, exit code, reason."""


def decide(checks: Sequence[Check], findings: Findings) -> Decision:
    """Decide about predictions on the user's data.

    A failed check of the tested model gives NOT VALID. VALID requires that all have passed; if some are undecided, the
    verdict is INCONCLUSIVE. A reference that is itself broken (NaN, not repeatable, nothing detected, far from the
    published quality) gives CANNOT JUDGE.
    """
    faulty = _fault(checks, findings.reference_problem)
    if faulty is not None:
        return faulty
    undecided = [check for check in checks if check.undecided]
    if not undecided:
        return ValidityVerdict.VALID, 0, None
    reason = Reason(ReasonKind.UNDECIDED_CHECKS, more_items=more_items(undecided))
    if findings.clusters < MINIMUM_CLUSTERS:
        reason = replace(reason, kind=ReasonKind.FEW_CLUSTERS, required=MINIMUM_CLUSTERS)
    return ValidityVerdict.INCONCLUSIVE, 2, reason


def decide_numbers(
    checks: Sequence[Check], count: int, reference_problem: Optional[Reason], *, random_weights: bool
) -> Decision:
    """Decide about numbers alone: with random weights, or on the built-in inputs.

    An error beyond the expected rounding error is a fault, whatever the weights and inputs. If the expected rounding
    error is unknown, the verdict is INCONCLUSIVE.
    """
    faulty = _fault(checks, reference_problem)
    if faulty is not None:
        return faulty
    if count < MINIMUM_ITEMS:
        return ValidityVerdict.INCONCLUSIVE, 2, Reason(ReasonKind.FEW_ITEMS, MINIMUM_ITEMS)
    if any(check.undecided and check.name in ("layer_drift", "tensor_error") for check in checks):
        return ValidityVerdict.INCONCLUSIVE, 2, Reason(ReasonKind.UNKNOWN_ROUNDING)
    kind = ReasonKind.RANDOM_WEIGHTS if random_weights else ReasonKind.BUILT_IN_DATA
    return ValidityVerdict.NUMERIC_ONLY, 0, Reason(kind)


def _fault(checks: Sequence[Check], reference_problem: Optional[Reason]) -> Optional[Decision]:
    """The verdict if a check has failed or the reference is broken."""
    failed = {check.name for check in checks if not check.passed and not check.undecided}
    if reference_problem is not None:
        return ValidityVerdict.CANNOT_JUDGE, 2, reference_problem
    if "published" in failed and "finite" not in failed:
        return ValidityVerdict.CANNOT_JUDGE, 2, Reason(ReasonKind.FAR_FROM_PUBLISHED)
    return (ValidityVerdict.NOT_VALID, 1, Reason(ReasonKind.FAILED_CHECKS)) if failed else None
