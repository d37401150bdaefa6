"""Whether the engine of a setting computes what torch computes, by the processes that compared it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from modelzoo.records.agreement import OutputAgreement
from modelzoo.records.run import RunReport


@dataclass(frozen=True)
class OtherOutputs:
    """It cannot be said that a setting computes what torch does in eager mode.

    Attributes:
        engine: the inference framework; torch is compared with its own eager mode.
        agreement: how far its outputs are off; ``None`` if that is not known.
        problem: why it is not known, as far as a process says so.
    """

    engine: str
    agreement: Optional[OutputAgreement]
    problem: Optional[str] = None


def agreement_of(reports: Sequence[RunReport]) -> Optional[OutputAgreement]:
    """Return how far the outputs of a setting are from torch's: the first comparison, or one over the bound."""
    found = [report.observed.agreement for report in reports if report.observed.agreement is not None]
    return next((each for each in found if each.is_same is False), found[0] if found else None)


def other_outputs(reports: Sequence[RunReport]) -> Optional[OtherOutputs]:
    """Return why it cannot be said that a setting computes what torch does in eager mode; ``None`` if it can.

    Only fp32 has a bound; what bf16 changes is judged by the task.
    """
    exported = next(
        (each for each in reports if each.prepared.export is not None and each.setting.precision == "fp32"), None
    )
    found = agreement_of(reports)
    if found is None and exported is not None:
        problem = next((each.observed.agreement_problem for each in reports if each.observed.agreement_problem), None)
        return OtherOutputs(exported.provenance.engine, None, problem)
    if found is None or found.is_same is not False:
        return None
    return OtherOutputs(exported.provenance.engine if exported is not None else "torch", found)
