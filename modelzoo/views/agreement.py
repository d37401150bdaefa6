"""How far outputs are from torch's, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from modelzoo.formatting import Merged
from modelzoo.records.agreement import (
    DETECTED_BOUND,
    FP32_BOUND,
    INPUT_CHANGE,
    MATCHED_BOUND,
    MatchedDetections,
    OutputAgreement,
    OutputError,
)
from modelzoo.results.agreement import OtherOutputs


def agreement_text(found: Sequence[OutputAgreement]) -> str:
    """The errors of the worst array of each, and how many detections match; numbers that differ are a range."""
    if len({_kind(each) for each in found}) > 1:
        return "; ".join(dict.fromkeys(agreement_text([each]) for each in found))
    worst = [each.worst for each in found if each.worst is not None]
    detections = [each.detections for each in found if each.detections is not None]
    if not worst and not detections:
        return "no outputs were compared"
    text = _errors(worst, is_named=len(found[0].outputs) > 1) if worst else "the raw heads were not compared"
    if not detections:
        return text
    return f"{text}{' before NMS' if worst else ''}; {_detections(detections)}"


def _kind(found: OutputAgreement) -> tuple[Optional[str], ...]:
    """Agreements of different kinds have no text in common."""
    worst, errors = found.worst, found.detections.errors if found.detections is not None else None
    magnified = worst is not None and worst.bound(FP32_BOUND) > FP32_BOUND
    kind = "" if worst is None else "not finite" if worst.relative is None else "magnified" if magnified else "finite"
    of_detections = None if errors is None else "not finite" if any(e.relative is None for e in errors) else "finite"
    return kind, of_detections, "several" if len(found.outputs) > 1 else "one"


def _errors(worst: Sequence[OutputError], *, is_named: bool) -> str:
    names = Merged(int(each.name) if each.name.isdigit() else each.name for each in worst)
    relative = [each.relative for each in worst if each.relative is not None]
    if not relative:
        return f"output {names} is not finite, or has another shape"
    mean = Merged(each.mean_error for each in worst if each.mean_error is not None)
    text = f"mean error ÷ mean |output| {Merged(relative):.1e}, mean error {mean:.1e}"
    text += f" (output {names})" if is_named else ""
    if worst[0].bound(FP32_BOUND) > FP32_BOUND:
        caused = Merged(each.sensitivity for each in worst if each.sensitivity is not None)
        text += f", where inputs that differ by {INPUT_CHANGE:.0e} cause {caused:.1e}"
    return text


def _detections(found: Sequence[MatchedDetections]) -> str:
    values = [error.relative for each in found for error in each.errors]
    largest = [max((e.relative for e in each.errors if e.relative is not None), default=0.0) for each in found]
    error = "not finite" if None in values else f"{Merged(largest):.1e}"
    matched, expected = Merged(each.matched for each in found), Merged(each.expected for each in found)
    return (
        f"{matched} of {expected} detections match ({Merged(each.found for each in found)} found), their error {error}"
    )


def other_outputs_text(found: OtherOutputs) -> str:
    """Why it cannot be said that a setting computes what torch does in eager mode."""
    if found.agreement is None:
        problem = found.problem or "no process compared them"
        return f"it is not known whether {found.engine} computes what torch does: {problem}"
    whose = "it does in eager mode" if found.engine == "torch" else "torch does"
    said = f"{found.engine} does not compute what {whose}: {agreement_text([found.agreement])}"
    return f"{said}; {bounds_text(found.agreement)}"


def bounds_text(found: OutputAgreement) -> str:
    """What would have been the same."""
    worst = found.worst
    allowed = f"at most {worst.bound(FP32_BOUND) if worst else FP32_BOUND:.0e} of mean |output| is rounding"
    if found.detections is None:
        return allowed
    matched = f"{100 * MATCHED_BOUND:.0f} % of the detections must match, with an error of at most {DETECTED_BOUND:.0e}"
    return f"{allowed}, and {matched}"
