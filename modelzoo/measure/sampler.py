"""Time a call, from its cold start to its steady state, and watch the accelerator between calls.

On a CPU, a call has completed when it returns. On an accelerator it has only been issued. With A = the host starts,
B = the host has issued everything, C = the host has synchronized, and D, E = device events around the work: C - A is
the latency on the host, E - D the time on the device, and B - A the issue time, which is never a latency. The first
synchronization comes before A, so that A does not count earlier work; the last one comes between B and C. Events are
read only after C, when both have completed.

An accelerator's sensors are read between timed calls, at most every ``INTERVAL`` seconds: after a clock has taken its
last timestamp and before the next call's first one. At that moment the device has just finished, so it still shows the
clock, the power and the throttling of the work. A thread would read them during calls, where it competes with the
host's issuing of kernels for Python's interpreter lock and for locks of the driver.

A call is timed once cold, then in a warm-up, then for steady-state samples:

**Cold start.** The very first call, on its own: it pays for lazy initialisation, weight packing and page faults.

**Warm-up.** Calls are timed but not used until timings stabilize: the medians of the last two windows of calls
agree (``stats.is_settled``). The warm-up takes at least ``WARMUP_MIN_SECONDS``, because threads and clock
frequencies need that long to ramp up, and at most ``WARMUP_MAX_SECONDS``. ``--warmup N`` fixes the number of calls.

**Sampling.** After the warm-up every sample counts. Samples are taken in turns of ``TURN_SECONDS``, until the turns
together have taken ``Plan.max_seconds``, or until there are ``Plan.iterations`` samples. The spread of a process's own
samples never ends its sampling: processes differ by far more, so a narrow interval within one is false precision.

**Turns of several workers.** Several workers are alive at once, one per setting, and only one of them works at a
time: ``Sampling.turn`` is called when it is this worker's turn.

Python's garbage collector is kept from running meanwhile, as ``timeit`` does: its pauses must not fall into a sample.
"""

from __future__ import annotations

import gc
import itertools
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, perf_counter_ns
from typing import Any

from modelzoo import stats
from modelzoo.engines.protocol import Accelerator, AsynchronousDevice, DeviceEvent, Model
from modelzoo.errors import EnvironmentProblem
from modelzoo.frozen import replace
from modelzoo.machine.sensors import Sensors, npu_sensors, nvml_sensors
from modelzoo.plan import Plan
from modelzoo.records.equipment import AcceleratorUse, Copies, Phase, Reading
from modelzoo.records.timing import DEVICE, ISSUE, LATENCY, SamplingStop, Series, Timing, WarmUpEnd
from modelzoo.workload.nested import mapped

INTERVAL = 0.25
"""Seconds between readings: two in a turn of half a second. A reading by NVML takes well under a millisecond."""
COPIES = 10
"""How often copying a batch is timed, after the samples."""


Times = dict[str, float]
"""What a clock finds: seconds by the name of their series; ``LATENCY`` is always among them."""


Clock = Callable[[Callable[[], Any]], Times]
"""Times a call; the value that the call returns is deleted after the last timestamp."""


def host_clock(call: Callable[[], Any]) -> Times:
    """Time work that has completed when the call returns, by the monotonic performance counter."""
    start = perf_counter_ns()
    output = call()
    end = perf_counter_ns()
    del output  # after the second timestamp, and not within the next call
    return {LATENCY: (end - start) * 1e-9}


def timing_events(device: AsynchronousDevice | None, count: int) -> list[DeviceEvent]:
    """Return events with which work on a device is timed again and again; none if its events tell no time.

    torch creates the driver's event when it is recorded for the first time (``CUDAEvent::record`` in
    ``ATen/cuda/CUDAEvent.h``), so a new one would be created within what it is to time.
    """
    if device is None or not device.timed_events:
        return []
    events = [device.Event(enable_timing=True) for _ in range(count)]
    for event in events:
        event.record()
    return events


def clock_for(device: AsynchronousDevice | None) -> Clock:
    """Return the clock for a session's device; ``None`` means that a call has completed when it returns.

    That of an accelerator synchronizes before the first timestamp and before the last one. If the events of the device
    tell no time, there is no time on the device.
    """
    if device is None:
        return host_clock
    events = timing_events(device, 2)

    def time(call: Callable[[], Any]) -> Times:
        device.synchronize()
        start = perf_counter_ns()
        if events:
            events[0].record()
        output = call()
        if events:
            events[1].record()
        issued = perf_counter_ns()
        device.synchronize()
        end = perf_counter_ns()
        del output
        found = {LATENCY: (end - start) * 1e-9, ISSUE: (issued - start) * 1e-9}
        return {**found, DEVICE: events[0].elapsed_time(events[1]) * 1e-3} if events else found

    return time


class Watch:
    """Watches one accelerator, from its creation to ``result``; ``time`` is the clock.

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
        sample = self._clock(call)
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
        reading = self._sensors.read()
        self._readings.append(replace(reading, phase=phase, calls=self._calls, begins_turn=begins_turn))
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


WARMUP_WINDOW = 5
"""Calls in one window of the warm-up at first; later a window holds a quarter of all calls."""
WARMUP_MIN_SECONDS = 0.2
"""The warm-up takes at least this long."""
WARMUP_MAX_SECONDS = 2.0
"""The warm-up ends after this time at the latest. Longer ones gain nothing on a CPU: from the second call on, calls of
the four workloads scatter about their steady median without a trend."""
WARMUP_CHECK_SECONDS = 0.05
"""How often the warm-up checks whether timings have stabilized."""
MIN_SAMPLES = 3
"""Sampling never stops with fewer samples than this, whatever the time limit: the fewest that have a median which one
odd sample does not move."""
TURN_SECONDS = 0.5
"""Length of one turn. The speed of a shared machine drifts over seconds (the medians of two processes that run 3 s
apart correlate by 0.6), so turns must be shorter than that."""
COLD_CACHE_SECONDS = 0.05
"""If calls are shorter than this, each turn starts with an untimed call: other workers have used the caches in the
meantime, and refilling them takes up to a few milliseconds."""
Progress = Callable[[str, int], None]
"""Called with the phase (``cold``, ``warm-up`` or ``steady``) and the number of calls in it so far."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep the collector from running, as ``timeit`` does; afterwards it is as before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Sampling:
    """The timing of a call: a warm-up, then turns until there are enough samples.

    Garbage is collected before sampling, and the collector is off during a turn, as in ``timeit``.

    Args:
        call: one forward pass.
        clock: how a call is timed.
        plan: how long to warm up and to sample.
        progress: called several times a second.

    Attributes:
        samples: those taken so far.

    Raises:
        ValueError: the plan says neither how many samples nor how many seconds.
    """

    def __init__(self, call: Callable[[], Any], clock: Clock, plan: Plan, progress: Progress) -> None:
        if plan.iterations is None and plan.max_seconds is None:
            raise ValueError("the plan has no end: it gives neither iterations nor seconds")
        self._call, self._clock, self._plan, self._progress = call, clock, plan, progress
        self.samples: list[Times] = []
        self._spent = 0.0

    def warm_up(self) -> None:
        """Run the cold start and the warm-up."""
        self._cold, self._warmup, self._end = warm_up(self._call, self._clock, self._plan, self._progress)
        gc.collect()

    def turn(self) -> bool:
        """Take samples for half a second; return whether more are to be taken."""
        samples, plan = self.samples, self._plan
        with without_collection():
            latency = samples[-1][LATENCY] if samples else self._warmup[-1] if self._warmup else self._cold
            if latency < COLD_CACHE_SECONDS:
                self._call()
            started = now = perf_counter()
            while now - started < TURN_SECONDS and len(samples) != plan.iterations:
                samples.append(self._clock(self._call))
                now = perf_counter()
        self._spent += now - started
        self._progress("steady", len(samples))
        if plan.iterations is not None:
            return len(samples) != plan.iterations
        return len(samples) < MIN_SAMPLES or plan.max_seconds is None or self._spent < plan.max_seconds

    def timing(self) -> Timing:
        """What was timed, after the last turn."""
        series = tuple(Series(name, tuple(sample[name] for sample in self.samples)) for name in self.samples[0])
        is_fixed = len(self.samples) == self._plan.iterations
        stop: SamplingStop = "iterations" if is_fixed else "time limit"
        return Timing(self._cold, tuple(self._warmup), series, LATENCY, self._end, stop)


def warm_up(
    call: Callable[[], Any], clock: Clock, plan: Plan, progress: Progress
) -> tuple[float, list[float], WarmUpEnd]:
    """Run the cold start and the warm-up only; the arguments are those of ``Sampling``.

    Returns:
        The latency of the first call, those of the warm-up, and why it ended.
    """
    progress("cold", 0)
    cold = clock(call)[LATENCY]
    values: list[float] = []
    if plan.warmup is not None:
        for _ in range(plan.warmup):
            values.append(clock(call)[LATENCY])
            progress("warm-up", len(values))
        return cold, values, "fixed"
    started = checked = perf_counter()
    while True:
        values.append(clock(call)[LATENCY])
        now = perf_counter()
        if now - checked < WARMUP_CHECK_SECONDS:
            continue
        checked = now
        progress("warm-up", len(values))
        window = max(WARMUP_WINDOW, len(values) // 4)
        if now - started >= WARMUP_MIN_SECONDS and stats.is_settled(values, window):
            return cold, values, "settled"
        if now - started > WARMUP_MAX_SECONDS:
            return cold, values, "cap" if len(values) >= 2 * WARMUP_WINDOW else "few"
