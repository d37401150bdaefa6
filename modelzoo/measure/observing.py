"""Look at what ran, after the timing: canary, kernels, operations, profile, outputs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable, Optional

from modelzoo.engines.protocol import Session, value_and_problem
from modelzoo.frozen import replace
from modelzoo.measure.agreement import eager_agreement, output_agreement
from modelzoo.measure.loading import Built
from modelzoo.records.protocol import Looks, Message, Progress
from modelzoo.records.run import Observed, Prepared

Send = Callable[[Message], None]
AUDIT_SECONDS = 2.0
"""The audit observes two passes, or one if two would take longer than this."""


def audit_passes(seconds: Optional[float]) -> int:
    """Return how many passes an audit observes; ``seconds``: what one takes, ``None`` if that is not known."""
    return 1 if seconds is None or 2 * seconds > AUDIT_SECONDS else 2


def observe(built: Built, session: Session, prepared: Prepared, looks: Looks, passes: int, send: Send) -> Observed:
    """Look at what ran, after the timing and in the session that is still active.

    Args:
        passes: number of passes that an audit observes.
    """
    model, args = built.model, built.args
    canary, canary_problem = value_and_problem(session.canary())
    found = Observed(
        canary=canary,
        canary_problem=canary_problem,
        canary_verdict=None if canary is None else canary.verdict(prepared.setting.precision),
        counts=model.counts(args, built.inputs.items) if looks.extras else (),
        evidence_problem=canary_problem,
    )
    if looks.audit:
        kernels, _ = value_and_problem(model.kernels(args))
        found = replace(found, kernels=kernels)
    # Without a digest only an audit can show which kernels ran.
    if looks.audit and (looks.full_audit or found.kernels is None):
        evidence, problem = value_and_problem(model.audit(args, passes=passes, canary=canary))
        found = replace(found, evidence=evidence, evidence_problem=problem or canary_problem)
    if looks.audit and looks.extras:
        flops, problem = value_and_problem(model.flops(args))
        found = replace(found, flops=flops, flops_problem=problem)
    if looks.profiling and looks.extras:
        send(Progress("profile"))
        trace = Path(looks.trace) if looks.trace and built.pipeline is None else None
        profile, problem = value_and_problem(model.profile(args, trace=trace, evidence=found.evidence))
        found = replace(found, profile=profile, profile_problem=problem)
    return found


def with_agreement(found: Observed, built: Built, prepared: Prepared, looks: Looks, send: Send) -> Observed:
    """``found``, with how far the outputs of an exported or compiled model are from those of the torch module.

    Comparing them takes memory that running the model does not: read ``peak_memory`` before.
    """
    setting, export = prepared.setting, prepared.export
    is_plain = setting == setting.reference() or setting.precision != "fp32"
    if not looks.extras or (export is None and is_plain):
        return found
    send(Progress("compare outputs"))
    with built.model.explained_errors():
        outputs, problem = value_and_problem(built.model.outputs(built.args))
    if outputs is None:
        return replace(found, agreement_problem=problem)
    if export is None:
        return replace(found, agreement=eager_agreement(outputs))
    return replace(found, agreement=output_agreement(export, outputs, setting.precision))


def peak_memory() -> int:
    """The most memory that this process has occupied, in bytes."""
    import resource

    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
