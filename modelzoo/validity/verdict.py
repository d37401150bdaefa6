"""From findings to a verdict: the checks and rules that all tasks share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Optional

from modelzoo.frozen import replace
from modelzoo.records.partial import LayerError, PartialResult
from modelzoo.records.validity import Check, MetricChange, Relation, Validity, ValidityRequest, ValidityVerdict
from modelzoo.validity import explain
from modelzoo.validity.changes import change_tables, resolution, unseen_losses, with_allowed_losses
from modelzoo.validity.classes import SHOWN, class_tables
from modelzoo.validity.protocol import Findings, JudgingTask
from modelzoo.validity.sampled import MINIMUM_CLUSTERS, more_items, on_few_clusters
from modelzoo.validity.thresholds import SAME_DIRECTION, check_value

MINIMUM_ITEMS = 2
"""Items that any pass requires: one picture is never enough."""
NO_BASELINE = "nothing says what rounding explains"


def conclude(task: JudgingTask, result: PartialResult, findings: Findings) -> Validity:
    """Complete the checks, decide, and put everything into one record."""
    context, request = task.context, task.context.request
    count = len(result.classified) + len(result.detected) + len(result.answered)
    checks = [finite_check(findings.nonfinite, count, result.layers)]
    metric, reference, tested = findings.metric, findings.reference, findings.tested
    numeric_only = request.weights_are_random or request.data is None
    items = "crops" if "crops" in findings.counts else f"{task.item_name}s"
    if request.weights_are_random:
        checks.append(tensor_check(result.layers, request.tolerance))
        metric, reference, tested = "tensor_error", None, checks[-1].seen
    else:
        checks += [common_check(findings.in_common), *sampled_checks(findings, count, numeric_only=numeric_only)]
        checks += layer_checks(result.layers, request.tolerance, numeric_only=numeric_only)
    # With random weights there is no quality that could change.
    changes = () if request.weights_are_random else with_allowed_losses(findings.changes, checks)
    classes = () if request.weights_are_random else findings.classes
    main = next((each for each in changes if each.metric == metric), None)
    if numeric_only:
        found = decide_numbers(checks, count, items, findings.reference_problem, main)
    else:
        found = decide(checks, findings, items)
    verdict, exit_code, reason = found
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
        resolution=resolution(main, items) if main is not None else "",
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

    Layers of which nothing says what rounding explains are left out. If they are all that is judged, the check is
    undecided.
    """
    drift = _drift_check("layer_drift", layers, tolerance)
    if drift.undecided and not numeric_only:
        layers = [layer for layer in layers if layer.baseline is not None]
        drift = _drift_check("layer_drift", layers, tolerance)
    if not layers:
        return [drift] if numeric_only else []
    largest = max(layers, key=lambda layer: layer.excess_scale)
    scale = f"{SAME_DIRECTION}; seen in {largest.name}"
    return [check_value("layer_scale", largest.excess_scale, tolerance, source=scale), drift]


def tensor_check(layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> Check:
    """The only check with random weights: the largest error of the layers and of the output."""
    return _drift_check("tensor_error", layers, tolerance)


def _drift_check(name: str, layers: Sequence[LayerError], tolerance: Mapping[str, float]) -> Check:
    """Check the largest error; undecided without layers, or if it passes and the baseline of some layer is unknown."""
    known = [layer for layer in layers if layer.baseline is not None or layer.error is None]
    unknown = next((layer.name for layer in layers if layer.baseline is None), "")
    where = f"{NO_BASELINE} in {unknown}" if unknown else f"no output was compared, so {NO_BASELINE}"
    if not known:
        return replace(check_value(name, None, tolerance, source=where), undecided=True)
    worst = max(known, key=lambda layer: math.inf if layer.ratio is None else layer.ratio)
    explained = "nothing" if worst.baseline is None else f"an error of {worst.baseline:.2g}"
    found = check_value(name, worst.ratio, tolerance, source=f"rounding explains {explained}; seen in {worst.name}")
    if found.passed and unknown:
        return replace(found, passed=False, undecided=True, source=where)
    return found


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
    source = f"published {100 * published:.2f}, here {100 * seen:.2f}; sample of {clusters}: margin {100 * margin:.1f}"
    return [check_value("published", (published - seen) / margin, request.tolerance, source=source)]


Decision = tuple[ValidityVerdict, int, str]
"""Verdict, exit code, reason."""


def decide(checks: Sequence[Check], findings: Findings, items: str) -> Decision:
    """Decide about predictions on the user's data.

    A failed check of the tested model gives NOT VALID. VALID requires that all have passed; if some are undecided, the
    verdict is INCONCLUSIVE. A reference that is itself broken (NaN, nothing detected, far from the published quality)
    gives CANNOT JUDGE.

    Args:
        items: what is counted, in the plural.
    """
    faulty = _fault(checks, findings.reference_problem)
    if faulty is not None:
        return faulty
    undecided = [check for check in checks if check.undecided]
    if not undecided:
        return ValidityVerdict.VALID, 0, ""
    needed = more_items(undecided)
    needs = "" if needed is None else f"; about {_two_digits(needed):,} more {items} would decide"
    if findings.clusters < MINIMUM_CLUSTERS:
        few = f"{findings.clusters} {findings.cluster_name}{'' if findings.clusters == 1 else 's'}"
        reason = f"{few} of the {MINIMUM_CLUSTERS} that a verdict requires"
        return ValidityVerdict.INCONCLUSIVE, 2, reason + needs
    reason = "; ".join(f"{_failure(check)}, and may be {_number(check.bound)}" for check in undecided)
    return ValidityVerdict.INCONCLUSIVE, 2, reason + needs


def decide_numbers(
    checks: Sequence[Check], count: int, items: str, reference_problem: str, main: Optional[MetricChange]
) -> Decision:
    """Decide about numbers alone: with random weights, or on the built-in inputs.

    What rounding does not explain is a fault, whatever the weights and inputs. If nothing says what rounding explains,
    the verdict is INCONCLUSIVE.

    Args:
        items: what is counted, in the plural.
        main: the change of the metric that would decide; ``None`` with random weights.
    """
    faulty = _fault(checks, reference_problem)
    if faulty is not None:
        return faulty
    if count < MINIMUM_ITEMS:
        return ValidityVerdict.INCONCLUSIVE, 2, f"one of the {items} is never enough: give at least {MINIMUM_ITEMS}"
    numeric = [check for check in checks if check.undecided and check.name in ("layer_drift", "tensor_error")]
    if numeric:
        return ValidityVerdict.INCONCLUSIVE, 2, f"{numeric[0].title}: {numeric[0].source}"
    if main is None:
        reason = "random weights: numbers agree, predictions mean nothing"
    elif main.possible_loss is None:
        reason = "accuracy not judged"
    else:
        reason = f"accuracy not judged: {unseen_losses(main, items)}"
    return ValidityVerdict.NUMERIC_ONLY, 0, reason


def _fault(checks: Sequence[Check], reference_problem: str) -> Optional[Decision]:
    """The verdict if a check has failed or the reference is broken."""
    failed = [check for check in checks if not check.passed and not check.undecided]
    names = {check.name for check in failed}
    reason = "; ".join(_failure(check) for check in failed)
    if "finite" in names:
        return ValidityVerdict.NOT_VALID, 1, reason
    if reference_problem:
        return ValidityVerdict.CANNOT_JUDGE, 2, reference_problem
    if "published" in names:
        reason = f"fp32 itself is far from the published quality: a broken set-up; {reason}"
        return ValidityVerdict.CANNOT_JUDGE, 2, reason
    return (ValidityVerdict.NOT_VALID, 1, reason) if failed else None


def _two_digits(count: int) -> int:
    """``count`` rounded up to two significant digits."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // unit) * unit


def _failure(check: Check) -> str:
    return f"{check.title} is {_number(check.seen)}, required {check.relation.value} {check.required:.4g}"


def _number(value: Optional[float]) -> str:
    return "none" if value is None else f"{value:.4g}"
