"""Build an operator profile from what was recorded. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from modelzoo.evidence.costs import Cost, CostTable, Operator, tensor_shapes
from modelzoo.evidence.flops import Call
from modelzoo.evidence.matching import classify
from modelzoo.evidence.observation import Event
from modelzoo.evidence.operators import PASS_EVENT
from modelzoo.records.evidence import Evidence
from modelzoo.records.profile import BETWEEN_OPERATORS, OTHERS, Flops, LayerRow, OperatorRow, Profile

MOST_ROWS = 300
"""The most operator rows in a profile; a detector calls small operators with thousands of different shapes."""
LAYER_PREFIX = "layer "
"""Prefix of the profiler events that mark a module's forward."""


def summarize_profile(
    events: Sequence[Event],
    calls: Sequence[Call],
    iterations: int,
    *,
    kinds: Mapping[str, str] | None = None,
    evidence: Evidence | None = None,
    flops: Flops | None = None,
    trace: str | None = None,
    problems: Sequence[str] = (),
) -> Profile:
    """Build the profile.

    Args:
        events: the profiler's, of all passes.
        calls: the recorded calls of one pass, for operations and bytes.
        iterations: number of passes.
        kinds: the class name of each module by path.
        evidence: the audit's, for kernel and precision of each operator.
        flops: the operations of one pass.
        trace: path of the Chrome trace, if one was written.
        problems: what could not be measured.
    """
    seconds = sum(event.seconds for event in events)
    costs = _costs_of(events, calls)
    return Profile(
        iterations=iterations,
        seconds=seconds,
        operators=_limited(_operator_rows(events, costs, _kernels(evidence), seconds)),
        layers=_layer_rows(events, costs, kinds or {}, seconds),
        flops=flops,
        trace=trace,
        problems=tuple(problems),
    )


@dataclass
class _OperatorSum:
    """The calls of one operator with one set of shapes; they all have the same ``cost``."""

    cost: Cost | None
    count: int = 0
    seconds: float = 0.0


def _operator_rows(
    events: Sequence[Event],
    costs: Sequence[Cost | None],
    kernels: Mapping[Operator, tuple[str, str]],
    seconds: float,
) -> list[OperatorRow]:
    sums: dict[Operator, _OperatorSum] = {}
    for event, cost in zip(events, costs):
        is_operator = event.name != PASS_EVENT and not event.name.startswith(LAYER_PREFIX)
        key: Operator = (event.name, tensor_shapes(event)) if is_operator else (BETWEEN_OPERATORS, ())
        entry = sums.setdefault(key, _OperatorSum(cost))
        entry.count += 1
        entry.seconds += event.seconds
    rows = []
    for (name, shapes), entry in sums.items():
        flop, moved = entry.cost or (None, None)
        kernel, precision = kernels.get((name, shapes), ("", ""))
        rows.append(
            OperatorRow(
                name=name,
                shapes=shapes,
                count=entry.count,
                seconds=entry.seconds,
                share=entry.seconds / seconds if seconds > 0 else 0.0,
                flop=None if flop is None else flop * entry.count,
                bytes=None if moved is None else moved * entry.count,
                kernel=kernel,
                precision=precision,
            )
        )
    return rows


def _limited(rows: Sequence[OperatorRow]) -> tuple[OperatorRow, ...]:
    """Sort by time; replace rows beyond ``MOST_ROWS`` by their sum, so that the shares still add up."""
    rows = sorted(rows, key=lambda row: -row.seconds)
    kept, rest = rows[:MOST_ROWS], rows[MOST_ROWS:]
    if rest:
        count, seconds = sum(row.count for row in rest), sum(row.seconds for row in rest)
        kept.append(OperatorRow(OTHERS, (), count, seconds, sum(row.share for row in rest)))
    return tuple(kept)


def _costs_of(events: Sequence[Event], calls: Sequence[Call]) -> list[Cost | None]:
    """Operations and bytes of each event, ``None`` if it matches no recorded call."""
    table = CostTable(calls)
    return [table.find(event.name, kind, tensor_shapes(event)) for event, kind in zip(events, classify(events))]


def _kernels(evidence: Evidence | None) -> dict[Operator, tuple[str, str]]:
    """Kernel and precision by operator; if an operator's calls differ, those of the longest."""
    kernels: dict[Operator, tuple[str, str]] = {}
    for use in evidence.operators if evidence else ():
        shapes = tuple(shape for shape in use.shapes if shape)
        kernels.setdefault((use.operator, shapes), (use.implementation, use.precision))
    return kernels


@dataclass
class _LayerSum:
    count: int = 0
    own_seconds: float = 0.0
    seconds: float = 0.0
    flop: int = 0


def _layer_rows(
    events: Sequence[Event], costs: Sequence[Cost | None], kinds: Mapping[str, str], seconds: float
) -> tuple[LayerRow, ...]:
    sums: dict[str, _LayerSum] = defaultdict(_LayerSum)
    for index, (event, cost) in enumerate(zip(events, costs)):
        if event.name.startswith(LAYER_PREFIX):
            sums[event.name].count += 1
        for depth, name in enumerate(_enclosing_layers(events, index)):
            entry = sums[name]
            entry.seconds += event.seconds
            entry.own_seconds += event.seconds if depth == 0 else 0.0
            entry.flop += (cost[0] or 0) if cost else 0
    rows = [
        LayerRow(
            path=path,
            kind=kinds.get(path, ""),
            count=entry.count,
            seconds=entry.seconds,
            own_seconds=entry.own_seconds,
            share=entry.seconds / seconds if seconds > 0 else 0.0,
            flop=entry.flop or None,
        )
        for path, entry in ((name[len(LAYER_PREFIX) :], entry) for name, entry in sums.items())
    ]
    return tuple(sorted(rows, key=lambda row: -row.own_seconds))


def _enclosing_layers(events: Sequence[Event], index: int) -> Iterator[str]:
    """The layers around an event, innermost first; each once, because a module may call itself."""
    found: set[str] = set()
    while index >= 0:
        name = events[index].name
        if name.startswith(LAYER_PREFIX) and name not in found:
            found.add(name)
            yield name
        index = events[index].parent
