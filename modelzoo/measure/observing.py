"""Look at what ran, after the timing: canary, kernels, operations, profile, outputs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from modelzoo.engines.protocol import Session, value_and_problem
from modelzoo.frozen import replace
from modelzoo.measure.agreement import eager_agreement, output_agreement
from modelzoo.measure.loading import Built
from modelzoo.records.agreement import OutputAgreement
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.export import Export
from modelzoo.records.profile import Flops, Profile
from modelzoo.records.protocol import Message, Progress
from modelzoo.records.workload import Count
from modelzoo.setting import ResolvedSetting

Send = Callable[[Message], None]
AUDIT_SECONDS = 2.0
"""The audit observes two passes, or one if two would take longer than this."""


@dataclass(frozen=True)
class Observed:
    """What was looked at after the timing; each observation may be missing for a reason."""

    canary: Optional[Canary]
    counts: tuple[Count, ...]
    evidence: Optional[Evidence] = None
    evidence_problem: Optional[str] = None
    kernels: Optional[KernelDigest] = None
    flops: Optional[Flops] = None
    flops_problem: Optional[str] = None
    profile: Optional[Profile] = None
    profile_problem: Optional[str] = None
    agreement: Optional[OutputAgreement] = None
    agreement_problem: Optional[str] = None
    peak_memory: int = 0


@dataclass(frozen=True)
class Wanted:
    """What is to be observed; see ``MeasureJob`` for the attributes of the same names.

    Attributes:
        passes: number of passes that an audit observes.
    """

    resolved: ResolvedSetting
    export: Optional[Export]
    audit: bool
    full_audit: bool
    extras: bool
    passes: int
    profiling: bool = False
    trace: Optional[str] = None


def audit_passes(seconds: Optional[float]) -> int:
    """Return how many passes an audit observes; ``seconds``: what one takes, ``None`` if that is not known."""
    return 1 if seconds is None or 2 * seconds > AUDIT_SECONDS else 2


def observe(built: Built, session: Session, wanted: Wanted, send: Send) -> Observed:
    """Look at what ran, after the timing and in the session that is still active."""
    model, args = built.model, built.args
    canary, canary_problem = value_and_problem(session.canary())
    counts = model.counts(args, built.inputs.items) if wanted.extras else ()
    found = Observed(canary, counts, evidence_problem=canary_problem)
    if wanted.audit:
        kernels, _ = value_and_problem(model.kernels(args))
        found = replace(found, kernels=kernels)
    # Without a digest only an audit can show which kernels ran.
    if wanted.audit and (wanted.full_audit or found.kernels is None):
        evidence, problem = value_and_problem(model.audit(args, passes=wanted.passes, canary=canary))
        found = replace(found, evidence=evidence, evidence_problem=problem or canary_problem)
    if wanted.audit and wanted.extras:
        flops, problem = value_and_problem(model.flops(args))
        found = replace(found, flops=flops, flops_problem=problem)
    if wanted.profiling and wanted.extras:
        send(Progress("profile"))
        trace = Path(wanted.trace) if wanted.trace and built.pipeline is None else None
        profile, problem = value_and_problem(model.profile(args, trace=trace, evidence=found.evidence))
        found = replace(found, profile=profile, profile_problem=problem)
    # Before outputs are compared, which takes memory that running the model does not.
    return _compared(built, replace(found, peak_memory=peak_memory()), wanted, send)


def _compared(built: Built, found: Observed, wanted: Wanted, send: Send) -> Observed:
    """``found``, with how far the outputs of an exported or compiled model are from those of the torch module."""
    is_plain = wanted.resolved == wanted.resolved.reference() or wanted.resolved.precision != "fp32"
    if not wanted.extras or (wanted.export is None and is_plain):
        return found
    send(Progress("compare outputs"))
    with built.model.explained_errors():
        outputs, problem = value_and_problem(built.model.outputs(built.args))
    if outputs is None:
        return replace(found, agreement_problem=problem)
    if wanted.export is None:
        return replace(found, agreement=eager_agreement(outputs))
    return replace(found, agreement=output_agreement(wanted.export, outputs, wanted.resolved.precision))


def peak_memory() -> int:
    """The most memory that this process has occupied, in bytes."""
    import resource

    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
