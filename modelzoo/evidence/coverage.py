"""An audit whose time is attributed to kernels and precisions, and how much of it is known. Pure.

Whether that is enough to call a precision proven is decided by the arithmetic: the operations of the products of known
precision, against those that the eager torch model was counted to do. Only where an engine lists everything that ran,
and sizes are not known, it is the time.

Attributed time is summed up for the tables here too: by kernel, by precision, by operator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from modelzoo.evidence.kernel_names import (
    BETWEEN_OPERATORS,
    INDUCTOR,
    PASS_EVENT,
    UNATTRIBUTED,
    UNKNOWN,
    UNKNOWN_KERNEL,
    is_narrower,
    operator_class,
)
from modelzoo.records.coverage import DISPATCH, KNOWN_SHARE, MOVEMENT, NATIVE, Coverage, TimeShare
from modelzoo.records.evidence import LogSource, OperatorClass, OperatorUse, Product, ProofSource
from modelzoo.records.profile import Flops, Shape

_NOT_A_PRECISION = (MOVEMENT, NATIVE, DISPATCH, UNATTRIBUTED, UNKNOWN_KERNEL)


class Node(msgspec.Struct, frozen=True):
    """A node: a call of an operator or of a kernel, or a part of its time, and what it was spent on.

    ``precision`` is that of the product, or a category (``MOVEMENT``, ``NATIVE``, ``DISPATCH``, ``UNATTRIBUTED``,
    ``UNKNOWN_KERNEL``) if it is not known to be one. ``count`` is the number of calls that this part stands for: the
    parts of one call count only once. ``flop`` are the operations of a product, ``None`` if they are not known.
    ``product`` is the place of the product that was replayed, ``None`` if it is a part of none.

    An engine that lists its nodes yields them with the type of a product's operands as ``precision``, and with the
    canary's operator that may run the same kernel as ``canary`` (``modelzoo.evidence.verdict``).
    """

    operator: str
    operator_class: OperatorClass | None
    shapes: tuple[Shape, ...]
    implementation: str
    precision: str
    decided_by: ProofSource
    seconds: float
    count: int = 1
    is_reference: bool = False
    flop: int | None = None
    product: int | None = None
    canary: str | None = None

    @property
    def is_compute(self) -> bool:
        """Whether the time was spent multiplying matrices."""
        return self.precision not in _NOT_A_PRECISION


def between_operators(seconds: float, count: int = 1) -> Node:
    """The time of ``count`` passes that was spent in none of their nodes."""
    return Node(PASS_EVENT, None, (), BETWEEN_OPERATORS, DISPATCH, ProofSource.NOTHING, seconds, count)


class AttributedAudit(msgspec.Struct, frozen=True):
    """What an engine yields of an audit, for the one builder of evidence (``modelzoo.evidence.verdict``).

    Attributes:
        parts: all of the time of the audited passes.
        iterations: number of audited passes.
        log_source: how it is known which kernels ran.
        library: what computes the products, as it is called in the reasons.
        bf16_allowed: whether ``library`` was allowed to round fp32 operands to bf16; ``None`` if it computed nothing.
        counted: the operations of one pass of the eager torch model; ``None`` if they were not counted.
        lists_all: whether ``parts`` are known to list everything that ran, as on an accelerator whose driver reports
            each kernel; otherwise what was counted must show that nothing is missing.
        logged: the data types that the kernel log has outside products.
        dequantized: operators that converted int8 numbers back to floating point.
        unread: lines of the kernel log that could not be read, without those in ``unread_in_products``.
        unread_in_products: those that were printed by products whose error was measured.
        products: the products that were replayed.
        replay_seconds: what that took; ``None`` if none was.
        foreign: as in ``Coverage``, and so are the following two.
        onednn_version: as in ``Evidence``, and so are the following.
    """

    parts: Sequence[Node]
    iterations: int
    log_source: LogSource
    library: str
    bf16_allowed: bool | None = None
    counted: Flops | None = None
    lists_all: bool = False
    logged: frozenset[str] = frozenset()
    dequantized: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    unread_in_products: tuple[str, ...] = ()
    products: tuple[Product, ...] = ()
    replay_seconds: float | None = None
    foreign: int = 0
    subnormal: float = 0.0
    outputs_differ: bool = False
    onednn_version: str = ""
    onednn_isa: str = ""
    blas: str = ""
    problems: tuple[str, ...] = ()

    def arithmetic_share(self, parts: Sequence[Node]) -> float | None:
        """Return the share of the counted operations that ``parts`` do, ``None`` if they were not counted; more than
        was counted of one kind makes up for no other."""
        if self.counted is None or not self.counted.total:
            return None
        done: Mapping[bool, float] = _by_kind((part.operator_class, part.flop or 0) for part in parts)
        wanted = _by_kind((operator_class(name), flop) for name, flop in self.counted.by_operator.items())
        whole = self.iterations * self.counted.total
        return sum(min(done[kind], self.iterations * flop) for kind, flop in wanted.items()) / whole


Name = Callable[[Node], str]


def fraction(parts: Iterable[float], whole: float) -> float:
    """Return the sum of ``parts`` relative to ``whole``, 0 if ``whole`` is 0."""
    return sum(parts) / whole if whole > 0 else 0.0


def time_shares(parts: Sequence[Node], name: Name, total: float) -> tuple[TimeShare, ...]:
    """Sum ``parts`` by ``name``, longest time first; shares are of ``total`` seconds."""
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for part in parts:
        seconds[name(part)] += part.seconds
        counts[name(part)] += part.count
    shares = [TimeShare(n, s, fraction([s], total), counts[n]) for n, s in seconds.items() if s or counts[n]]
    return tuple(sorted(shares, key=lambda share: -share.seconds))


def longest(parts: Sequence[Node], name: Name) -> list[str]:
    """Return the names by their total time, longest first."""
    return [each.name for each in time_shares(parts, name, 0.0)]


_Use = tuple[str, OperatorClass, tuple[Shape, ...], str, str, ProofSource]
"""What ``OperatorUse`` begins with."""


def operator_uses(parts: Sequence[Node]) -> tuple[OperatorUse, ...]:
    """Sum the operators that multiply matrices by name, shapes, kernel and precision, longest time first.

    The other operators are left out: a detector runs thousands of them, each with other shapes.
    """
    alike: dict[_Use, list[Node]] = defaultdict(list)
    whole: dict[tuple[str, tuple[Shape, ...]], float] = defaultdict(float)
    in_kernels: dict[tuple[str, tuple[Shape, ...]], float] = defaultdict(float)
    for part in parts:
        if part.operator_class is None:
            continue
        whole[part.operator, part.shapes] += part.seconds
        if part.count:
            in_kernels[part.operator, part.shapes] += part.seconds
            how = (part.implementation, part.precision, part.decided_by)
            use = (part.operator, part.operator_class, part.shapes, *how)
            alike[use].append(part)
    uses = []
    for use, some in alike.items():
        operator, seconds = (use[0], use[2]), sum(part.seconds for part in some)
        # Time outside the kernels is divided among an operator's kernels by their own time.
        own = whole[operator] * fraction([seconds], in_kernels[operator])
        uses.append(OperatorUse(*use, sum(part.count for part in some), own, seconds))
    return tuple(sorted(uses, key=lambda use: -use.seconds))


def coverage(audit: AttributedAudit, requested: str) -> Coverage:
    """Return how much of an audit is known.

    Args:
        audit: what ran.
        requested: the precision that was asked for.
    """
    parts, counted = audit.parts, audit.counted
    uncounted = _uncounted(parts, () if audit.lists_all or counted is None else counted.missing)
    seen = audit.arithmetic_share(parts)
    known = audit.arithmetic_share([part for part in parts if part.precision != UNKNOWN])
    is_whole = audit.lists_all or (seen is not None and seen >= KNOWN_SHARE and not uncounted)
    around = (BETWEEN_OPERATORS, INDUCTOR)
    unknown = []  # in which precision, if any, something was multiplied in this time
    for part in parts:
        is_around = part.precision == UNATTRIBUTED or part.implementation in around
        is_unknown = part.precision in (UNKNOWN, UNKNOWN_KERNEL) or (is_around and not is_whole)
        unknown += [part] if is_unknown and part.seconds else []
    total = sum(part.seconds for part in parts)
    precisions = {part.precision for part in parts}
    unexplained = sorted(each for each in audit.logged if is_narrower(each, requested) and each not in precisions)
    return Coverage(
        counted=counted.total if counted is not None else None,
        known_arithmetic=known,
        known_time=1.0 - fraction((part.seconds for part in unknown), total),
        unknown=time_shares(
            unknown, lambda part: part.implementation if part.implementation in around else part.operator, total
        ),
        uncounted=uncounted,
        unexplained=tuple(unexplained),
        unread=len(audit.unread),
        lists_all=audit.lists_all,
        foreign=audit.foreign,
        subnormal=audit.subnormal,
        outputs_differ=audit.outputs_differ,
    )


def can_be_compared(parts: Sequence[Node], counted: Flops | None) -> bool:
    """Return whether what an engine's own list of nodes says can be compared with what torch counted.

    It cannot if torch knows no formula for an operator, or the list has no sizes for a product. The list suffices then:
    such an engine runs nothing that is not in it.
    """
    has_sizes = all(part.flop is not None for part in parts if part.is_compute)
    return counted is not None and not counted.missing and has_sizes


def _by_kind(operations: Iterable[tuple[OperatorClass | None, int]]) -> dict[bool, float]:
    """The operations of convolutions (``True``) and of all other products (``False``)."""
    sums: dict[bool, float] = defaultdict(float)
    for kind, flop in operations:
        sums[kind is OperatorClass.CONV] += flop
    return sums


def _uncounted(parts: Sequence[Node], missing: Sequence[str]) -> tuple[str, ...]:
    """The operators that may hide a product of another precision.

    Those that are neither known products nor known to be none, and those without a formula whose precision is not
    known.
    """
    proven = {part.operator for part in parts if part.is_compute}
    proven -= {part.operator for part in parts if part.precision in (UNKNOWN, UNKNOWN_KERNEL)}
    unknown = {part.operator for part in parts if part.precision == UNKNOWN_KERNEL}
    return tuple(sorted(unknown | {name for name in missing if name not in proven}))
