"""Profile a forward pass: where it spends its time, by operator and by layer."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from modelzoo.evidence.flops import (
    Call,
    Cost,
    CostTable,
    FlopCountError,
    Operator,
    record_calls,
    sum_flops,
    tensor_shapes,
)
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.matching import classify
from modelzoo.evidence.observation import Event
from modelzoo.evidence.profiler import captured_output, run_profiled
from modelzoo.records.evidence import Evidence
from modelzoo.records.profile import BETWEEN_OPERATORS, OTHERS, Flops, LayerRow, OperatorRow, Profile


def operator_profile(
    call: Callable[[], object],
    model: Any = None,
    *,
    iterations: int = 2,
    evidence: Evidence | None = None,
    eager: Callable[[], object] | None = None,
) -> Profile:
    """Profile ``iterations`` passes of ``call``.

    Args:
        call: one warmed-up forward pass, with its own autocast.
        model: the eager ``torch.nn.Module`` that it runs, for the table by layer. The layers of compiled and scripted
            modules cannot be observed.
        iterations: number of passes.
        evidence: the audit's evidence, for kernel and precision of each operator.
        eager: a pass of the same model whose operators can be counted, if ``call`` is compiled or scripted; by default
            ``call`` itself.
    """
    problems: list[str] = []
    layers = _layers(model, problems)
    with captured_output(problems), _layers_marked(layers):
        events = run_profiled(call, iterations, problems)
    calls, flops = _count(eager or call, problems)
    return summarize_profile(
        events,
        calls,
        iterations,
        kinds={path: type(module).__name__ for path, module in layers},
        evidence=evidence,
        flops=flops,
        problems=problems,
    )


def _count(call: Callable[[], object], problems: list[str]) -> tuple[list[Call], Flops | None]:
    """The operations of one pass; a profile without them is still useful, so an error is only reported."""
    try:
        calls = record_calls(call)
    except FlopCountError as error:
        problems.append(str(error))
        return [], None
    if not any(each.flop for each in calls):
        if not problems:
            problems.append("no operations were recorded: count a compiled pass through its eager model")
        return calls, None
    return calls, sum_flops(calls)


def _layers(model: Any, problems: list[str]) -> list[tuple[str, Any]]:
    """The modules to mark, by path."""
    import torch

    if model is None:
        return []
    if isinstance(model, (torch.jit.ScriptModule, torch._dynamo.OptimizedModule)):
        problems.append("compiled and scripted models have no table by layer")
        return []
    return [(path or "(whole model)", module) for path, module in model.named_modules()]


@contextlib.contextmanager
def _layers_marked(layers: Sequence[tuple[str, Any]]) -> Iterator[None]:
    """Record a profiler event around every module's forward."""
    from torch.autograd.profiler import record_function

    handles = []
    open_events: list[Any] = []

    def enter(path: str) -> Callable[..., None]:
        def hook(module: Any, args: Any) -> None:
            event = record_function(LAYER_PREFIX + path)
            event.__enter__()
            open_events.append(event)

        return hook

    def leave(module: Any, args: Any, output: Any) -> None:
        open_events.pop().__exit__(None, None, None)

    try:
        for path, module in layers:
            handles.append(module.register_forward_pre_hook(enter(path)))
            handles.append(module.register_forward_hook(leave))
        yield
    finally:
        while open_events:  # a pass that raised did not leave its modules
            open_events.pop().__exit__(None, None, None)
        for handle in handles:
            handle.remove()


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
    yielded: set[str] = set()
    while index >= 0:
        name = events[index].name
        if name.startswith(LAYER_PREFIX) and name not in yielded:
            yielded.add(name)
            yield name
        index = events[index].parent
