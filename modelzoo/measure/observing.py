"""Look at what ran, after the timing: canary, kernels, operations, profile, and how far the outputs are from torch's.

The outputs of an exported model are compared with those that torch computed from the same batch, stored with the
export. Errors are means over all values of an array: a few large ones do not decide, and a layer whose weights are off
by 1 % shows. Pure numpy; torch is not imported.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modelzoo.engines.export.source import CHANGED, ROUNDED, rebuild
from modelzoo.engines.export.store import read_batch, read_expected
from modelzoo.engines.protocol import RawOutputs, Session, value_and_problem
from modelzoo.evidence.logs import RANDOM_OUTPUTS
from modelzoo.evidence.recording import Phases
from modelzoo.frozen import replace
from modelzoo.measure.pipeline import Generating
from modelzoo.measure.preparation import Built
from modelzoo.records.protocol import Looks, Progress, Send
from modelzoo.records.run import Observed, Prepared
from modelzoo.records.run_report import GenerationPhase
from modelzoo.records.workload import Export, MatchedDetections, OutputAgreement, OutputError
from modelzoo.warning import WarningCode, warning_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Sequence[NDArray[Any]]


SAME_IOU = 0.99
"""Boxes with less overlap are no match: rounding in fp32 moves an edge by about 1e-5 of the box."""
_LABELS, _BOXES, _SCORES = "labels", "boxes", "scores"
Pictures = Sequence[Mapping[str, Any]]
"""The detections of each picture, as torchvision's detectors return them: arrays with a row for each detection."""


def output_agreement(export: Export | None, outputs: RawOutputs, precision: str) -> OutputAgreement:
    """Return how far ``outputs`` is from what the torch module computes from the same batch in fp32, eager.

    Args:
        export: with torch's outputs; ``None``: ``outputs`` has them, with the ``structure``, and of a detector the
            detections alone, because its raw heads cannot be observed.
        outputs: what the engine computed.
        precision: of ``outputs``; only fp32 has a bound.

    Raises:
        EnvironmentProblem: the export's files are gone.
    """
    heads: tuple[str, ...] = ()
    if export is None:
        assert outputs.structure is not None, "a model that knows what is expected knows the structure"
        structure, expected = outputs.structure, RawOutputs(outputs.expected)
        changed, rounded = (RawOutputs(each) if each else None for each in (outputs.changed, outputs.rounded))
    else:
        batch = read_batch(export)
        structure, heads, expected, changed = batch.outputs, batch.heads, read_expected(export), None
        if (other := read_expected(export, CHANGED)).outputs:
            changed = other
        rounded = read_expected(export, ROUNDED) if precision == "bf16" else None
    detects = bool(heads) if export is not None else _are_pictures(rebuild(structure, expected.outputs))
    part, names = ("heads", heads) if detects else ("outputs", structure.names())
    base, *others = (() if each is None else getattr(each, part) for each in (expected, outputs, changed, rounded))
    compared = zip(*(output_errors(names, base, each) for each in others))
    errors = tuple(replace(own, sensitivity=by.relative, rounding=off.relative) for own, by, off in compared)
    detections = None
    if detects:
        pictures = [rebuild(structure, each.outputs) for each in (expected, outputs, changed) if each is not None]
        detections = matched_detections(*pictures[:2])
        caused = matched_detections(pictures[0], pictures[2]).errors if changed is not None else ()
        known = {each.name: each.relative for each in caused}
        matched = tuple(replace(each, sensitivity=known.get(each.name)) for each in detections.errors)
        detections = replace(detections, errors=matched)
    return OutputAgreement(errors, precision == "fp32", detections)


def _are_pictures(output: Any) -> bool:
    return isinstance(output, list) and all(
        isinstance(each, Mapping) and {_BOXES, _SCORES, _LABELS} <= set(each) for each in output
    )


def output_errors(names: Sequence[str], expected: Arrays, found: Arrays) -> tuple[OutputError, ...]:
    """Return the error of each array; arrays that the engine does not return are errors too."""
    missing = [None] * (len(expected) - len(found))
    return tuple(output_error(*each) for each in zip(names, expected, [*found, *missing]))


def output_error(name: str, expected: NDArray[Any], found: NDArray[Any] | None) -> OutputError:
    """Return the error of ``found``; values that are NaN, or the same infinity, in both are left out."""
    import numpy as np

    size = int(expected.size)
    if found is not None and found.shape == expected.shape and expected.dtype.kind == "f":
        alike = ~np.isfinite(expected) & ((expected == found) | (np.isnan(expected) & np.isnan(found)))
        if alike.any():
            expected, found = expected[~alike], found[~alike]
    if expected.size == 0 and found is not None and found.shape == expected.shape:
        return OutputError(name, size, 0.0, 0.0, 0.0)
    mean = _finite(np.abs(expected).mean(dtype="float64")) if expected.size else 0.0
    if found is None or found.shape != expected.shape:
        return OutputError(name, size, None, mean, None)
    # Differences of fp32 values that are nearly equal are exact in fp32.
    kind = expected.dtype if expected.dtype.kind == "f" else "float64"
    errors = np.abs(found.astype(kind, copy=False) - expected.astype(kind, copy=False))
    return OutputError(name, size, _finite(errors.mean(dtype="float64")), mean, _finite(errors.max(initial=0)))


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def matched_detections(expected: Pictures, found: Pictures) -> MatchedDetections:
    """Match the detections of each picture by class and box, and compare boxes, scores and masks of the pairs."""
    import numpy as np

    from modelzoo.validity.detection_figures import Detections, match  # half of all that a worker imports of the suite

    def detections(picture: Mapping[str, Any]) -> Detections:
        return Detections(picture[_BOXES], picture[_SCORES], picture[_LABELS])

    compared = [key for key in expected[0] if key != _LABELS] if expected else []
    rows: dict[str, tuple[list[NDArray[Any]], list[NDArray[Any]]]] = {key: ([], []) for key in compared}
    matched = 0
    for theirs, ours in zip(expected, found):
        pairs = [
            (pair.reference_row, pair.tested_row)
            for pair in match(detections(theirs), detections(ours), 0.0).pairs
            if pair.iou >= SAME_IOU
        ]
        matched += len(pairs)
        for key, (before, after) in rows.items():
            before += [theirs[key][row] for row, _ in pairs]
            after += [ours[key][row] for _, row in pairs]
    errors = [
        # Masks of different pictures have different sizes.
        output_error(key, *(np.concatenate([np.ravel(each) for each in side]) for side in sides))
        for key, sides in rows.items()
        if sides[0]
    ]
    here, there = (sum(len(each[_SCORES]) for each in pictures) for pictures in (expected, found))
    return MatchedDetections(here, there, matched, tuple(errors))


def observe(built: Built, session: Session, prepared: Prepared, looks: Looks, send: Send) -> Observed:
    """Look at what ran, after the timing and in the session that is still active."""
    model, args = built.model, built.args
    canary, canary_problem = value_and_problem(session.canary())
    observed = Observed(
        canary=canary,
        canary_problem=canary_problem,
        canary_verdict=None if canary is None else canary.verdict(prepared.setting.precision),
        counts=model.counts(args, built.inputs.items) if looks.extras else (),
        evidence_problem=canary_problem,
    )
    if looks.audit:
        shortened = model if built.generating is None else built.generating.shortest()
        kernels, _ = value_and_problem(shortened.kernels(args))
        observed = replace(observed, kernels=kernels)
    generating = built.generating if looks.extras else None
    cache: list[int | None] = []
    if generating is not None and looks.audit and looks.full_audit:
        observed = _with_phases(observed, generating, cache)
    # Without a digest only an audit can show which kernels ran.
    if looks.audit and observed.evidence is None and (looks.full_audit or observed.kernels is None):
        evidence, problem = value_and_problem(model.audit(args, canary=canary, replay=looks.extras))
        observed = replace(observed, evidence=evidence, evidence_problem=problem or canary_problem)
    if looks.audit and looks.extras and observed.flops is None:
        flops, problem = value_and_problem(model.flops(args))
        observed = replace(observed, flops=flops, flops_problem=problem)
    if generating is not None:
        observed = replace(observed, decoding=generating.bytes_read(cache))
    if looks.profiling and looks.extras:
        send(Progress("profile"))
        profile, problem = value_and_problem(model.profile(args, evidence=observed.evidence))
        observed = replace(observed, profile=profile, profile_problem=problem)
    warnings = list(built.model.warnings())
    if built.changes_inputs:
        warnings.append(warning_for(WarningCode.CHANGED_INPUTS))
    if _is_random(observed):
        detail = "its outputs differ although its inputs are equal"
        warnings.append(warning_for(WarningCode.NOT_REPEATABLE, detail=detail))
    return replace(observed, warnings=tuple(warnings))


def _is_random(observed: Observed) -> bool:
    """Whether the outputs of passes on the same inputs were seen to differ."""
    return observed.evidence is not None and RANDOM_OUTPUTS in observed.evidence.problems


def _with_phases(observed: Observed, generating: Generating, cache: list[int | None]) -> Observed:
    """``observed``, with the audit of a generation, and of its prefill and its decoding, whose kernels are others.

    ``cache`` receives what the steps of a whole generation read.
    """
    phases = Phases()
    whole, args = generating.noting(phases, cache), generating.args
    evidence, alone = whole.audit_phases(args, phases, canary=observed.canary)
    flops, flops_problem = value_and_problem(whole.flops(args))
    found = tuple(
        GenerationPhase(name, *value_and_problem(proven), value_and_problem(counted)[0])
        for name, (proven, counted) in alone.items()
    )
    combined, problem = value_and_problem(evidence)
    return replace(
        observed,
        evidence=combined,
        evidence_problem=problem or observed.canary_problem,
        flops=flops,
        flops_problem=flops_problem,
        phases=found,
    )


def with_agreement(observed: Observed, built: Built, prepared: Prepared, looks: Looks, send: Send) -> Observed:
    """``observed``, with how far the outputs of a model that is exported, compiled or in bf16 are from those of the
    torch module in fp32.

    Comparing them takes memory that running the model does not: read ``peak_memory`` before.
    """
    setting, export = prepared.setting, prepared.export
    is_plain = setting == setting.reference() or setting.precision not in ("fp32", "bf16")
    if not looks.extras or (export is None and is_plain):
        return observed
    if _is_random(observed):
        return replace(observed, agreement_problem=RANDOM_OUTPUTS)
    send(Progress("compare outputs"))
    with built.model.explained_errors():
        outputs, problem = value_and_problem(built.model.outputs(built.args))
    if outputs is None:
        return replace(observed, agreement_problem=problem)
    return replace(observed, agreement=output_agreement(export, outputs, setting.precision))


def peak_memory() -> int:
    """The most memory that this process has occupied, in bytes."""
    import resource

    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
