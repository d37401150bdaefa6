"""What explains the difference of a row: operations and kernels in the audited or profiled passes of both sides. Pure.

Kernels of two libraries or two precisions have different names, so a list of kernels would only say that all of the
baseline's are gone and all of the other side's are new. The time is therefore divided by operation: the operators that
multiply matrices by what they compute (conv, linear …), with the kernels that did it beside it, all others by
the operator's name. ``kernel_changes`` says shape by shape which kernels computed the products.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import msgspec

from modelzoo import stats
from modelzoo.comparison.estimate import Row
from modelzoo.evidence.kernel_names import PASS_EVENT, operator_class
from modelzoo.records.evidence import Evidence, OperatorClass
from modelzoo.records.profile import BETWEEN_OPERATORS, OTHERS, Profile
from modelzoo.records.run import RunReport
from modelzoo.records.timing import model_times
from modelzoo.results.refusals import RATED, Metric
from modelzoo.stats import Outcome

EVERYTHING_ELSE = "everything else"
MOST_PARTS = 10
"""The most parts that are listed one by one."""
MAIN_KERNEL = 0.1
"""Kernels that took less than this fraction of an operation's time are not named."""
EXPLAINED = (Outcome.FASTER, Outcome.SLOWER, Outcome.AMBIGUOUS)
"""The outcomes with a difference to explain."""


class Part(msgspec.Struct, frozen=True):
    """What one kind of operation contributes to a difference.

    Attributes:
        name: ``conv: kernels``, ``aten::copy_`` …; ``everything else`` for what is not listed.
        base: seconds per batch; 0 if the baseline does not have it.
        other: likewise.
        base_kernels: the kernels in which the baseline spent most of it, as far as the evidence names them.
        other_kernels: likewise.
    """

    name: str
    base: float
    other: float
    base_kernels: tuple[str, ...] = ()
    other_kernels: tuple[str, ...] = ()

    @property
    def change(self) -> float:
        """Seconds per batch that the other side takes more."""
        return self.other - self.base


class Explanation(msgspec.Struct, frozen=True):
    """Where the difference of a row comes from.

    Attributes:
        workload: of the row.
        label: of the row.
        source: what the parts come from: ``audited`` or ``profiled`` passes.
        parts: the largest change first, everything else last; they add up to the difference of these passes.
        base_passes: number of passes that the baseline's seconds are the mean of.
        other_passes: likewise.
        base_timed: seconds per batch as timed without audit or profiler: the geometric mean of the processes' medians.
        other_timed: likewise.
    """

    workload: str
    label: str
    source: str
    parts: tuple[Part, ...]
    base_passes: int
    other_passes: int
    base_timed: float
    other_timed: float

    @property
    def base(self) -> float:
        """Seconds of one of the baseline's passes."""
        return math.fsum(part.base for part in self.parts)

    @property
    def other(self) -> float:
        """Seconds of one of the other side's passes."""
        return math.fsum(part.other for part in self.parts)


_Time = tuple[str, float, str]
"""An operation, the seconds of one pass that belong to it, and the kernel, empty if it is not known."""


class _Passes(msgspec.Struct, frozen=True):
    """The mean of all passes of one side."""

    count: int
    seconds: float
    operations: dict[str, float]
    kernels: dict[str, tuple[str, ...]]


def explanation(row: Row, metric: Metric) -> Explanation | None:
    """Return what explains the difference of ``row``; ``None`` if there is none in speed, or nothing explains it."""
    if row.base is None or row.other is None or metric not in RATED or row.outcome not in EXPLAINED:
        return None
    return explained(row.workload, row.setting, row.base.reports, row.other.reports)


def explained(workload: str, label: str, base: Sequence[RunReport], other: Sequence[RunReport]) -> Explanation | None:
    """Return what explains the difference between the processes of two settings, in seconds per batch.

    ``None`` if a side was neither audited nor profiled as the other was, and if the batch sizes differ. If there are
    both, the audits are used: they slow the passes down less.

    Args:
        workload: its name.
        label: of the setting that is compared with the baseline.
        base: the reports of the baseline; some of them timed.
        other: those of the other setting, likewise.
    """
    if len({report.setting.batch for report in (*base, *other)}) != 1 or not _timed(base) or not _timed(other):
        return None
    for source in ("audited", "profiled"):
        base_passes, other_passes = _passes(base, source), _passes(other, source)
        if base_passes is not None and other_passes is not None:
            return Explanation(
                workload=workload,
                label=label,
                source=source,
                parts=_parts(base_passes, other_passes),
                base_passes=base_passes.count,
                other_passes=other_passes.count,
                base_timed=stats.geometric_mean(_timed(base)),
                other_timed=stats.geometric_mean(_timed(other)),
            )
    return None


def _timed(reports: Sequence[RunReport]) -> list[float]:
    """Seconds of the model per batch in each process; none of instances, whose processes were not timed one by one."""
    timings = [each.timing for each in reports if each.timing is not None and each.timing.steady]
    return [median(model_times(timing)) for timing in timings]


def _parts(base: _Passes, other: _Passes) -> tuple[Part, ...]:
    """The largest changes; the remainder of both sides' passes is everything else."""
    parts = []
    for name in {**base.operations, **other.operations}:
        seconds = base.operations.get(name, 0.0), other.operations.get(name, 0.0)
        parts.append(Part(name, *seconds, base.kernels.get(name, ()), other.kernels.get(name, ())))
    changed = [part for part in parts if part.change]
    listed = sorted(changed, key=lambda part: (-abs(part.change), part.name))[:MOST_PARTS]
    remainder = Part(
        EVERYTHING_ELSE,
        # Sums in another order differ in the last digits.
        round(base.seconds - sum(part.base for part in listed), 12),
        round(other.seconds - sum(part.other for part in listed), 12),
    )
    return (*listed, remainder)


def _passes(reports: Sequence[RunReport], source: str) -> _Passes | None:
    """The mean over all audited or profiled passes of all processes; ``None`` without any."""
    if source == "audited":
        audits = [each for report in reports if (each := report.observed.evidence) is not None and each.iterations]
        found = [(each.iterations, each.seconds, _evidence_times(each)) for each in audits]
    else:
        profiles = [own for report in reports if (own := report.observed.profile) is not None and own.iterations]
        found = [(own.iterations, own.seconds, _profile_times(own)) for own in profiles]
    if not found:
        return None
    count = sum(passes for passes, _, _ in found)
    operations: dict[str, float] = defaultdict(float)
    by_kernel: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for _, _, times in found:
        for operation, seconds, kernel in times:
            operations[operation] += seconds / count
            if kernel:
                by_kernel[operation][kernel] += seconds
    main: dict[str, tuple[str, ...]] = {}
    for operation, spent in by_kernel.items():
        least = MAIN_KERNEL * sum(spent.values())
        main[operation] = tuple(name for name in _longest_first(spent) if spent[name] >= least)
    return _Passes(count, sum(seconds for _, seconds, _ in found) / count, operations, main)


def _evidence_times(evidence: Evidence) -> Iterator[_Time]:
    """The time of an audit's passes: products by what they compute, inside their kernels and around them."""
    in_products: dict[str, float] = defaultdict(float)
    for use in evidence.operators:
        name = use.operator_class
        yield f"{name}: kernels", use.kernel_seconds, use.implementation
        yield f"{name}: reorders and set-up", use.seconds - use.kernel_seconds, ""
        in_products[use.operator] += use.seconds
    for share in evidence.by_operator:
        # Sums in another order differ in the last digits.
        rest = round(share.seconds - in_products[share.name], 12)
        if rest:
            yield _other_operation(share.name), rest, ""


def _profile_times(profile: Profile) -> Iterator[_Time]:
    for row in profile.operators:
        if row.name != OTHERS:
            yield str(operator_class(row.name) or _other_operation(row.name)), row.seconds, row.kernel


def _other_operation(name: str) -> str:
    """What an operator does besides multiplying matrices; one that calls a product only dispatches."""
    if name in (PASS_EVENT, BETWEEN_OPERATORS):
        return "between operators"
    return "dispatch of products" if operator_class(name) is not None else name


Shapes = tuple[tuple[int, ...], ...]


def kernel_changes(row: Row) -> tuple[list[tuple[Shapes, Part]], int] | None:
    """Return the shapes whose product other kernels computed on the two sides, and how many shapes there are.

    The change of each is a part by the name of its class of operators, with the kernels of either side, as far as one
    ran; the largest change of time comes first. The operator's name is no part of what is compared: releases of torch
    call the same product by different names.

    Returns:
        ``None`` if a side was not audited, or its audit names no product.
    """
    if row.base is None or row.other is None:
        return None
    base, other = _uses(row.base.reports), _uses(row.other.reports)
    if not base or not other:
        return None
    found = []
    for kind, shapes in {**base, **other}:
        mine, theirs = (each.get((kind, shapes), {}) for each in (base, other))
        if set(mine) != set(theirs):
            seconds = sum(mine.values()), sum(theirs.values())
            found.append((shapes, Part(kind.value, *seconds, *map(_longest_first, (mine, theirs)))))
    return sorted(found, key=lambda each: (-abs(each[1].change), each[1].name, each[0])), len({**base, **other})


def _longest_first(spent: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(spent, key=lambda name: (-spent[name], name)))


def _uses(reports: Sequence[RunReport]) -> dict[tuple[OperatorClass, Shapes], dict[str, float]]:
    """The seconds per audited pass in each kernel, by what it computed, reorders and set-up included."""
    audits = [each.observed.evidence for each in reports if each.observed.evidence is not None]
    passes = sum(each.iterations for each in audits)
    found: dict[tuple[OperatorClass, Shapes], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for use in (use for audit in audits for use in audit.operators if passes):
        found[use.operator_class, use.shapes][f"{use.implementation} ({use.precision})"] += use.seconds / passes
    return found
