"""Profile a forward pass: where it spends its time, by operator and by layer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Callable

from modelzoo.evidence.capture import captured_output
from modelzoo.evidence.flops import Call, FlopCountError, record_calls, sum_flops
from modelzoo.evidence.profile_summary import LAYER_PREFIX, summarize_profile
from modelzoo.evidence.profiler import run_profiled
from modelzoo.records.evidence import Evidence
from modelzoo.records.profile import Flops, Profile


def operator_profile(
    call: Callable[[], object],
    model: Any = None,
    *,
    iterations: int = 2,
    trace: Path | None = None,
    evidence: Evidence | None = None,
    eager: Callable[[], object] | None = None,
) -> Profile:
    """Profile ``iterations`` passes of ``call``.

    Args:
        call: one warmed-up forward pass, with its own autocast.
        model: the eager ``torch.nn.Module`` that it runs, for the table by layer. The layers of compiled and scripted
            modules cannot be observed.
        iterations: number of passes.
        trace: where to write a Chrome trace (chrome://tracing, ui.perfetto.dev).
        evidence: the audit's evidence, for kernel and precision of each operator.
        eager: a pass of the same model whose operators can be counted, if ``call`` is compiled or scripted; by default
            ``call`` itself.
    """
    problems: list[str] = []
    layers = _layers(model, problems)
    with captured_output(problems), _layers_marked(layers):
        events = run_profiled(call, iterations, problems, trace)
    calls, flops = _count(eager or call, problems)
    return summarize_profile(
        events,
        calls,
        iterations,
        kinds={path: type(module).__name__ for path, module in layers},
        evidence=evidence,
        flops=flops,
        trace=str(trace) if trace is not None and events else None,
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
    flops = sum_flops(calls)
    if flops.missing:
        problems.append(f"operations not counted for {', '.join(flops.missing)}")
    return calls, flops


def _layers(model: Any, problems: list[str]) -> list[tuple[str, Any]]:
    """The modules to mark, by path."""
    import torch

    if model is None:
        return []
    compiled = getattr(getattr(torch, "_dynamo", None), "OptimizedModule", torch.jit.ScriptModule)
    if isinstance(model, (torch.jit.ScriptModule, compiled)):
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
