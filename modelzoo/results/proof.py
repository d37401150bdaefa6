"""What proves the precision of a setting: the canary and the kernel evidence of all of its processes together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from modelzoo.records.canary import Canary, CanaryLevel, CanaryVerdict
from modelzoo.records.evidence import Evidence, KernelDigest, ProofVerdict
from modelzoo.records.run import Observed, RunReport
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


class UnexplainedOutputs(msgspec.Struct, frozen=True):
    """The model's outputs are not off as the requested precision explains, whatever its audits show.

    Attributes:
        requested: the precision.
        agreement: how far its outputs are from torch's.
    """

    requested: str
    agreement: OutputAgreement


Ground = Evidence | UnexplainedOutputs | str | None
"""What a verdict follows from: an audit, outputs that contradict it, or a sentence: why there was no audit, if that is
known, or what a process without one did otherwise."""


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
    seen = [report.observed for report in reports]
    checked = [(each.canary_verdict, each.canary) for each in seen if each.canary_verdict and each.canary]
    counts = Counter(verdict for verdict, _ in checked)
    _, odd = min(checked, key=lambda each: counts[each[0]], default=(None, None))
    audited = [(each, each.evidence) for each in seen if each.evidence is not None]
    verdict: ProofVerdict | None = None
    ground: Ground = next((each.evidence_problem for each in seen if each.evidence_problem), None)
    judged = [_process(each, audited) for each in seen] if audited else []
    if judged:
        verdict, ground = min(judged, key=lambda each: _LEAST_FAVOURABLE_FIRST.index(each[0]))
    outputs = agreement_of(reports)
    if outputs is not None and outputs.is_explained is False and verdict in _PROVEN:
        verdict, ground = ProofVerdict.UNKNOWN, UnexplainedOutputs(reports[0].setting.precision, outputs)
    digests = [each.kernels.sha256 for each in seen if each.kernels is not None]
    return Proof(
        canaries=tuple(counts),
        canary=odd,
        verdict=verdict,
        ground=ground,
        verdicts=tuple(Counter(each for each, _ in judged).items()),
        processes=len(reports),
        audited=len(audited),
        listed=len(digests),
        kernel_lists=len(set(digests)),
        reference_share=max((evidence.reference_share for _, evidence in audited), default=0.0),
        outputs=outputs,
    )


def _process(seen: Observed, audited: Sequence[tuple[Observed, Evidence]]) -> tuple[ProofVerdict, Ground]:
    """The verdict on one process, and what it follows from.

    A process that was not audited has the verdict of an audited one if the same kernels ran, with the same precision
    of the canary. If several did, the least favourable verdict counts.
    """
    if seen.evidence is not None:
        return seen.evidence.verdict, seen.evidence
    if seen.kernels is None:
        return ProofVerdict.UNKNOWN, seen.evidence_problem
    alike = [
        evidence
        for other, evidence in audited
        if other.kernels is not None and other.kernels.sha256 == seen.kernels.sha256 and _levels(other) == _levels(seen)
    ]
    if alike:
        worst = min(alike, key=lambda each: _LEAST_FAVOURABLE_FIRST.index(each.verdict))
        return worst.verdict, worst
    other = _difference(seen, seen.kernels, audited[0][0])
    return ProofVerdict.UNKNOWN, f"a process that was not audited differs from those that were: {other}"


def _levels(seen: Observed) -> dict[str, CanaryLevel]:
    """The precision that each of the canary's operators showed."""
    return {check.operator: check.level for check in seen.canary.operators} if seen.canary is not None else {}


def _difference(seen: Observed, kernels: KernelDigest, audited: Observed) -> str:
    """In what a process with ``kernels`` differs from an audited one: the kernel that differs most, or the canary."""
    if audited.kernels is None:
        return "the audited process has no list of kernels"
    here, there = _calls(kernels), _calls(audited.kernels)
    most = max({**there, **here}, key=lambda kernel: abs(here[kernel] - there[kernel]), default=None)
    if most is not None and here[most] != there[most]:
        return f"{most[0]} ({most[1]}) was called {here[most]} times, and {there[most]} times there"
    if kernels.sha256 != audited.kernels.sha256:
        return "the same kernels ran on other shapes"
    checks = [name for name, level in _levels(seen).items() if _levels(audited).get(name) is not level]
    return f"the precision of the canary's {', '.join(checks) or 'operators'}"


def _calls(kernels: KernelDigest) -> Counter[tuple[str, str]]:
    return Counter({(each.kernel, each.precision): each.count for each in kernels.kernels})
