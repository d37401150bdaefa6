"""The stages of a workload as steps that can be timed, one batch after the other or several in flight.

A step on the host has completed when it returns. A step on an accelerator has only been issued, so its time is that
between two events, which are read when the device has done everything: waiting after each step would stall what is
measured. A copy to the host waits for the device by itself, because the next step needs its result.

With several batches in flight, stages of the host work on some while the device works on others. Three threads hand
batches on, each in the order in which they came: one runs the stages before the device's, the calling thread runs those
from the first to the last one on the device, and one runs the stages after them. A batch is let in only if fewer than
the limit are in flight.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Callable, Optional, Union

import msgspec

from modelzoo.engines.protocol import AsynchronousDevice, DeviceEvent
from modelzoo.frozen import replace
from modelzoo.machine.linux import leave_bound_cpu
from modelzoo.measure.clock import Events
from modelzoo.records.timing import MODEL, TO_DEVICE, TO_HOST, PipelineStage, Place
from modelzoo.workload.declaration import ModelInput, ModelOutput, Stage, Stages

_Mark = Union[int, DeviceEvent]
Entered = Callable[[], AbstractContextManager[Any]]
"""Makes what a thread needs to be in force while it runs stages."""


class Step(msgspec.Struct, frozen=True):
    """A stage as this process runs it; ``by_events`` is whether it is timed by events of the device."""

    name: str
    call: Callable[[Any], Any]
    place: Place
    by_events: bool = False

    def record(self) -> PipelineStage:
        """What the result stores of it."""
        return PipelineStage(self.name, self.place, self.by_events)


def steps_of(
    stages: Stages,
    model: Callable[[ModelInput], ModelOutput],
    device: Optional[AsynchronousDevice] = None,
    device_name: str = "cpu",
) -> tuple[Step, ...]:
    """Return the steps of ``stages`` with ``model`` between them, and with copies if the device has its own memory.

    Args:
        stages: what the workload declares.
        model: the model stage.
        device: the accelerator that the stages on the device use; ``None``: they use the CPU.
        device_name: what tensors are moved to.
    """
    steps = [*map(_step, stages.before), Step(MODEL, model, Place.DEVICE), *map(_step, stages.after)]
    return tuple(steps) if device is None else tuple(_with_copies(steps, device_name, device.timed_events))


def _step(stage: Stage) -> Step:
    return Step(stage.name, stage.call, Place(stage.place))


def _with_copies(steps: Sequence[Step], device_name: str, by_events: bool) -> list[Step]:
    """Insert a copy wherever the next step works elsewhere; the first value and the last one are on the host."""
    with_copies: list[Step] = []
    place = Place.HOST
    for step in (*steps, None):
        wanted = Place.HOST if step is None else step.place
        if wanted is not place:
            name = TO_HOST if wanted is Place.HOST else TO_DEVICE
            number = 1 + sum(each.name.startswith(name) for each in with_copies)
            with_copies.append(
                Step(name if number == 1 else f"{name} {number}", _copy(wanted, device_name), Place.DEVICE, by_events)
            )
            place = wanted
        if step is not None:
            with_copies.append(replace(step, by_events=by_events and step.place is Place.DEVICE))
    return with_copies


def _copy(place: Place, device_name: str) -> Callable[[Any], Any]:
    def copy(value: Any) -> Any:
        return moved(value, lambda tensor: tensor.cpu() if place is Place.HOST else tensor.to(device_name))

    return copy


def moved(value: Any, move: Callable[[Any], Any]) -> Any:
    """Return ``value`` with ``move`` applied to every tensor in it; contexts of the stages stay as they are."""
    if isinstance(value, ModelInput):
        return replace(value, args=moved(value.args, move))
    if isinstance(value, ModelOutput):
        return replace(value, output=moved(value.output, move))
    if isinstance(value, Mapping):
        return {key: moved(each, move) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([moved(each, move) for each in value])
    return move(value) if hasattr(value, "cpu") else value


class Origin(msgspec.Struct, frozen=True):
    """A moment at which the device was idle: by the host's clock in ns, and as an event if there is a device."""

    at: int
    event: Optional[DeviceEvent] = None


class Span(msgspec.Struct, frozen=True):
    """When a step of one batch ran, in seconds after its origin."""

    step: Step
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it took; events may be too coarse to tell, so it is a nanosecond at least."""
        return max(self.end - self.start, 1e-9)


class Marks:
    """The start and the end of every step of one batch, by clock or by event; ``events``: where those come from."""

    def __init__(self, events: Optional[Events]) -> None:
        self._events = events
        self._marks: list[tuple[Step, _Mark, _Mark]] = []

    def run(self, steps: Sequence[Step], value: Any) -> Any:
        """Run ``steps`` one after the other, each on what the one before it returned; do not wait for the device."""
        for step in steps:
            start = self._mark(step)
            value = step.call(value)
            self._marks.append((step, start, self._mark(step)))
        return value

    def _mark(self, step: Step) -> _Mark:
        if not step.by_events:
            return perf_counter_ns()
        assert self._events is not None
        event = self._events.take()
        event.record()
        return event

    def spans(self, origin: Origin) -> tuple[Span, ...]:
        """Read all marks, once; the device must have done everything that was issued."""
        found = tuple(Span(step, _seconds(start, origin), _seconds(end, origin)) for step, start, end in self._marks)
        if self._events is not None:
            marks = (mark for _, start, end in self._marks for mark in (start, end))
            self._events.give_back(mark for mark in marks if not isinstance(mark, int))
        self._marks.clear()
        return found


def _seconds(mark: _Mark, origin: Origin) -> float:
    if isinstance(mark, int):
        return (mark - origin.at) * 1e-9
    assert origin.event is not None
    return origin.event.elapsed_time(mark) * 1e-3


def events_of(device: Optional[AsynchronousDevice]) -> Optional[Events]:
    """Return events for ``device``; ``None`` if there is no device, or if its events tell no time."""
    return Events(device) if device is not None and device.timed_events else None


def begin(device: Optional[AsynchronousDevice], events: Optional[Events]) -> Origin:
    """Wait until the device is idle, and take the time; ``events`` are those of ``events_of``."""
    event = events.take() if events is not None else None
    if device is not None:
        device.synchronize()
    at = perf_counter_ns()
    if event is None:
        return Origin(at)
    event.record()
    return Origin(at, event)


def release(origin: Origin, events: Optional[Events]) -> None:
    """Let the event of ``origin`` be taken again, from which all spans have been read."""
    if events is not None and origin.event is not None:
        events.give_back([origin.event])


def wait(device: Optional[AsynchronousDevice]) -> int:
    """Wait until the device has done everything, and return the host's time in ns."""
    if device is not None:
        device.synchronize()
    return perf_counter_ns()


@dataclass
class _Batch:
    """A batch on its way; ``None`` in a queue ends the thread that reads it."""

    value: Any
    marks: Marks
    entered: int = 0
    error: Optional[BaseException] = None


class Flight(msgspec.Struct, frozen=True):
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
        self._events = events_of(self.device)
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
        origin = begin(self.device, self._events)
        batches = [_Batch(source, Marks(self._events)) for source in sources]
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
        flights = [_flight(batch, left, origin) for batch, left in done]
        release(origin, self._events)
        return flights

    def _enter(self) -> None:
        with self.entered():
            while (batch := self._coming.get()) is not None:
                self._slots.acquire()
                leave_bound_cpu()
                batch.entered = perf_counter_ns()
                _attempt(batch, self._before)
                self._ready.put(batch)

    def _leave(self) -> None:
        with self.entered():
            while (batch := self._leaving.get()) is not None:
                leave_bound_cpu()
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
