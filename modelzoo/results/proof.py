"""What proves the precision of a setting: the canary and the kernel evidence of all of its processes together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from modelzoo.records.canary import Canary, CanaryLevel, CanaryVerdict
from modelzoo.records.evidence import Evidence, KernelDigest, ProofVerdict
from modelzoo.records.run import RunReport
from modelzoo.records.workload import OutputAgreement
from modelzoo.warning import WarningCode, WarningMessage, warning_for

_LEAST_FAVOURABLE_FIRST = (
    ProofVerdict.WRONG_RESULTS,
    ProofVerdict.NOT_FP32,
    ProofVerdict.NOT_ACTIVE,
    ProofVerdict.UNKNOWN,
    ProofVerdict.PARTLY,
    ProofVerdict.FP32,
    ProofVerdict.ACTIVE,
)
_PROVEN = (ProofVerdict.PARTLY, ProofVerdict.FP32, ProofVerdict.ACTIVE)


class OtherKernels(msgspec.Struct, frozen=True):
    """In what a process that was not audited differs from one that was; in the shapes if all fields are empty.

    Attributes:
        kernel: the name and the precision of the kernel whose number of calls differs most.
        calls: how often the process called it, and how often the audited one did.
        checks: the canary's operators that ran in another precision.
        is_listed: whether the audited process has a list of kernels.
    """

    kernel: tuple[str, str] | None = None
    calls: tuple[int, int] = (0, 0)
    checks: tuple[str, ...] = ()
    is_listed: bool = True


class UnexplainedOutputs(msgspec.Struct, frozen=True):
    """The model's outputs are not off as the requested precision explains, whatever its audits show.

    Attributes:
        requested: the precision.
        agreement: how far its outputs are from torch's.
    """

    requested: str
    agreement: OutputAgreement


Ground = Evidence | OtherKernels | UnexplainedOutputs | str | None
"""What a verdict follows from: an audit, other kernels than those of the audits, outputs that contradict them, or why
there was no audit, if that is known."""


class Proof(msgspec.Struct, frozen=True):
    """The proof of one setting.

    Attributes:
        canaries: the verdicts of the canary, each once; several if the processes disagree.
        canary: the errors of the first process with the least common verdict.
        verdict: the least favourable verdict. Only the first processes are audited; another one has their verdict if
            it ran the same kernels, and otherwise counts as ``UNKNOWN``. ``None`` if no process was audited.
        ground: what ``verdict`` follows from.
        verdicts: how many processes have which verdict, in the order of the processes.
        processes: number of processes.
        audited: how many of them were audited in full.
        listed: how many of them have a list of kernels.
        kernel_lists: how many of these lists are different.
        reference_share: the largest share of a process's time in reference kernels, 0 to 1.
        outputs: how far the outputs are from torch's; ``None`` if they were not compared.
    """

    canaries: tuple[CanaryVerdict, ...] = ()
    canary: Canary | None = None
    verdict: ProofVerdict | None = None
    ground: Ground = None
    verdicts: tuple[tuple[ProofVerdict, int], ...] = ()
    processes: int = 0
    audited: int = 0
    listed: int = 0
    kernel_lists: int = 0
    reference_share: float = 0.0
    outputs: OutputAgreement | None = None

    @property
    def warning(self) -> WarningMessage | None:
        """That the processes disagree."""
        if len(self.verdicts) < 2:
            return None
        counts = ", ".join(f"{count} × {verdict}" for verdict, count in self.verdicts)
        return warning_for(WarningCode.PROOF_DIFFERS, counts=counts)


def agreement_of(reports: Sequence[RunReport]) -> OutputAgreement | None:
    """Return how far the outputs of a setting are from torch's: the first comparison, or one that is not explained."""
    agreements = [report.observed.agreement for report in reports if report.observed.agreement is not None]
    doubtful = (each for each in agreements if False in (each.is_same, each.is_explained))
    return next(doubtful, agreements[0] if agreements else None)


def merged_proof(reports: Sequence[RunReport]) -> Proof:
    """Merge what the processes of one setting prove: none counts for more than another."""
    checked = [
        (each.observed.canary_verdict, each.observed.canary)
        for each in reports
        if each.observed.canary_verdict and each.observed.canary
    ]
    counts = Counter(verdict for verdict, _ in checked)
    _, odd = min(checked, key=lambda each: counts[each[0]], default=(None, None))
    audited = [report for report in reports if report.observed.evidence is not None]
    verdict, ground, verdicts = _judged(reports, audited)
    outputs = agreement_of(reports)
    if outputs is not None and outputs.is_explained is False and verdict in _PROVEN:
        verdict, ground = ProofVerdict.UNKNOWN, UnexplainedOutputs(reports[0].setting.precision, outputs)
    digests = [report.observed.kernels.sha256 for report in reports if report.observed.kernels is not None]
    return Proof(
        canaries=tuple(counts),
        canary=odd,
        verdict=verdict,
        ground=ground,
        verdicts=verdicts,
        processes=len(reports),
        audited=len(audited),
        listed=len(digests),
        kernel_lists=len(set(digests)),
        reference_share=max(
            (each.observed.evidence.reference_share for each in audited if each.observed.evidence), default=0.0
        ),
        outputs=outputs,
    )


def _judged(
    reports: Sequence[RunReport], audited: Sequence[RunReport]
) -> tuple[ProofVerdict | None, Ground, tuple[tuple[ProofVerdict, int], ...]]:
    if not audited:
        problems = (report.observed.evidence_problem for report in reports)
        return None, next(filter(None, problems), None), ()
    judged = [_process(report, audited) for report in reports]
    verdict, ground = min(judged, key=lambda each: _LEAST_FAVOURABLE_FIRST.index(each[0]))
    return verdict, ground, tuple(Counter(each for each, _ in judged).items())


def _process(report: RunReport, audited: Sequence[RunReport]) -> tuple[ProofVerdict, Ground]:
    """The verdict on one process, and what it follows from.

    A process that was not audited has the verdict of an audited one if the same kernels ran, with the same precision
    of the canary. If several did, the least favourable verdict counts.
    """
    if report.observed.evidence is not None:
        return report.observed.evidence.verdict, report.observed.evidence
    if report.observed.kernels is None:
        return ProofVerdict.UNKNOWN, report.observed.evidence_problem
    alike = [
        each.observed.evidence
        for each in audited
        if each.observed.evidence is not None
        and each.observed.kernels is not None
        and each.observed.kernels.sha256 == report.observed.kernels.sha256
        and _levels(each) == _levels(report)
    ]
    if alike:
        worst = min(alike, key=lambda each: _LEAST_FAVOURABLE_FIRST.index(each.verdict))
        return worst.verdict, worst
    return ProofVerdict.UNKNOWN, _difference(report, audited[0])


def _levels(report: RunReport) -> dict[str, CanaryLevel]:
    """The precision that each of the canary's operators showed."""
    canary = report.observed.canary
    return {} if canary is None else {check.operator: check.level for check in canary.operators}


def _difference(report: RunReport, audited: RunReport) -> OtherKernels:
    """In what ``report`` differs from ``audited``: the kernel that differs most, or the canary."""
    if audited.observed.kernels is None or report.observed.kernels is None:
        return OtherKernels(is_listed=False)
    here, there = _calls(report.observed.kernels), _calls(audited.observed.kernels)
    differing = [kernel for kernel in {**there, **here} if here.get(kernel, 0) != there.get(kernel, 0)]
    if differing:
        most = max(differing, key=lambda kernel: abs(here.get(kernel, 0) - there.get(kernel, 0)))
        return OtherKernels(most, (here.get(most, 0), there.get(most, 0)))
    if report.observed.kernels.sha256 != audited.observed.kernels.sha256:
        return OtherKernels()
    checks = (name for name, level in _levels(report).items() if _levels(audited).get(name) is not level)
    return OtherKernels(checks=tuple(checks) or ("operators",))


def _calls(kernels: KernelDigest) -> dict[tuple[str, str], int]:
    return {(each.kernel, each.precision): each.count for each in kernels.kernels}
