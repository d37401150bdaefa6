"""Several batches in a pipeline at the same time: stages of the host work on some while the device works on others.

Three threads hand batches on, each in the order in which they came: one runs the stages before the device's, the
calling thread runs those from the first to the last one on the device, and one runs the stages after them. A batch is
let in only if fewer than the limit are in flight.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Callable, Optional

from modelzoo.engines.protocol import AsynchronousDevice
from modelzoo.measure.pipeline import Marks, Origin, Span, Step, begin, wait
from modelzoo.records.pipeline import Place

Entered = Callable[[], AbstractContextManager[Any]]
"""Makes what a thread needs to be in force while it runs stages."""


@dataclass
class _Batch:
    """A batch on its way; ``None`` in a queue ends the thread that reads it."""

    value: Any
    marks: Marks
    entered: int = 0
    error: Optional[BaseException] = None


@dataclass(frozen=True)
class Flight:
    """One batch, in seconds after the run began.

    Attributes:
        began: the host's time at the begin of the run, in ns.
        output: what the last stage returned; ``None`` if outputs were not to be kept.
        entered: when the first stage began.
        left: when the last stage had ended.
        spans: when each stage ran.
    """

    began: int
    output: Any
    entered: float
    left: float
    spans: tuple[Span, ...]


@dataclass
class InFlight:
    """Runs batches through ``steps``, up to ``limit`` of them at the same time.

    It is a context manager, which starts and ends its threads. The device's stages run in the thread that calls
    ``run``, where the switches of the session are in force.

    Attributes:
        steps: the pipeline.
        limit: batches in flight.
        device: the accelerator; ``None``: the stages on the device use the CPU.
        entered: what the two other threads run in.
    """

    steps: Sequence[Step]
    limit: int
    device: Optional[AsynchronousDevice] = None
    entered: Entered = nullcontext
    _coming: queue.Queue[Optional[_Batch]] = field(default_factory=queue.Queue)
    _ready: queue.Queue[_Batch] = field(default_factory=queue.Queue)
    _leaving: queue.Queue[Optional[_Batch]] = field(default_factory=queue.Queue)
    _left: queue.Queue[tuple[_Batch, int]] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        on_device = [index for index, step in enumerate(self.steps) if step.place is Place.DEVICE]
        first, last = on_device[0], on_device[-1] + 1
        self._before, self._middle, self._after = self.steps[:first], self.steps[first:last], self.steps[last:]
        self._slots = threading.Semaphore(self.limit)
        self._keep_outputs = True
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._enter, self._leave)]

    def __enter__(self) -> InFlight:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._coming.put(None)
        self._leaving.put(None)
        if error is None:  # after an error a batch may still hold its slot, and the threads end with the process
            for thread in self._threads:
                thread.join()

    def run(self, sources: Iterable[Any], *, keep_outputs: bool = True) -> list[Flight]:
        """Run one batch of each of ``sources``, and return them in that order.

        Raises:
            BaseException: whatever a stage raised first.
        """
        self._keep_outputs = keep_outputs
        origin = begin(self.device)
        batches = [_Batch(source, Marks(self.device)) for source in sources]
        for batch in batches:
            self._coming.put(batch)
        for _ in batches:
            batch = self._ready.get()
            _attempt(batch, self._middle)
            self._leaving.put(batch)
        done = [self._left.get() for _ in batches]
        wait(self.device)
        failed = next((batch.error for batch, _ in done if batch.error is not None), None)
        if failed is not None:
            raise failed
        return [_flight(batch, left, origin) for batch, left in done]

    def _enter(self) -> None:
        with self.entered():
            while (batch := self._coming.get()) is not None:
                self._slots.acquire()
                batch.entered = perf_counter_ns()
                _attempt(batch, self._before)
                self._ready.put(batch)

    def _leave(self) -> None:
        with self.entered():
            while (batch := self._leaving.get()) is not None:
                _attempt(batch, self._after)
                left = perf_counter_ns()
                if not self._keep_outputs:
                    batch.value = None
                self._slots.release()
                self._left.put((batch, left))


def _attempt(batch: _Batch, steps: Sequence[Step]) -> None:
    """Run ``steps`` unless an earlier one failed; the error is raised where all batches are collected."""
    if batch.error is not None:
        return
    try:
        batch.value = batch.marks.run(steps, batch.value)
    except BaseException as error:
        batch.error = error


def _flight(batch: _Batch, left: int, origin: Origin) -> Flight:
    entered = (batch.entered - origin.at) * 1e-9
    return Flight(origin.at, batch.value, entered, (left - origin.at) * 1e-9, batch.marks.spans(origin))
