"""Decide how much of an audit is known, and whether that is enough to call a precision proven. Pure.

Two quantities are covered. The arithmetic: what the eager torch model was counted to multiply, against what the
products that were seen multiply. The time: seconds in products of known precision and in kernels that multiply
nothing. Time around operators (Python, an interpreter, generated code) may hide a product, so it is known only if the
products that were seen account for the arithmetic of the whole pass.

Attributed time is summed up for the tables here too: by kernel, by precision, by operator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Callable

import msgspec

from modelzoo.evidence.attribution import UNATTRIBUTED, AttributedTime
from modelzoo.evidence.kernel_names import BETWEEN_OPERATORS, INDUCTOR, UNKNOWN_KERNEL, operator_class
from modelzoo.evidence.observation import Replays
from modelzoo.evidence.precision import UNKNOWN, is_narrower
from modelzoo.frozen import replace
from modelzoo.records.coverage import KNOWN_SHARE, Coverage, TimeShare
from modelzoo.records.evidence import NotReplayed, OperatorClass, OperatorUse, Product, ProofSource
from modelzoo.records.profile import Flops, Shape

Name = Callable[[AttributedTime], str]


class WholeCall(msgspec.Struct, frozen=True):
    """What a call shows that was audited by its parts.

    Attributes:
        beyond_parts: as in ``Coverage``.
        is_logged: whether its kernels were logged, if those of a part were.
        outputs_differ: whether it computed other outputs while it was observed.
        is_random: whether its outputs are others in every call, so that they cannot be compared.
    """

    beyond_parts: tuple[str, ...] = ()
    is_logged: bool = True
    outputs_differ: bool = False
    is_random: bool = False


NOT_COMPARED = WholeCall()
"""Of a call that was not audited by parts."""


def fraction(parts: Iterable[float], whole: float) -> float:
    """Return the sum of ``parts`` relative to ``whole``, 0 if ``whole`` is 0."""
    return sum(parts) / whole if whole > 0 else 0.0


def time_shares(parts: Sequence[AttributedTime], name: Name, total: float) -> tuple[TimeShare, ...]:
    """Sum ``parts`` by ``name``, longest time first; shares are of ``total`` seconds."""
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for part in parts:
        seconds[name(part)] += part.seconds
        counts[name(part)] += part.count
    shares = [TimeShare(n, s, fraction([s], total), counts[n]) for n, s in seconds.items() if s or counts[n]]
    return tuple(sorted(shares, key=lambda share: -share.seconds))


def longest(parts: Sequence[AttributedTime], name: Name) -> list[str]:
    """Return the names by their total time, longest first."""
    seconds: dict[str, float] = defaultdict(float)
    for part in parts:
        seconds[name(part)] += part.seconds
    return sorted(seconds, key=lambda each: -seconds[each])


def operator_uses(parts: Sequence[AttributedTime]) -> tuple[OperatorUse, ...]:
    """Sum the operators that multiply matrices by name, shapes, kernel and precision, longest time first.

    The other operators are left out: a detector runs thousands of them, each with other shapes.
    """
    seconds_of_operator: dict[tuple[str, tuple[Shape, ...]], float] = defaultdict(float)
    kernel_seconds_of_operator: dict[tuple[str, tuple[Shape, ...]], float] = defaultdict(float)
    kernel_seconds: dict[_UseKey, float] = defaultdict(float)
    counts: dict[_UseKey, int] = defaultdict(int)
    for part in parts:
        if part.operator_class is None:
            continue
        seconds_of_operator[part.operator, part.shapes] += part.seconds
        if part.count:
            kernel_seconds_of_operator[part.operator, part.shapes] += part.seconds
            key = (
                part.operator,
                part.operator_class,
                part.shapes,
                part.implementation,
                part.precision,
                part.decided_by,
            )
            kernel_seconds[key] += part.seconds
            counts[key] += part.count
    uses = []
    for key, seconds in kernel_seconds.items():
        operator, kind, shapes, implementation, precision, decided_by = key
        # Time outside the kernels is divided among an operator's kernels by their own time.
        share = fraction([seconds], kernel_seconds_of_operator[operator, shapes])
        uses.append(
            OperatorUse(
                operator=operator,
                operator_class=kind,
                shapes=shapes,
                implementation=implementation,
                precision=precision,
                decided_by=decided_by,
                count=counts[key],
                seconds=seconds_of_operator[operator, shapes] * share,
                kernel_seconds=seconds,
            )
        )
    return tuple(sorted(uses, key=lambda use: -use.seconds))


def answered(replays: Replays, parts: Sequence[AttributedTime]) -> tuple[Product, ...]:
    """Return the products of one pass with the precision that the audited passes, too, say they ran in."""
    total = sum(part.seconds for part in parts)
    found = []
    for place, product in enumerate(replays.products):
        own = [part for part in parts if part.product == place]
        computed = [part for part in own if part.is_compute and part.count]
        proofs = {(part.precision, part.decided_by) for part in computed}
        is_audited = bool(computed) and all(part.is_confirmed for part in computed)
        if not is_audited and product.not_replayed is None:
            product = replace(product, not_replayed=NotReplayed.NOT_AUDITED)
        precision, known_by = proofs.pop() if len(proofs) == 1 else (UNKNOWN, ProofSource.NOTHING)
        share = fraction((part.seconds for part in own), total) if own else None
        found.append(replace(product, precision=precision, known_by=known_by, share=share))
    return tuple(found)


_UseKey = tuple[str, OperatorClass, tuple[Shape, ...], str, str, ProofSource]


def coverage(
    parts: Sequence[AttributedTime],
    iterations: int,
    counted: Flops | None,
    *,
    logged: Iterable[str] = (),
    requested: str = "fp32",
    unread: int = 0,
    lists_all: bool = False,
    replays: Replays | None = None,
    whole: WholeCall = NOT_COMPARED,
) -> Coverage:
    """Return how much of an audit is known.

    Args:
        parts: all of the time of the audited passes.
        iterations: number of passes.
        counted: the operations of one eager pass of the torch model; ``None`` if they were not counted.
        logged: the data types in the kernel log outside products.
        requested: the precision that was asked for.
        unread: lines of the kernel log that could not be read, without those of replayed products.
        lists_all: whether ``parts`` list everything that ran.
        replays: of the pass whose products were replayed.
        whole: what the call shows of which the passes are parts.
    """
    uncounted = () if lists_all else _uncounted(parts, counted.missing if counted is not None else ())
    seen = _share(parts, iterations, counted)
    known = _share([part for part in parts if part.precision != UNKNOWN], iterations, counted)
    is_whole = lists_all or (seen is not None and seen >= KNOWN_SHARE and not uncounted)
    unknown = [part for part in parts if part.seconds and not _is_known(part, is_whole)]
    total = sum(part.seconds for part in parts)
    precisions = {part.precision for part in parts}
    unexplained = sorted(each for each in set(logged) if is_narrower(each, requested) and each not in precisions)
    return Coverage(
        counted=counted.total if counted is not None else None,
        seen_arithmetic=seen,
        known_arithmetic=known,
        known_time=1.0 - fraction((part.seconds for part in unknown), total),
        unknown=time_shares(unknown, _name, total),
        uncounted=uncounted,
        unexplained=tuple(unexplained),
        unread=unread,
        lists_all=lists_all,
        foreign=replays.foreign if replays is not None else 0,
        subnormal=replays.subnormal if replays is not None else 0.0,
        outputs_differ=whole.outputs_differ or (replays is not None and replays.outputs_differ),
        beyond_parts=whole.beyond_parts,
        is_whole_logged=whole.is_logged,
    )


def can_be_compared(parts: Sequence[AttributedTime], counted: Flops | None) -> bool:
    """Return whether what an engine's own list of nodes says can be compared with what torch counted.

    It cannot if torch knows no formula for an operator, or the list has no sizes for a product. The list suffices then:
    such an engine runs nothing that is not in it.
    """
    has_sizes = all(part.flop is not None for part in parts if part.is_compute)
    return counted is not None and not counted.missing and has_sizes


def arithmetic_share(
    parts: Sequence[AttributedTime], precision: str, iterations: int, counted: Flops | None
) -> float | None:
    """Return the share of the counted operations in products of ``precision``; ``None`` if they were not counted."""
    return _share([part for part in parts if part.precision == precision], iterations, counted)


def _share(parts: Sequence[AttributedTime], iterations: int, counted: Flops | None) -> float | None:
    """The share of the counted operations that products do; more than was counted of one kind makes up for no other."""
    if counted is None or not counted.total:
        return None
    done: Mapping[bool, float] = _by_kind((part.operator_class, part.flop or 0) for part in parts)
    wanted = _by_kind((operator_class(name), flop) for name, flop in counted.by_operator.items())
    return sum(min(done[kind], iterations * flop) for kind, flop in wanted.items()) / (iterations * counted.total)


def _by_kind(operations: Iterable[tuple[OperatorClass | None, int]]) -> dict[bool, float]:
    """The operations of convolutions (``True``) and of all other products (``False``)."""
    sums: dict[bool, float] = defaultdict(float)
    for kind, flop in operations:
        sums[kind is OperatorClass.CONV] += flop
    return sums


def _uncounted(parts: Sequence[AttributedTime], missing: Sequence[str]) -> tuple[str, ...]:
    """Those of the operators without a formula that may hide a product of another precision.

    An operator that the audit saw is judged by its time, and a product also needs a known precision.
    """
    seen = {part.operator for part in parts}
    unknown = {part.operator for part in parts if part.precision == UNKNOWN}
    return tuple(name for name in missing if name not in seen or name in unknown)


def _is_known(part: AttributedTime, is_whole: bool) -> bool:
    """Whether it is known in which precision, if any, something was multiplied in this time."""
    if part.precision in (UNKNOWN, UNKNOWN_KERNEL):
        return False
    is_around = part.precision == UNATTRIBUTED or part.implementation in (BETWEEN_OPERATORS, INDUCTOR)
    return is_whole or not is_around


def _name(part: AttributedTime) -> str:
    """What the time is called: by the operator, or by the place where it was spent."""
    return part.implementation if part.implementation in (BETWEEN_OPERATORS, INDUCTOR) else part.operator
