"""Run forward passes under torch's profiler and turn its flat list of events into a tree with self times."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from modelzoo.evidence.observation import Event
from modelzoo.evidence.operators import PASS_EVENT
from modelzoo.records.profile import Shape


@dataclass(frozen=True)
class Span:
    """A profiler event before nesting; ``start`` and ``stop`` are in nanoseconds of the same clock."""

    name: str
    start: int
    stop: int
    thread: int
    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[str, ...] = ()
    flop: int | None = None


def run_profiled(
    call: Callable[[], object], iterations: int, problems: list[str], trace: Path | None = None
) -> tuple[Event, ...]:
    """Run ``call`` ``iterations`` times under the profiler.

    If the profiler does not work, the passes run without it.

    Args:
        call: one forward pass.
        iterations: number of passes.
        problems: receives a message if the profiler does not work or does not record everything.
        trace: where to write a Chrome trace.

    Returns:
        The events, empty if the profiler does not work.
    """
    from torch.autograd.profiler import profile, record_function

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            profiler = profile(record_shapes=True)
            profiler.__enter__()
        except Exception as error:  # builds without Kineto raise different exceptions
            problems.append(f"this PyTorch build has no working profiler ({_first_line(error)})")
            for _ in range(iterations):
                call()
            return ()
        try:
            for _ in range(iterations):
                with record_function(PASS_EVENT):
                    call()
        finally:
            profiler.__exit__(*sys.exc_info())
        if trace is not None:
            profiler.export_chrome_trace(str(trace))
        return nest_spans(_spans(profiler, problems))


def nest_spans(spans: Sequence[Span]) -> tuple[Event, ...]:
    """Build the tree of calls inside each ``PASS_EVENT``, and compute self times.

    Other threads are dropped: they work for an operator of the main thread, whose time includes theirs.
    """
    threads = {span.thread for span in spans if span.name == PASS_EVENT}
    ordered = sorted((span for span in spans if span.thread in threads), key=lambda span: (span.start, -span.stop))
    kept: list[tuple[Span, int]] = []
    self_times: list[int] = []
    open_calls: list[int] = []
    for span in ordered:
        while open_calls and span.start >= kept[open_calls[-1]][0].stop:
            open_calls.pop()
        if not open_calls and span.name != PASS_EVENT:
            continue
        parent = open_calls[-1] if open_calls else -1
        length = span.stop - span.start
        if parent >= 0:
            # The clock is read at slightly different moments, so a child may end just after its parent.
            length = min(span.stop, kept[parent][0].stop) - span.start
            self_times[parent] -= length
        open_calls.append(len(kept))
        kept.append((span, parent))
        self_times.append(length)
    return tuple(
        Event(span.name, max(nanoseconds, 0) / 1e9, parent, span.shapes, span.dtypes, span.flop)
        for (span, parent), nanoseconds in zip(kept, self_times)
    )


def _spans(profiler: Any, problems: list[str]) -> list[Span]:
    results = getattr(profiler, "kineto_results", None)
    spans = []
    for event in results.events() if results is not None else ():
        if event.is_async() or "CPU" not in str(event.device_type()):
            continue
        if hasattr(event, "start_ns"):
            start, length = event.start_ns(), event.duration_ns()
        else:  # torch before 2.4 counts in microseconds
            start, length = event.start_us() * 1000, event.duration_us() * 1000
        spans.append(
            Span(
                event.name(),
                start,
                start + length,
                event.start_thread_id(),
                _shapes(event.shapes()),
                tuple(event.dtypes()) if hasattr(event, "dtypes") else (),
            )
        )
    if spans and not any(span.dtypes for span in spans):
        problems.append("this torch's profiler does not record data types")
    return spans


def _shapes(shapes: Sequence[Any]) -> tuple[Shape, ...]:
    """Shapes of the tensor arguments; a list of tensors, which has a list of shapes, becomes an empty shape."""
    return tuple(tuple(shape) if all(isinstance(size, int) for size in shape) else () for shape in shapes)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
