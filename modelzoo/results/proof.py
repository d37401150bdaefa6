"""What proves the precision of a setting: the canary and the kernel evidence of all of its processes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import RunReport
from modelzoo.warning import WarningCode, WarningMessage, warning_for

_LEAST_FAVOURABLE_FIRST = (
    ProofVerdict.NOT_FP32,
    ProofVerdict.NOT_ACTIVE,
    ProofVerdict.UNKNOWN,
    ProofVerdict.PARTLY,
    ProofVerdict.FP32,
    ProofVerdict.ACTIVE,
)
NO_EVIDENCE = "no kernel evidence was taken"


@dataclass(frozen=True)
class Proof:
    """The proof of one setting.

    Attributes:
        canary: the verdict of the canary; ``a / b`` if the processes disagree, empty if there was no canary.
        canary_summary: the errors of the first process with the least common verdict.
        sentence: what the evidence says, and whether the processes disagree; why there is none, if there is none.
        verdict: the least favourable verdict; a process without evidence counts as ``UNKNOWN`` if others have some.
            ``None`` if no process has any.
        reference_share: the largest share of a process's time in reference kernels, 0 to 1.
        warning: that the processes disagree.
    """

    canary: str
    canary_summary: str
    sentence: str
    verdict: Optional[ProofVerdict]
    reference_share: float
    warning: Optional[WarningMessage] = None


def merged_proof(reports: Sequence[RunReport]) -> Proof:
    """Merge what the processes of one setting prove: none counts for more than another."""
    canary, canary_summary = _canary(reports)
    sentence, verdict, warning = _kernels(reports)
    shares = [report.evidence.reference_share for report in reports if report.evidence is not None]
    return Proof(canary, canary_summary, sentence, verdict, max(shares, default=0.0), warning)


def _canary(reports: Sequence[RunReport]) -> tuple[str, str]:
    checked = [report for report in reports if report.canary is not None and report.canary_verdict is not None]
    if not checked:
        return "", ""
    verdicts = [str(report.canary_verdict) for report in checked]
    rarest = min(range(len(checked)), key=lambda index: verdicts.count(verdicts[index]))
    canary = checked[rarest].canary
    return " / ".join(dict.fromkeys(verdicts)), canary.summary if canary is not None else ""


def _kernels(reports: Sequence[RunReport]) -> tuple[str, Optional[ProofVerdict], Optional[WarningMessage]]:
    if not any(report.evidence is not None for report in reports):
        return next((report.evidence_problem for report in reports if report.evidence_problem), ""), None, None
    judged = [_judged(report) for report in reports]
    verdicts = [verdict for verdict, _ in judged]
    worst, sentence = min(judged, key=lambda each: _LEAST_FAVOURABLE_FIRST.index(each[0]))
    if len(set(verdicts)) == 1:
        return sentence, worst, None
    counts = ", ".join(f"{verdicts.count(each)} × {each}" for each in dict.fromkeys(verdicts))
    return f"{sentence}; the processes disagree: {counts}", worst, warning_for(WarningCode.PROOF_DIFFERS, counts=counts)


def _judged(report: RunReport) -> tuple[ProofVerdict, str]:
    if report.evidence is not None:
        return report.evidence.verdict, report.evidence.line
    return ProofVerdict.UNKNOWN, report.evidence_problem or NO_EVIDENCE
