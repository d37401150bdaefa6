"""What proves the precision of a setting: the canary and the kernel evidence of all of its processes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import KernelDigest, ProofVerdict
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
NO_AUDIT = "no process was audited in full"


@dataclass(frozen=True)
class Proof:
    """The proof of one setting.

    Attributes:
        canary: the verdict of the canary; ``a / b`` if the processes disagree, empty if there was no canary.
        canary_summary: the errors of the first process with the least common verdict.
        sentence: what the evidence says, and whether the processes disagree; why there is none, if there is none.
        verdict: the least favourable verdict. Only the first processes are audited; another one has their verdict if
            it ran the same kernels, and otherwise counts as ``UNKNOWN``. ``None`` if no process was audited.
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
    audited = [report for report in reports if report.evidence is not None]
    if not audited:
        missing = NO_AUDIT if any(report.kernels is not None for report in reports) else ""
        return next((report.evidence_problem for report in reports if report.evidence_problem), missing), None, None
    judged = [_judged(report, audited) for report in reports]
    verdicts = [verdict for verdict, _ in judged]
    worst, sentence = min(judged, key=lambda each: _LEAST_FAVOURABLE_FIRST.index(each[0]))
    if len(set(verdicts)) == 1:
        return sentence + _extent(reports, audited), worst, None
    counts = ", ".join(f"{verdicts.count(each)} × {each}" for each in dict.fromkeys(verdicts))
    return f"{sentence}; the processes disagree: {counts}", worst, warning_for(WarningCode.PROOF_DIFFERS, counts=counts)


def _judged(report: RunReport, audited: Sequence[RunReport]) -> tuple[ProofVerdict, str]:
    """The verdict on one process, and its reason.

    A process that was not audited has the verdict of an audited one if the same kernels ran, with the same precision
    of the canary. If several did, the least favourable verdict counts.
    """
    if report.evidence is not None:
        return report.evidence.verdict, report.evidence.line
    if report.kernels is None:
        return ProofVerdict.UNKNOWN, report.evidence_problem or NO_EVIDENCE
    alike = [each.evidence for each in audited if each.evidence is not None and _ran_the_same(report, each)]
    if alike:
        found = min(alike, key=lambda each: _LEAST_FAVOURABLE_FIRST.index(each.verdict))
        return found.verdict, found.line
    return (
        ProofVerdict.UNKNOWN,
        f"a process that was not audited differs from those that were: {_difference(report, audited[0])}",
    )


def _ran_the_same(report: RunReport, audited: RunReport) -> bool:
    return (
        report.kernels is not None
        and audited.kernels is not None
        and report.kernels.sha256 == audited.kernels.sha256
        and _levels(report) == _levels(audited)
    )


def _levels(report: RunReport) -> dict[str, CanaryLevel]:
    """The precision that each of the canary's operators showed."""
    return {check.operator: check.level for check in report.canary.operators} if report.canary is not None else {}


def _difference(report: RunReport, audited: RunReport) -> str:
    """Say in what ``report`` differs from ``audited``: the kernel that differs most, or the canary."""
    if audited.kernels is None or report.kernels is None:
        return "the audited process has no list of kernels"
    here, there = _calls(report.kernels), _calls(audited.kernels)
    differing = [kernel for kernel in {**there, **here} if here.get(kernel, 0) != there.get(kernel, 0)]
    if differing:
        most = max(differing, key=lambda kernel: abs(here.get(kernel, 0) - there.get(kernel, 0)))
        name, precision = most
        return f"{name} ({precision}) was called {here.get(most, 0)} times, and {there.get(most, 0)} times there"
    if report.kernels.sha256 != audited.kernels.sha256:
        return "the same kernels ran on other shapes"
    operators = [name for name, level in _levels(report).items() if _levels(audited).get(name) is not level]
    return f"the precision of the canary's {', '.join(operators) or 'operators'}"


def _calls(kernels: KernelDigest) -> dict[tuple[str, str], int]:
    return {(each.kernel, each.precision): each.count for each in kernels.kernels}


def _extent(reports: Sequence[RunReport], audited: Sequence[RunReport]) -> str:
    """How many processes were audited, if not all were; that all ran the same kernels, or that audited ones did not."""
    digests = {report.kernels.sha256 for report in reports if report.kernels is not None}
    if len(digests) > 1:
        return "; not all processes ran the same kernels"
    if len(audited) == len(reports) or any(report.kernels is None for report in reports):
        return ""
    return f"; the same kernels ran in all {len(reports)} processes, {len(audited)} of them audited in full"
