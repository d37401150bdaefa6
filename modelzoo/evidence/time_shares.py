"""Sum attributed time up for the tables: by kernel, by precision, by operator. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Callable

from modelzoo.evidence.attribution import AttributedTime
from modelzoo.records.evidence import OperatorClass, OperatorUse, ProofSource, TimeShare
from modelzoo.records.profile import Shape

Name = Callable[[AttributedTime], str]


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


_UseKey = tuple[str, OperatorClass, tuple[Shape, ...], str, str, ProofSource]
