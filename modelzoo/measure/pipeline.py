"""The stages of a workload as steps that can be timed, with copies between the host and an accelerator.

A step on the host has completed when it returns. A step on an accelerator has only been issued, so its time is that
between two events, which are read when the device has done everything: waiting after each step would stall what is
measured. A copy to the host waits for the device by itself, because the next step needs its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Callable, Optional, Union

from modelzoo.engines.protocol import AsynchronousDevice, DeviceEvent
from modelzoo.frozen import replace
from modelzoo.records.pipeline import MODEL, TO_DEVICE, TO_HOST, PipelineStage, Place
from modelzoo.workload.declaration import ModelInput, ModelOutput, Stage, Stages


@dataclass(frozen=True)
class Step:
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
    found: list[Step] = []
    place = Place.HOST
    for step in (*steps, None):
        wanted = Place.HOST if step is None else step.place
        if wanted is not place:
            name = TO_HOST if wanted is Place.HOST else TO_DEVICE
            number = 1 + sum(each.name.startswith(name) for each in found)
            found.append(
                Step(name if number == 1 else f"{name} {number}", _copy(wanted, device_name), Place.DEVICE, by_events)
            )
            place = wanted
        if step is not None:
            found.append(replace(step, by_events=by_events and step.place is Place.DEVICE))
    return found


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


@dataclass(frozen=True)
class Origin:
    """A moment at which the device was idle: by the host's clock in ns, and as an event if there is a device."""

    at: int
    event: Optional[DeviceEvent] = None


_Mark = Union[int, DeviceEvent]


@dataclass(frozen=True)
class Span:
    """When a step of one batch ran, in seconds after its origin."""

    step: Step
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it took; events may be too coarse to tell, so it is a nanosecond at least."""
        return max(self.end - self.start, 1e-9)


class Marks:
    """The start and the end of every step of one batch, by clock or by event."""

    def __init__(self, device: Optional[AsynchronousDevice]) -> None:
        self._device = device
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
        assert self._device is not None
        event = self._device.Event(enable_timing=True)
        event.record()
        return event

    def spans(self, origin: Origin) -> tuple[Span, ...]:
        """Read all marks; the device must have done everything that was issued."""
        return tuple(Span(step, _seconds(start, origin), _seconds(end, origin)) for step, start, end in self._marks)


def _seconds(mark: _Mark, origin: Origin) -> float:
    if isinstance(mark, int):
        return (mark - origin.at) * 1e-9
    assert origin.event is not None
    return origin.event.elapsed_time(mark) * 1e-3


def begin(device: Optional[AsynchronousDevice]) -> Origin:
    """Wait until the device is idle, and take the time."""
    if device is None:
        return Origin(perf_counter_ns())
    device.synchronize()
    if not device.timed_events:
        return Origin(perf_counter_ns())
    event = device.Event(enable_timing=True)
    at = perf_counter_ns()
    event.record()
    return Origin(at, event)


def wait(device: Optional[AsynchronousDevice]) -> int:
    """Wait until the device has done everything, and return the host's time in ns."""
    if device is not None:
        device.synchronize()
    return perf_counter_ns()
