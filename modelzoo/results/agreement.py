"""Whether the engine of a setting computes what torch computes, by the processes that compared it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from modelzoo.records.agreement import DETECTED_BOUND, FP32_BOUND, MATCHED_BOUND, OutputAgreement
from modelzoo.records.run import RunReport


def agreement_of(reports: Sequence[RunReport]) -> Optional[OutputAgreement]:
    """Return how far the outputs of a setting are from torch's: the first comparison, or one over the bound."""
    found = [report.observed.agreement for report in reports if report.observed.agreement is not None]
    return next((each for each in found if each.is_same is False), found[0] if found else None)


def other_outputs(reports: Sequence[RunReport]) -> Optional[str]:
    """Return why it cannot be said that a setting computes what torch does in eager mode; ``None`` if it can.

    Only fp32 has a bound; what bf16 changes is judged by the task.
    """
    exported = next(
        (each for each in reports if each.prepared.export is not None and each.setting.precision == "fp32"), None
    )
    found = agreement_of(reports)
    if exported is None:
        if found is None or found.is_same is not False:
            return None
        return f"torch does not compute what it does in eager mode: {found.summary}; {bounds(found)}"
    if found is None:
        problem = next(
            (each.observed.agreement_problem for each in reports if each.observed.agreement_problem),
            "no process compared them",
        )
        return f"it is not known whether {exported.provenance.engine} computes what torch does: {problem}"
    if found.is_same is False:
        return f"{exported.provenance.engine} does not compute what torch does: {found.summary}; {bounds(found)}"
    return None


def bounds(found: OutputAgreement) -> str:
    """Say what would have been the same."""
    worst = found.worst
    allowed = f"at most {worst.bound(FP32_BOUND) if worst else FP32_BOUND:.0e} of mean |output| is rounding"
    if found.detections is None:
        return allowed
    matched = f"{100 * MATCHED_BOUND:.0f} % of the detections must match, with an error of at most {DETECTED_BOUND:.0e}"
    return f"{allowed}, and {matched}"
