"""An audit whose time is attributed to kernels and precisions, of any engine; several can be joined. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from modelzoo.evidence.attribution import AttributedTime, attribute_time
from modelzoo.evidence.coverage import NOT_COMPARED, WholeCall, answered, fraction
from modelzoo.evidence.flops import Call, sum_flops
from modelzoo.evidence.kernel_names import converts_back, named_precision, operator_class
from modelzoo.evidence.observation import RANDOM_OUTPUTS, Audit, Replays
from modelzoo.evidence.onednn_log import logged_types, untimed
from modelzoo.evidence.precision import UNKNOWN, PrecisionProver, precision_of
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary
from modelzoo.records.coverage import KNOWN_SHARE
from modelzoo.records.evidence import LogSource, Product
from modelzoo.records.profile import Flops


class AttributedAudit(msgspec.Struct, frozen=True):
    """An audit whose time is attributed to kernels and precisions, of any engine.

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
        products: the products that were replayed, as audited.
        replays: what they showed themselves; ``None`` if none was replayed.
        whole: what the call shows that was audited by its parts.
        onednn_version: as in ``Evidence``, and so are the following.
    """

    parts: Sequence[AttributedTime]
    iterations: int
    log_source: LogSource
    library: str
    bf16_allowed: bool | None
    counted: Flops | None = None
    lists_all: bool = False
    logged: frozenset[str] = frozenset()
    dequantized: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    unread_in_products: tuple[str, ...] = ()
    products: tuple[Product, ...] = ()
    replays: Replays | None = None
    whole: WholeCall = NOT_COMPARED
    onednn_version: str = ""
    onednn_isa: str = ""
    blas: str = ""
    problems: tuple[str, ...] = ()


def attribute_audit(
    audit: Audit,
    canary: Canary | None,
    bf16_method: str | None,
    *,
    calls: Sequence[Call] = (),
    counted: Flops | None = None,
    replays: Replays | None = None,
) -> AttributedAudit:
    """Attribute an audit of torch, or of another framework that computes with oneDNN.

    The arguments are those of ``modelzoo.evidence.verdict.build_evidence``.
    """
    parts = attribute_time(audit, PrecisionProver(canary, bf16_method), calls, replays)
    products = answered(replays, parts) if replays is not None else ()
    unread, unread_in_products = _unread(audit, products, replays)
    return AttributedAudit(
        parts=parts,
        iterations=audit.iterations,
        log_source=audit.log_source,
        library="oneDNN",
        bf16_allowed=_onednn_allowed_bf16(audit),
        counted=counted or (sum_flops(calls) if calls else None),
        logged=logged_types(audit.log.primitives),
        dequantized=tuple(sorted({event.name for event in audit.events if converts_back(event)})),
        unread=unread,
        unread_in_products=unread_in_products,
        products=products,
        replays=replays,
        onednn_version=audit.log.version,
        onednn_isa=audit.log.isa,
        blas=audit.blas,
        problems=audit.problems,
    )


def _unread(
    audit: Audit, products: Sequence[Product], replays: Replays | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of the log that could not be read: all but those of replayed products, and those.

    The audited passes may print each as often as the products did in the intercepted pass.
    """
    printed: Counter[str] = Counter()
    for product, lines in zip(products, replays.unread if replays is not None else ()):
        if product.not_replayed is None:
            printed.update({line: times * product.count * audit.iterations for line, times in Counter(lines).items()})
    outside: list[str] = []
    inside: list[str] = []
    for line in audit.log.unread:
        (inside if printed[untimed(line)] > 0 else outside).append(line)
        printed[untimed(line)] -= 1
    return tuple(outside), tuple(inside)


def _onednn_allowed_bf16(audit: Audit) -> bool | None:
    primitives = [primitive for primitive in audit.log.primitives if primitive.is_compute]
    allowed = any(primitive.attributes.get("fpmath", "strict") not in ("strict", "") for primitive in primitives)
    return allowed if primitives else None


class Ran(msgspec.Struct, frozen=True):
    """What one call ran.

    Attributes:
        logged: operations by precision, by the logs of the libraries; ``None`` if there is no log, no product in it, or
            it cannot be read.
        calls: its operators; ``None`` if they could not be intercepted.
        outputs_differ: whether it computed other outputs while its operators were intercepted.
        is_random: whether its outputs are others in every call.
    """

    logged: Mapping[str, int] | None
    calls: Sequence[Call] | None
    outputs_differ: bool = False
    is_random: bool = False


def compared_with_parts(whole: Ran, parts: Sequence[tuple[Ran, int]]) -> WholeCall:
    """Compare a call with its parts, each of which occurs so many times.

    Operations by the types of the operands may differ by what need not be known, and so may the shares of precisions in
    the operations that were logged. A precision that no part has counts however rare it is. What is not known of the
    call or of a part is not compared.
    """
    found: set[str] = set()
    if whole.calls is not None and all(part.calls is not None for part, _ in parts):
        done = _operations(whole.calls)
        summed = _summed((_operations(part.calls or ()), times) for part, times in parts)
        found |= _other(done, summed, allowed=(1 - KNOWN_SHARE) * sum(done.values()))
    summed = _summed((part.logged or {}, times) for part, times in parts)
    if whole.logged is not None:
        found |= _other(_shares(whole.logged), _shares(summed), allowed=1 - KNOWN_SHARE)
    return WholeCall(
        beyond_parts=tuple(sorted(found)),
        is_logged=whole.logged is not None or not summed,
        outputs_differ=whole.outputs_differ and not whole.is_random,
        is_random=whole.is_random,
    )


def _operations(calls: Sequence[Call]) -> Mapping[str, int]:
    """The operations of the products by the types of their operands."""
    found: Counter[str] = Counter()
    for call in calls:
        if call.flop or operator_class(call.name) is not None:
            types = {precision for each in call.dtypes if (precision := precision_of(each)) is not None}
            key = named_precision(call.name) or " × ".join(sorted(types)) or UNKNOWN
            found[key] += call.flop or 0
    return found


def _summed(parts: Iterable[tuple[Mapping[str, int], int]]) -> Mapping[str, int]:
    """What all parts have."""
    found: Counter[str] = Counter()
    for part, times in parts:
        found.update({precision: flop * times for precision, flop in part.items()})
    return found


def _other(whole: Mapping[str, float], parts: Mapping[str, float], allowed: float) -> set[str]:
    """The precisions that only the whole has, or in which the two differ by more than is allowed."""
    differ = {each for each in {*whole, *parts} if abs(whole.get(each, 0) - parts.get(each, 0)) > allowed}
    return differ | (set(whole) - set(parts))


def _shares(flops: Mapping[str, int]) -> dict[str, float]:
    total = sum(flops.values())
    return {each: fraction([flop], total) for each, flop in flops.items()}


def joined(
    audits: Sequence[tuple[AttributedAudit, int]],
    counted: Flops | None,
    whole: WholeCall = NOT_COMPARED,
) -> AttributedAudit:
    """Return the audit of a whole that consists of parts, each of which occurs so many times.

    Args:
        audits: of the parts, each of one pass, in one process and under one setting; not empty.
        counted: the operations of the whole; ``None`` if they were not counted.
        whole: what ``compared_with_parts`` found.

    Raises:
        ValueError: a part was audited in several passes.
    """
    if any(audit.iterations != 1 for audit, _ in audits):
        raise ValueError("only audits of one pass can be joined")
    first = audits[0][0]
    replays = _joined_replays(audits)
    parts = list(_joined_parts(audits, is_followed=replays is not None))
    said = [RANDOM_OUTPUTS] if whole.is_random else []
    allowed = [audit.bf16_allowed for audit, _ in audits if audit.bf16_allowed is not None]
    return replace(
        first,
        parts=parts,
        bf16_allowed=any(allowed) if allowed else None,
        counted=counted,
        lists_all=all(audit.lists_all for audit, _ in audits),
        logged=frozenset().union(*(audit.logged for audit, _ in audits)),
        dequantized=tuple(sorted({name for audit, _ in audits for name in audit.dequantized})),
        unread=tuple(line for audit, _ in audits for line in audit.unread),
        unread_in_products=tuple(line for audit, _ in audits for line in audit.unread_in_products),
        products=answered(replays, parts) if replays is not None else (),
        replays=replays,
        whole=whole,
        problems=tuple(dict.fromkeys([*(problem for audit, _ in audits for problem in audit.problems), *said])),
    )


def _joined_parts(audits: Sequence[tuple[AttributedAudit, int]], *, is_followed: bool) -> Iterator[AttributedTime]:
    """The times of all parts, which know their products if those of every part were followed."""
    products = 0
    for audit, times in audits:
        for part in audit.parts:
            yield replace(
                part,
                seconds=part.seconds * times,
                count=part.count * times,
                flop=None if part.flop is None else part.flop * times,
                product=part.product + products if part.product is not None and is_followed else None,
            )
        products += len(audit.replays.products) if audit.replays is not None else 0


def _joined_replays(audits: Sequence[tuple[AttributedAudit, int]]) -> Replays | None:
    """What the products of all parts showed; ``None`` if those of a part were not followed."""
    found = [(audit.replays, times) for audit, times in audits if audit.replays is not None]
    if len(found) < len(audits):
        return None
    products = tuple(replace(each, count=each.count * times) for replays, times in found for each in replays.products)
    return Replays(
        products=products,
        order=(),  # of no use any more: the parts know their products
        seconds=sum(replays.seconds for replays, _ in found),
        foreign=sum(replays.foreign * times for replays, times in found),
        subnormal=max(replays.subnormal for replays, _ in found),
        outputs_differ=any(replays.outputs_differ for replays, _ in found),
    )
