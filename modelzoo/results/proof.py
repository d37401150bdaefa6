"""What proves the precision of a setting: the canary and the kernel evidence of all of its processes together.
Of instances, whether they ran as was planned: the same kernels, on their own CPUs, with their memory there. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from modelzoo.records.canary import Canary, CanaryLevel, CanaryVerdict
from modelzoo.records.evidence import Evidence, KernelDigest, ProofVerdict
from modelzoo.records.machine import Placement
from modelzoo.records.race import InstancePlace, InstanceRun
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
    return ProofVerdict.UNKNOWN, _difference(seen, seen.kernels, audited[0][0])


def _levels(seen: Observed) -> dict[str, CanaryLevel]:
    """The precision that each of the canary's operators showed."""
    return {check.operator: check.level for check in seen.canary.operators} if seen.canary is not None else {}


def _difference(seen: Observed, kernels: KernelDigest, audited: Observed) -> OtherKernels:
    """In what a process with ``kernels`` differs from an audited one: the kernel that differs most, or the canary."""
    if audited.kernels is None:
        return OtherKernels(is_listed=False)
    here, there = _calls(kernels), _calls(audited.kernels)
    differing = [kernel for kernel in {**there, **here} if here.get(kernel, 0) != there.get(kernel, 0)]
    if differing:
        most = max(differing, key=lambda kernel: abs(here.get(kernel, 0) - there.get(kernel, 0)))
        return OtherKernels(most, (here.get(most, 0), there.get(most, 0)))
    if kernels.sha256 != audited.kernels.sha256:
        return OtherKernels()
    checks = (name for name, level in _levels(seen).items() if _levels(audited).get(name) is not level)
    return OtherKernels(checks=tuple(checks) or ("operators",))


def _calls(kernels: KernelDigest) -> dict[tuple[str, str], int]:
    return {(each.kernel, each.precision): each.count for each in kernels.kernels}


class InstanceKernels(msgspec.Struct, frozen=True):
    """Whether every instance ran the kernels of the one that was audited in full.

    Attributes:
        instances: how many there were in all rounds.
        is_known: whether the kernels of the audited one are known.
        unlike: the places of those that ran other kernels.
        unknown: how many of them did not say which kernels they ran.
    """

    instances: int
    is_known: bool
    unlike: tuple[InstancePlace, ...] = ()
    unknown: int = 0

    @property
    def are_same(self) -> bool:
        """Whether all ran the same kernels."""
        return self.is_known and not self.unlike and not self.unknown


class InstancePlacement(msgspec.Struct, frozen=True):
    """Whether every instance ran on its CPUs and had its memory on their node.

    Attributes:
        instances: how many there were in all rounds.
        elsewhere: how many did not run on the CPUs that they were given.
        unproven: the placements of which it is not known.
    """

    instances: int
    elsewhere: int
    unproven: tuple[Placement, ...]


def instance_kernels(audited: RunReport | None, instances: Sequence[InstanceRun]) -> InstanceKernels | None:
    """Compare the kernels of ``instances`` with those of the audited one; ``None`` if all of them failed."""
    if not instances:
        return None
    if audited is None or audited.observed.kernels is None:
        return InstanceKernels(len(instances), False)
    wanted, verdict = audited.observed.kernels.sha256, audited.observed.canary_verdict
    others = [each for each in instances if each.kernels not in (None, wanted) or each.canary_verdict != verdict]
    unknown = sum(each.kernels is None for each in instances)
    return InstanceKernels(len(instances), True, tuple(each.place for each in others), unknown)


def instance_placement(instances: Sequence[InstanceRun]) -> InstancePlacement | None:
    """Look where ``instances`` ran; ``None`` if all of them failed."""
    if not instances:
        return None
    elsewhere = sum(each.placement is None or each.placement.cpus != each.place.cpus for each in instances)
    placements = [each.placement for each in instances if each.placement is not None]
    return InstancePlacement(len(instances), elsewhere, tuple(each for each in placements if not each.is_proven))
