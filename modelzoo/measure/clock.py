"""Time one call, on the host and on an accelerator.

On a CPU, a call has completed when it returns. On an accelerator it has only been issued. With A = the host starts,
B = the host has issued everything, C = the host has synchronized, and D, E = device events around the work: C - A is
the latency on the host, E - D the time on the device, and B - A the issue time, which is never a latency. The first
synchronization comes before A, so that A does not count earlier work; the last one comes between B and C. Events are
read only after C, when both have completed.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Callable, Protocol

from modelzoo.engines.protocol import AsynchronousDevice
from modelzoo.records.timing import DEVICE, ISSUE, LATENCY


@dataclass(frozen=True)
class Sample:
    """One timed call, in seconds. ``issue`` and ``device`` are ``None`` on a CPU, ``device`` also without events."""

    latency: float
    issue: float | None = None
    device: float | None = None

    def values(self) -> dict[str, float]:
        """What was timed, by the name of its series."""
        found = {LATENCY: self.latency}
        if self.issue is not None:
            found[ISSUE] = self.issue
        if self.device is not None:
            found[DEVICE] = self.device
        return found


class Timed(Protocol):
    """What a clock finds: the latency in seconds, and all series by name."""

    @property
    def latency(self) -> float: ...

    def values(self) -> dict[str, float]: ...


class Clock(Protocol):
    """Times a call; the value that the call returns is deleted after the last time stamp."""

    def time(self, call: Callable[[], Any]) -> Timed: ...


class HostClock:
    """Times work that has completed when the call returns, by the monotonic performance counter."""

    def time(self, call: Callable[[], Any]) -> Sample:
        start = perf_counter_ns()
        output = call()
        end = perf_counter_ns()
        del output  # after the second time stamp, and not within the next call
        return Sample((end - start) * 1e-9)


class DeviceClock:
    """Times work on an accelerator: synchronizes before the first time stamp and before the last one."""

    def __init__(self, device: AsynchronousDevice) -> None:
        self._device = device

    def time(self, call: Callable[[], Any]) -> Sample:
        first = self._device.Event(enable_timing=True)
        last = self._device.Event(enable_timing=True)
        self._device.synchronize()
        start = perf_counter_ns()
        first.record()
        output = call()
        last.record()
        issued = perf_counter_ns()
        self._device.synchronize()
        end = perf_counter_ns()
        del output
        return Sample((end - start) * 1e-9, issue=(issued - start) * 1e-9, device=first.elapsed_time(last) * 1e-3)


class SynchronizingClock:
    """Times work on an accelerator whose events tell no time: as ``DeviceClock``, without the time on the device."""

    def __init__(self, device: AsynchronousDevice) -> None:
        self._device = device

    def time(self, call: Callable[[], Any]) -> Sample:
        self._device.synchronize()
        start = perf_counter_ns()
        output = call()
        issued = perf_counter_ns()
        self._device.synchronize()
        end = perf_counter_ns()
        del output
        return Sample((end - start) * 1e-9, issue=(issued - start) * 1e-9)


def clock_for(device: AsynchronousDevice | None) -> Clock:
    """Return the clock for a session's device; ``None`` means that a call has completed when it returns."""
    if device is None:
        return HostClock()
    return DeviceClock(device) if device.timed_events else SynchronizingClock(device)
