"""The stages of a workload as steps that can be timed, one batch after the other.

A step on the host has completed when it returns. A step on an accelerator has only been issued, so its time is that
between two events, which are read when the device has done everything: waiting after each step would stall what is
measured. A copy to the host waits for the device by itself, because the next step needs its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import msgspec

from modelzoo.engines.protocol import AsynchronousDevice, DeviceEvent
from modelzoo.frozen import replace
from modelzoo.measure.clock import Events
from modelzoo.records.timing import LATENCY, MODEL, SYNCHRONIZED, TO_DEVICE, TO_HOST, UNDIVIDED, PipelineStage, Place
from modelzoo.workload.declaration import ModelInput, ModelOutput, Stage, Stages
from modelzoo.workload.nested import mapped

_Mark = int | DeviceEvent


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
    device: AsynchronousDevice | None = None,
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
    return mapped(value, lambda each: move(each) if hasattr(each, "cpu") else each)


class Origin(msgspec.Struct, frozen=True):
    """A moment at which the device was idle: by the host's clock in ns, and as an event if there is a device."""

    at: int
    event: DeviceEvent | None = None


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

    def __init__(self, events: Events | None) -> None:
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


def events_of(device: AsynchronousDevice | None) -> Events | None:
    """Return events for ``device``; ``None`` if there is no device, or if its events tell no time."""
    return Events(device) if device is not None and device.timed_events else None


def begin(device: AsynchronousDevice | None, events: Events | None) -> Origin:
    """Wait until the device is idle, and take the time; ``events`` are those of ``events_of``."""
    event = events.take() if events is not None else None
    if device is not None:
        device.synchronize()
    at = perf_counter_ns()
    if event is None:
        return Origin(at)
    event.record()
    return Origin(at, event)


def wait(device: AsynchronousDevice | None) -> int:
    """Wait until the device has done everything, and return the host's time in ns."""
    if device is not None:
        device.synchronize()
    return perf_counter_ns()


class PipelineSample(msgspec.Struct, frozen=True):
    """One sample; ``latency`` is the end-to-end time in seconds, ``series`` has it and the others by name."""

    latency: float
    series: dict[str, float]

    def values(self) -> dict[str, float]:
        """What was timed, by the name of its series."""
        return self.series


class PipelineClock:
    """Times a pipeline: its stages and the whole, and what timing them costs; a ``Clock``.

    Each sample consists of two passes over the same batch, in alternating order. One takes the time of every stage: by
    events of the device, which are read after the end, or by timestamps on a CPU. The other one shows what that costs,
    or what it saves: on a device with timed events it synchronizes after every stage, and otherwise it takes no time
    between the stages at all.
    """

    def __init__(self, steps: Sequence[Step], source: Any, device: AsynchronousDevice | None = None) -> None:
        self._steps, self._source, self._device, self._events = steps, source, device, events_of(device)
        self._count = 0

    def run(self) -> Any:
        """Run all stages once, and return what the last one returned."""
        return run_all(self._steps, self._source)

    def time(self, call: Callable[[], Any]) -> PipelineSample:
        """Time two passes; ``call`` is ``run``."""
        stages_first = self._count % 2 == 0
        self._count += 1
        other = 0.0 if stages_first else self._other(call)
        series = self._staged()
        other = self._other(call) if stages_first else other
        name = UNDIVIDED if self._events is None else SYNCHRONIZED
        return PipelineSample(series[LATENCY], {**series, name: other})

    def _staged(self) -> dict[str, float]:
        """Run one pass; the seconds of every stage, and of the whole."""
        waits = self._device is not None and self._events is None
        origin = begin(self._device, self._events)
        marks = Marks(self._events)
        output = marks.run(waiting(self._steps, self._device) if waits else self._steps, self._source)
        end = wait(self._device)
        del output  # after the last timestamp
        spans = marks.spans(origin)
        if self._events is not None and origin.event is not None:
            self._events.give_back([origin.event])
        return {LATENCY: (end - origin.at) * 1e-9, **{span.step.name: span.seconds for span in spans}}

    def _other(self, call: Callable[[], Any]) -> float:
        """Seconds of a pass with a synchronization after every stage, or with no timestamp between the stages."""
        start = wait(self._device)
        output = call() if self._events is None else run_all(waiting(self._steps, self._device), self._source)
        end = wait(self._device)
        del output
        return (end - start) * 1e-9


def run_all(steps: Sequence[Step], value: Any) -> Any:
    """Run ``steps`` one after the other, and return what the last one returned."""
    for step in steps:
        value = step.call(value)
    return value


def waiting(steps: Sequence[Step], device: AsynchronousDevice | None) -> list[Step]:
    """``steps``, each of which waits for the device at its end."""

    def waits(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            output = call(value)
            wait(device)
            return output

        return run

    return [Step(step.name, waits(step.call), step.place, step.by_events) for step in steps]
