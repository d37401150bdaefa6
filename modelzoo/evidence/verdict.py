"""From what an audit saw to shares of time and one verdict: did bf16 run, is fp32 really fp32? Pure.

Each operator's own time is given to the kernel that ran in it: oneDNN's primitives are joined with the
profiler's operators by kind, size and order. What no source explains is shown as ``unattributed``, never
spread over the rest, so the shares add up to 100 %.

Two witnesses decide the precision. The kernel log and the tensors' data types say what a kernel was given;
the canary's error (``modelzoo.evidence.canary``) says what came out. Operands stored as bf16 prove bf16. Over fp32
operands the log proves nothing where fast math is allowed, so the canary decides.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from modelzoo.evidence.attribution import UNATTRIBUTED, UNKNOWN, Piece, attribute
from modelzoo.evidence.audit import Audit
from modelzoo.evidence.matching import COMPUTE_CLASSES
from modelzoo.records.canary import Canary, OperatorCheck
from modelzoo.records.evidence import ClassVerdict, Evidence, OperatorUse, ProofVerdict, TimeShare

ACTIVE_SHARE = 0.90
"""bf16 is ACTIVE from this share of compute time in bf16 kernels on.

A first or last layer often stays in fp32 for accuracy's sake. Were bf16 twice as fast, the tenth left in fp32
could gain another 5 % of the compute time: less than machines of one kind differ.
"""
INACTIVE_SHARE = 0.01
"""Below this share it is NOT ACTIVE: under 1 % nobody can measure it (samples are taken to ± 1 %)."""


def build_evidence(audit: Audit, canary: Canary | None, requested: str, bf16_method: str | None = None) -> Evidence:
    """Judge ``audit``.

    Args:
        audit: what ran.
        canary: a ``modelzoo.evidence.canary.Canary``, or ``None`` where there is none.
        requested: ``fp32`` or ``bf16``.
        way: ``fastmath``, ``autocast``, ``cast``, or ``None`` for fp32.
    """
    levels = {result.operator: result for result in canary.operators} if canary is not None else {}
    pieces, problems = attribute(audit, {name: result.level for name, result in levels.items()}, bf16_method)
    total = sum(piece.seconds for piece in pieces)
    compute = [piece for piece in pieces if piece.compute]
    compute_seconds = sum(piece.seconds for piece in compute)
    classes = tuple(
        _class_verdict(name, [piece for piece in compute if piece.operator_class == name], levels)
        for name in COMPUTE_CLASSES
        if any(piece.operator_class == name for piece in compute)
    )
    bf16 = _fraction((p.seconds for p in compute if p.precision == "bf16"), compute_seconds)
    reference = [piece for piece in compute if piece.reference]
    if requested == "bf16":
        verdict, detail, line = _judge_bf16(bf16, compute, classes, audit, bf16_method)
    else:
        verdict, detail, line = _judge_fp32(compute, classes, levels, audit)
    return Evidence(
        requested=requested,
        bf16_method=bf16_method,
        verdict=verdict,
        detail=detail,
        line=line,
        decided_by=tuple(sorted({piece.decided_by for piece in compute})),
        iterations=audit.iterations,
        seconds=total,
        compute_seconds=compute_seconds,
        compute_bf16_share=bf16,
        unattributed_share=_fraction((p.seconds for p in pieces if p.precision == UNATTRIBUTED), total),
        reference_share=_fraction((piece.seconds for piece in reference), total),
        reference_kernels=tuple(sorted({piece.implementation for piece in reference})),
        classes=classes,
        by_implementation=_rows(pieces, "implementation", total),
        by_precision=_rows(pieces, "precision", total),
        by_operator=_rows(pieces, "operator", total),
        operators=_uses(pieces),
        onednn_version=audit.log.version,
        onednn_isa=audit.log.isa,
        blas=audit.blas,
        log_source=audit.log_source,
        problems=(*audit.problems, *problems),
    )


def _class_verdict(name: str, pieces: Sequence[Piece], levels: dict[str, OperatorCheck]) -> ClassVerdict:
    seconds = sum(piece.seconds for piece in pieces)
    result = levels.get({"attention": "matmul"}.get(name, name))
    return ClassVerdict(
        operator_class=name,
        seconds=seconds,
        bf16_share=_fraction((p.seconds for p in pieces if p.precision == "bf16"), seconds),
        precisions=tuple(sorted({piece.precision for piece in pieces})),
        decided_by=tuple(sorted({piece.decided_by for piece in pieces})),
        canary_error=getattr(result, "error", None),
        canary_level=getattr(result, "level", None),
    )


def _word(share: float) -> str:
    return "yes" if share >= ACTIVE_SHARE else "no" if share < INACTIVE_SHARE else "partly"


def _judge_bf16(
    share: float, compute: Sequence[Piece], classes: Sequence[ClassVerdict], audit: Audit, bf16_method: str | None
) -> tuple[ProofVerdict, str, str]:
    percent = f"{share * 100:.0f} % of compute time in bf16 kernels"
    if not compute:
        detail = "no convolution, matrix product or attention was seen"
        return ProofVerdict.UNKNOWN, detail, f"bf16: UNKNOWN ({detail})"
    unknown = _fraction((p.seconds for p in compute if p.precision == UNKNOWN), sum(p.seconds for p in compute))
    words = ", ".join(f"{each.operator_class} {_word(each.bf16_share)}" for each in classes)
    if share >= ACTIVE_SHARE:
        # A class that takes little time here can take most of it in another model.
        detail = percent if all(_word(each.bf16_share) == "yes" for each in classes) else f"{words}; {percent}"
        return ProofVerdict.ACTIVE, detail, f"bf16: ACTIVE ({detail})"
    if share + unknown >= ACTIVE_SHARE and share < INACTIVE_SHARE:
        detail = f"the precision of {unknown * 100:.0f} % of compute time could not be settled"
        return ProofVerdict.UNKNOWN, detail, f"bf16: UNKNOWN ({detail})"
    if share >= INACTIVE_SHARE:
        detail = f"{words}; {percent}"
        return ProofVerdict.PARTLY, detail, f"bf16: PARTLY ({detail})"
    detail = _why_not(compute, classes, audit, bf16_method)
    return ProofVerdict.NOT_ACTIVE, detail, f"bf16: REQUESTED, NOT ACTIVE ({detail})"


def _why_not(compute: Sequence[Piece], classes: Sequence[ClassVerdict], audit: Audit, bf16_method: str | None) -> str:
    """Why nothing ran in bf16, from what the log says was allowed and which kernels ran."""
    kernels = ", ".join(_longest(compute, "implementation")[:2])
    allowed = any(
        primitive.compute and primitive.attributes.get("fpmath", "strict") not in ("strict", "")
        for primitive in audit.log.primitives
    )
    errors = [each.canary_error for each in classes if each.canary_level == "fp32" and each.canary_error is not None]
    tail = f"; canary error {max(errors):.0e} is fp32's" if errors else ""
    if bf16_method in ("autocast", "cast"):
        return f"operands stayed in {_longest(compute, 'precision')[0]}: {kernels}{tail}"
    if allowed:
        return f"oneDNN was allowed bf16, yet {kernels} computed in fp32{tail}"
    if any(primitive.compute for primitive in audit.log.primitives):
        return f"oneDNN was never allowed bf16 (no fpmath attribute), {kernels} ran{tail}"
    return f"no product went through oneDNN, {kernels} ran{tail}"


def _longest(pieces: Sequence[Piece], key: str) -> list[str]:
    """Names by the time spent under them, longest first."""
    seconds: dict[str, float] = defaultdict(float)
    for piece in pieces:
        seconds[getattr(piece, key)] += piece.seconds
    return sorted(seconds, key=lambda name: -seconds[name])


def _judge_fp32(
    compute: Sequence[Piece], classes: Sequence[ClassVerdict], levels: dict[str, OperatorCheck], audit: Audit
) -> tuple[ProofVerdict, str, str]:
    wrong = sorted({p.precision for p in compute if p.precision not in ("fp32", "fp64", UNKNOWN)})
    if wrong:
        kernels = sorted({p.implementation for p in compute if p.precision in wrong})
        where = sorted({p.operator_class for p in compute if p.precision in wrong})
        detail = f"{' and '.join(where)} ran in {', '.join(wrong)}: {', '.join(kernels[:3])}"
        return ProofVerdict.NOT_FP32, detail, f"fp32: NOT FP32 ({detail})"
    off = [check for check in levels.values() if check.level in ("reduced", "bf16", "broken")]
    if off:
        detail = ", ".join(f"canary {r.operator} error {r.error or math.nan:.0e} is {r.level}" for r in off)
        return ProofVerdict.NOT_FP32, detail, f"fp32: NOT FP32 ({detail})"
    if not compute:
        detail = "no convolution, matrix product or attention was seen"
        return ProofVerdict.UNKNOWN, detail, f"fp32: UNKNOWN ({detail})"
    unproven = [each.operator_class for each in classes if each.canary_level != "fp32"]
    if unproven or any(piece.precision == UNKNOWN for piece in compute):
        detail = f"no bf16 kernel in the audit, but no canary at fp32 level for {', '.join(unproven) or 'all'}"
        return ProofVerdict.UNKNOWN, detail, f"fp32: UNKNOWN ({detail})"
    error = max(each.canary_error for each in classes if each.canary_error is not None)
    seen = "no kernel log" if audit.log_source == "none" else "no bf16 kernel in the audit"
    detail = f"{seen}, canary error {error:.0e}"
    return ProofVerdict.FP32, detail, f"fp32: PROVEN ({detail})"


def _fraction(parts: Iterable[float], whole: float) -> float:
    return sum(parts) / whole if whole > 0 else 0.0


def _rows(pieces: Sequence[Piece], key: str, total: float) -> tuple[TimeShare, ...]:
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for piece in pieces:
        seconds[getattr(piece, key)] += piece.seconds
        counts[getattr(piece, key)] += piece.count
    rows = [TimeShare(n, s, s / total if total > 0 else 0.0, counts[n]) for n, s in seconds.items() if s or counts[n]]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _uses(pieces: Sequence[Piece]) -> tuple[OperatorUse, ...]:
    """The operators that multiply matrices; a detector has thousands of others, of all shapes."""
    grouped: dict[tuple[Any, ...], list[float]] = {}
    totals: dict[tuple[Any, ...], float] = defaultdict(float)
    for piece in pieces:
        if not piece.operator_class:
            continue
        totals[piece.operator, piece.shapes] += piece.seconds
        if piece.count:
            key = (
                piece.operator,
                piece.operator_class,
                piece.shapes,
                piece.implementation,
                piece.precision,
                piece.decided_by,
            )
            entry = grouped.setdefault(key, [0.0, 0.0])
            entry[0] += piece.count
            entry[1] += piece.seconds
    in_kernels: dict[tuple[Any, ...], float] = defaultdict(float)
    for key, (_count, seconds) in grouped.items():
        in_kernels[key[0], key[2]] += seconds
    uses = []
    for key, (count, seconds) in grouped.items():
        whole, inside = totals[key[0], key[2]], in_kernels[key[0], key[2]]
        # The time beside the kernel goes with the calls it was measured in, by their kernels' time.
        share = seconds / inside if inside > 0 else 0.0
        uses.append(OperatorUse(*key, count=int(count), seconds=whole * share, kernel_seconds=seconds))
    return tuple(sorted(uses, key=lambda use: -use.seconds))
