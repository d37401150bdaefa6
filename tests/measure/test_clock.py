"""When timestamps are taken, on the host and around an asynchronous device."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
from simulated_device import ISSUE_NS, WORK_NS, SimulatedDevice

from modelzoo.measure import clock
from modelzoo.measure.clock import DeviceClock

EARLIER_NS = 3_000_000
"""Work that is still queued when a call is timed."""
DEVICE = (WORK_NS + ISSUE_NS) * 1e-9
"""E - D: the first event completes at once, the work begins when it has been issued."""


class Value:
    """An object that a weak reference can follow."""


def problems(tested: clock.Clock, device: SimulatedDevice) -> list[str]:
    """Time one call while earlier work is queued, and name those of the three spans that are wrong."""
    device.launch(takes=EARLIER_NS)
    sample = tested.time(device.launch)
    expected = {"latency": DEVICE, "issue": ISSUE_NS * 1e-9, "device": DEVICE}
    return [name for name, value in expected.items() if sample.get(name) != pytest.approx(value, rel=0.01)]


def test_host_clock_times_the_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two timestamps around the call, in seconds; a CPU has neither issue nor device times."""
    stamps = iter([1_000, 2_501_000])
    monkeypatch.setattr(clock, "perf_counter_ns", lambda: next(stamps))
    assert clock.HostClock().time(lambda: None) == {"latency": pytest.approx(0.0025)}


@pytest.mark.parametrize("make", [lambda _: clock.HostClock(), DeviceClock])
def test_output_is_freed_after_the_last_stamp(
    make: Callable[[SimulatedDevice], clock.Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Freeing the output is timed neither with its own call nor with the next one."""
    watched: list[Any] = []

    def stamp() -> int:
        if watched:
            assert watched[0]() is not None, "the output was freed before the last stamp"
        return 0

    monkeypatch.setattr(clock, "perf_counter_ns", stamp)

    def call() -> Value:
        value = Value()
        watched.append(weakref.ref(value))
        return value

    make(SimulatedDevice()).time(call)
    assert watched[0]() is None


def test_the_three_spans_of_a_call(device: SimulatedDevice) -> None:
    """B - A is the issue time, C - A the latency and E - D the device time; earlier work counts in none of them."""
    assert problems(DeviceClock(device), device) == []


def test_each_call_waits_for_the_device_twice(device: SimulatedDevice) -> None:
    """Once before the first timestamp and once before the last: more would stall what is measured."""
    DeviceClock(device).time(lambda: [device.launch() for _ in range(5)])
    assert device.synchronizations == 2


def test_a_device_without_timed_events_has_two_spans(device: SimulatedDevice) -> None:
    """The latency and the issue time are those of a device with events; there is no device time."""
    device.timed_events = False
    assert problems(clock.clock_for(device), device) == ["device"]
    assert isinstance(clock.clock_for(None), clock.HostClock)
