"""The operator profile: where one forward pass spends its time, by operator and by layer.

For each operator and shape: time, operations, bytes, what it reached, and the kernel and precision that the
audit found. Two profiles can be compared: which operators got slower, by how much of the total.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from modelzoo.evidence.audit import ROOT, Event, captured, profiled
from modelzoo.evidence.flops import Call, record_calls, total
from modelzoo.evidence.matching import classify
from modelzoo.records.evidence import Evidence
from modelzoo.records.profile import Flops, LayerRow, OperatorChange, OperatorRow, Profile, Shape

MOST_ROWS = 300
"""A detector calls small operators with thousands of different shapes; a result need not hold them all."""
LAYER = "layer "
"""Prefix of the profiler events that mark a module's forward."""


def operator_profile(
    call: Callable[[], object],
    model: Any = None,
    iterations: int = 2,
    trace: Path | None = None,
    evidence: Evidence | None = None,
    eager: Callable[[], object] | None = None,
) -> Profile:
    """Profile ``iterations`` passes of ``call``, which is warmed up and brings its own autocast.

    Args:
        call: one forward pass.
        model: the eager ``torch.nn.Module`` that it runs, for the table by layer; compiled and scripted
            modules have no layers left to mark.
        trace: where to write a Chrome trace (chrome://tracing, ui.perfetto.dev).
        evidence: the audit's, for kernel and precision beside each operator.
        eager: a pass of the same model whose operators can be counted, where ``call`` is compiled or
            scripted; by default ``call`` itself.
    """
    problems: list[str] = []
    layers = _layers(model, problems)
    with captured(problems), _marked(layers):
        events = profiled(call, iterations, problems, trace)
    calls: list[Call] = []
    try:
        calls = record_calls(eager or call)
    except Exception as error:  # operations are an extra: no profile is lost for them
        problems.append(f"operations could not be counted: {type(error).__name__}: {error}".splitlines()[0])
    counted = total(calls) if any(each.flop for each in calls) else None
    if counted is None and not problems:
        problems.append("no operations were seen: a compiled pass must be counted through its eager model")
    if counted is not None and counted.missing:
        problems.append(f"operations not counted for {', '.join(counted.missing)}")
    return summarize(
        events,
        calls,
        iterations,
        kinds={path: type(module).__name__ for path, module in layers},
        evidence=evidence,
        flops=counted,
        trace=str(trace) if trace is not None and events else None,
        problems=problems,
    )


def _layers(model: Any, problems: list[str]) -> list[tuple[str, Any]]:
    """The modules to mark, by path."""
    import torch

    if model is None:
        return []
    compiled = getattr(getattr(torch, "_dynamo", None), "OptimizedModule", ())
    if isinstance(model, (torch.jit.ScriptModule, compiled or torch.jit.ScriptModule)):
        problems.append("compiled and scripted models have no table by layer")
        return []
    return [(path or "(whole model)", module) for path, module in model.named_modules()]


@contextlib.contextmanager
def _marked(layers: Sequence[tuple[str, Any]]) -> Iterator[None]:
    """Put a profiler event around every module's forward."""
    from torch.autograd.profiler import record_function

    handles = []
    stack: list[Any] = []

    def enter(path: str) -> Callable[..., None]:
        def hook(module: Any, args: Any) -> None:
            mark = record_function(LAYER + path)
            mark.__enter__()
            stack.append(mark)

        return hook

    def leave(module: Any, args: Any, output: Any) -> None:
        stack.pop().__exit__(None, None, None)

    try:
        for path, module in layers:
            handles.append(module.register_forward_pre_hook(enter(path)))
            handles.append(module.register_forward_hook(leave))
        yield
    finally:
        while stack:  # a pass that raised leaves its modules' events open
            stack.pop().__exit__(None, None, None)
        for handle in handles:
            handle.remove()


def summarize(
    events: Sequence[Event],
    calls: Sequence[Call],
    iterations: int,
    kinds: Mapping[str, str] | None = None,
    evidence: Evidence | None = None,
    flops: Flops | None = None,
    trace: str | None = None,
    problems: Sequence[str] = (),
) -> Profile:
    """Build the profile from what was recorded. Pure."""
    seconds = sum(event.seconds for event in events)
    classes = classify(events)
    costs = _Costs(calls)
    kernels = _kernels(evidence)
    grouped: dict[tuple[str, tuple[Shape, ...]], list[Any]] = {}
    event_flop: list[int] = []
    for event, word in zip(events, classes):
        shapes = tuple(shape for shape in event.shapes if shape)
        cost = costs.find(event.name, word, shapes)
        event_flop.append(cost[0] or 0 if cost else 0)
        if event.name == ROOT or event.name.startswith(LAYER):
            key: tuple[str, tuple[Shape, ...]] = ("(between operators)", ())
        else:
            key = (event.name, shapes)
        entry = grouped.setdefault(key, [0, 0.0, cost])
        entry[0] += 1
        entry[1] += event.seconds
    rows = []
    for (name, shapes), (count, own, cost) in grouped.items():
        kernel, precision = kernels.get((name, shapes), ("", ""))
        flop = cost[0] * count if cost and cost[0] is not None else None
        moved = cost[1] * count if cost else None
        share = own / seconds if seconds > 0 else 0.0
        rows.append(OperatorRow(name, shapes, count, own, share, flop, moved, kernel, precision))
    return Profile(
        iterations=iterations,
        seconds=seconds,
        operators=_longest(rows),
        layers=_layer_rows(events, event_flop, kinds or {}, seconds),
        flops=flops,
        trace=trace,
        problems=tuple(problems),
    )


def _longest(rows: Sequence[OperatorRow]) -> tuple[OperatorRow, ...]:
    """Sorted by time; what lies beyond ``MOST_ROWS`` becomes one row, so that the shares still add up."""
    rows = sorted(rows, key=lambda row: -row.seconds)
    kept, rest = rows[:MOST_ROWS], rows[MOST_ROWS:]
    if rest:
        count, seconds = sum(row.count for row in rest), sum(row.seconds for row in rest)
        kept.append(OperatorRow("(others)", (), count, seconds, sum(row.share for row in rest)))
    return tuple(kept)


class _Costs:
    """Operations and bytes by operator and shapes, from the recorded calls."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._exact = {(call.name, call.shapes): (call.flop, call.bytes) for call in calls}
        # The profiler sees the kernel's operator (mkldnn_convolution), the recorder the one above it.
        words = classify([Event(call.name, 0.0, -1) for call in calls])
        self._by_class = {(word, call.shapes[:2]): (call.flop, call.bytes) for call, word in zip(calls, words) if word}

    def find(self, name: str, word: str, shapes: tuple[Shape, ...]) -> tuple[int | None, int] | None:
        if word:
            found = self._exact.get((name, shapes)) or self._by_class.get((word, shapes[:2]))
            return found if found and found[0] else None
        found = self._exact.get((name, shapes))
        # What only calls a product has no operations of its own.
        return None if found and found[0] else found


def _kernels(evidence: Evidence | None) -> dict[tuple[str, tuple[Shape, ...]], tuple[str, str]]:
    """Kernel and precision by operator and shapes; where calls differed, the one that took longest."""
    found: dict[tuple[str, tuple[Shape, ...]], tuple[str, str]] = {}
    for use in evidence.operators if evidence else ():
        if use.operator_class:
            shapes = tuple(tuple(shape) for shape in use.shapes if shape)
            found.setdefault((use.operator, shapes), (use.implementation, use.precision))
    return found


def _layer_rows(
    events: Sequence[Event], event_flop: Sequence[int], kinds: Mapping[str, str], seconds: float
) -> tuple[LayerRow, ...]:
    count: dict[str, int] = defaultdict(int)
    own: dict[str, float] = defaultdict(float)
    whole: dict[str, float] = defaultdict(float)
    flop: dict[str, int] = defaultdict(int)
    for index, event in enumerate(events):
        nearest = True
        seen: set[str] = set()  # a module may be called within itself
        at = index
        if event.name.startswith(LAYER):
            count[event.name] += 1
        while at >= 0:
            name = events[at].name
            if name.startswith(LAYER) and name not in seen:
                seen.add(name)
                whole[name] += event.seconds
                flop[name] += event_flop[index]
                own[name] += event.seconds if nearest else 0.0
                nearest = False
            at = events[at].parent
    rows = [
        LayerRow(
            name[len(LAYER) :],
            kinds.get(name[len(LAYER) :], ""),
            count[name],
            whole[name],
            own[name],
            whole[name] / seconds if seconds > 0 else 0.0,
            flop[name] or None,
        )
        for name in whole
    ]
    return tuple(sorted(rows, key=lambda row: -row.own_seconds))


def diff(before: Profile, after: Profile) -> tuple[OperatorChange, ...]:
    """Which operators changed, by seconds per pass, the largest change first. Pure.

    An operator that one profile lacks counts as 0 seconds there. The shares add up to the whole change.
    """

    def per_pass(profile: Profile) -> dict[tuple[str, tuple[Shape, ...]], float]:
        return {(row.name, row.shapes): row.seconds / profile.iterations for row in profile.operators}

    old, new = per_pass(before), per_pass(after)
    whole = before.seconds / before.iterations
    changes = [
        OperatorChange(*key, old.get(key, 0.0), new.get(key, 0.0), (new.get(key, 0.0) - old.get(key, 0.0)) / whole)
        for key in {**old, **new}
        if whole > 0
    ]
    return tuple(sorted(changes, key=lambda change: -abs(change.share)))
