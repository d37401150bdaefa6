"""Time one call, on the host and on an accelerator, and watch the accelerator between calls.

On a CPU, a call has completed when it returns. On an accelerator it has only been issued. With A = the host starts,
B = the host has issued everything, C = the host has synchronized, and D, E = device events around the work: C - A is
the latency on the host, E - D the time on the device, and B - A the issue time, which is never a latency. The first
synchronization comes before A, so that A does not count earlier work; the last one comes between B and C. Events are
read only after C, when both have completed.

An accelerator's sensors are read between timed calls, at most every ``INTERVAL`` seconds: after a clock has taken its
last timestamp and before the next call's first one. At that moment the device has just finished, so it still shows the
clock, the power and the throttling of the work. A thread would read them during calls, where it competes with the
host's issuing of kernels for Python's interpreter lock and for locks of the driver.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter, perf_counter_ns
from typing import Any, Protocol

from msgspec.structs import asdict

from modelzoo.engines.protocol import Accelerator, AsynchronousDevice, DeviceEvent, Model
from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.sensors import Sensors, npu_sensors, nvml_sensors
from modelzoo.records.equipment import AcceleratorUse, Copies, Phase, Reading
from modelzoo.records.timing import DEVICE, ISSUE, LATENCY, Timing
from modelzoo.workload.nested import mapped

INTERVAL = 0.25
"""Seconds between readings: two in a turn of half a second. A reading by NVML takes well under a millisecond."""
COPIES = 10
"""How often copying a batch is timed, after the samples."""


Times = dict[str, float]
"""What a clock finds: seconds by the name of their series; ``LATENCY`` is always among them."""


class Clock(Protocol):
    """Times a call; the value that the call returns is deleted after the last timestamp."""

    def time(self, call: Callable[[], Any]) -> Times: ...


class HostClock:
    """Times work that has completed when the call returns, by the monotonic performance counter."""

    def time(self, call: Callable[[], Any]) -> Times:
        start = perf_counter_ns()
        output = call()
        end = perf_counter_ns()
        del output  # after the second timestamp, and not within the next call
        return {LATENCY: (end - start) * 1e-9}


class Events:
    """Events with which work on a device is timed, used again and again.

    torch creates the driver's event when it is recorded for the first time (``CUDAEvent::record`` in
    ``ATen/cuda/CUDAEvent.h``), so a new one would be created within what it is to time. Threads may share this object.
    """

    def __init__(self, device: AsynchronousDevice) -> None:
        self._device = device
        self._free: list[DeviceEvent] = []

    def take(self) -> DeviceEvent:
        """Return an event that has been recorded before and that nobody else has."""
        try:
            return self._free.pop()
        except IndexError:
            event = self._device.Event(enable_timing=True)
            event.record()
            return event

    def give_back(self, events: Iterable[DeviceEvent]) -> None:
        """Let ``events``, which have been read, be taken again."""
        self._free.extend(events)


class DeviceClock:
    """Times work on an accelerator: synchronizes before the first timestamp and before the last one.

    If the events of the device tell no time, there is no time on the device.
    """

    def __init__(self, device: AsynchronousDevice) -> None:
        self._device = device
        events = Events(device)
        self._events = (events.take(), events.take()) if device.timed_events else None

    def time(self, call: Callable[[], Any]) -> Times:
        events = self._events
        self._device.synchronize()
        start = perf_counter_ns()
        if events is not None:
            events[0].record()
        output = call()
        if events is not None:
            events[1].record()
        issued = perf_counter_ns()
        self._device.synchronize()
        end = perf_counter_ns()
        del output
        found = {LATENCY: (end - start) * 1e-9, ISSUE: (issued - start) * 1e-9}
        return found if events is None else {**found, DEVICE: events[0].elapsed_time(events[1]) * 1e-3}


def clock_for(device: AsynchronousDevice | None) -> Clock:
    """Return the clock for a session's device; ``None`` means that a call has completed when it returns."""
    return HostClock() if device is None else DeviceClock(device)


class Watch:
    """Watches one accelerator, from its creation to ``result``; it is the clock, too.

    Args:
        device: what is watched.
        clock: what times each call.
        sensors: what is read; ``None``: nothing.
        problems: why there are no sensors.
        locked_mhz: the frequency that the clocks are locked at.
    """

    def __init__(
        self,
        device: Accelerator,
        clock: Clock,
        sensors: Sensors | None,
        problems: Sequence[str] = (),
        locked_mhz: int | None = None,
    ) -> None:
        self._device, self._clock, self._sensors = device, clock, sensors
        self._problems, self._locked_mhz = tuple(problems), locked_mhz
        self._readings: list[Reading] = []
        self._calls = 0
        self._phase: Phase = "warm-up"
        self._begins_turn = False
        self._due = 0.0
        device.reset_peak_memory()
        self._read("before")

    def time(self, call: Callable[[], Any]) -> Times:
        """Time a call as ``clock`` does; read the sensors before the first call of a turn, and after it if due."""
        if self._begins_turn:
            self._device.synchronize()  # the turn may have begun with a call that is not timed
            self._read(self._phase, begins_turn=True)
            self._begins_turn = False
        sample = self._clock.time(call)
        self._calls += 1
        if perf_counter() >= self._due and self._is_fast:
            self._read(self._phase)
        return sample

    def begin_turn(self) -> None:
        """Have the sensors read when the turn begins that follows."""
        self._phase = "steady"
        self._begins_turn = self._is_fast

    def result(self, timing: Timing | None, copies: Copies | None) -> AcceleratorUse:
        """What was seen; ``timing`` is what was timed meanwhile."""
        peak = self._device.peak_memory()
        self._read("after")
        readings = tuple(self._readings)
        untimed = 1 + len(timing.warmup) if timing is not None else 0
        return AcceleratorUse(
            device=self._device.describe(),
            peak_memory=peak,
            copies=copies,
            sensors=self._sensors.source if self._sensors is not None else "",
            readings=readings,
            throttled_samples=throttled_samples(readings, untimed),
            joules_per_call=joules_per_call(readings),
            locked_mhz=self._locked_mhz,
            problems=self._problems,
        )

    @property
    def _is_fast(self) -> bool:
        return self._sensors is not None and self._sensors.is_fast

    def _read(self, phase: Phase, *, begins_turn: bool = False) -> None:
        if self._sensors is None:
            return
        values = asdict(self._sensors.read())
        self._readings.append(Reading(phase, self._calls, **values, begins_turn=begins_turn))
        self._due = perf_counter() + INTERVAL


def watch(device: Accelerator, clock: Clock, locked_mhz: int | None = None) -> Watch:
    """Begin to watch ``device``; sensors that cannot be read are named in the record."""
    problems = (f"there is no tool to read the sensors of {device.kind} devices",)
    try:
        if device.kind == "cuda":
            return Watch(device, clock, nvml_sensors(device.identifier(), device.index, os.environ), (), locked_mhz)
        if device.kind == "npu":
            return Watch(device, clock, npu_sensors(device.index), (), locked_mhz)
    except EnvironmentProblem as problem:
        problems = (str(problem),)
    return Watch(device, clock, None, problems, locked_mhz)


def throttled_samples(readings: Sequence[Reading], untimed: int) -> tuple[int, ...]:
    """Indices of the samples between a reading that shows throttling and the reading before it.

    Args:
        readings: in their order.
        untimed: number of calls before the first sample.
    """
    indices: set[int] = set()
    for before, after in itertools.pairwise(readings):
        if after.throttled and after.phase == "steady" and not after.begins_turn:
            indices.update(range(max(0, before.calls - untimed), after.calls - untimed))
    return tuple(sorted(indices))


def joules_per_call(readings: Sequence[Reading]) -> float | None:
    """Energy of one call: the counter's differences between the readings of a turn, over the calls between them."""
    joules, calls = 0.0, 0
    for before, after in itertools.pairwise(readings):
        if after.phase != "steady" or after.begins_turn or before.joules is None or after.joules is None:
            continue
        joules += after.joules - before.joules
        calls += after.calls - before.calls
    return joules / calls if calls else None


def time_copies(model: Model, args: tuple[Any, ...], device: Accelerator, *, included: bool) -> Copies:
    """Time copying a batch to the device and its outputs back, each with nothing else going on.

    Args:
        args: the batch as the workload made it.
        included: whether the latency has them in it.
    """
    to_device, to_host = [], []
    for _ in range(COPIES):
        device.synchronize()
        started = perf_counter()
        prepared = model.prepare(args)
        device.synchronize()
        copied = perf_counter()
        outputs = model.call(*prepared)
        device.synchronize()
        called = perf_counter()
        on_host(outputs)
        to_device.append(copied - started)
        to_host.append(perf_counter() - called)
    return Copies(statistics.median(to_device), statistics.median(to_host), included)


def on_host(value: Any) -> Any:
    """The tensors in ``value`` (nested lists, tuples and dicts) on the host; copying them waits for the device."""
    return mapped(value, lambda each: each.cpu() if hasattr(each, "cpu") else each)
