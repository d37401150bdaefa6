"""When timestamps are taken, on the host and around an asynchronous device."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from simulated_device import ISSUE_NS, WORK_NS, SimulatedDevice

from modelzoo.measure import clock
from modelzoo.measure.clock import DeviceClock, Times

EARLIER_NS = 3_000_000
"""Work that is still queued when a call is timed."""
DEVICE = (WORK_NS + ISSUE_NS) * 1e-9
"""E - D: the first event completes at once, the work begins when it has been issued."""


class Value:
    """An object that a weak reference can follow."""


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedDevice]:
    """A simulated device whose time is also that of the host."""
    simulated = SimulatedDevice()
    monkeypatch.setattr(clock, "perf_counter_ns", simulated.stamp)
    yield simulated


def problems(make: Callable[[SimulatedDevice], clock.Clock], device: SimulatedDevice) -> list[str]:
    """Time one call while earlier work is queued, and say what is wrong with each of the three spans."""
    device.launch(takes=EARLIER_NS)
    sample = make(device).time(device.launch)
    expected = {"latency": DEVICE, "issue": ISSUE_NS * 1e-9, "device": DEVICE}
    return [
        f"{name} is {sample.get(name)} s, not {value} s"
        for name, value in expected.items()
        if sample.get(name) != pytest.approx(value, rel=0.01)
    ]


def test_host_clock_times_the_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two timestamps around the call, in seconds; a CPU has neither issue nor device times."""
    stamps = iter([1_000, 2_501_000])
    monkeypatch.setattr(clock, "perf_counter_ns", lambda: next(stamps))
    sample = clock.HostClock().time(lambda: None)
    assert sample == {"latency": pytest.approx(0.0025)}


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
    assert problems(DeviceClock, device) == []


def test_issuing_is_far_shorter_than_the_work(device: SimulatedDevice) -> None:
    """The time until the call returns is not its latency, and the output is not there yet."""
    seen: list[str] = []
    sample = DeviceClock(device).time(lambda: (device.launch(lambda: seen.append("done")), seen.append("returned")))
    assert seen == ["returned", "done"]
    assert sample["issue"] < 0.01 * sample["latency"]


class NewEvents(DeviceClock):
    """Planted mistake: events of each call are new, so that the driver creates them within what they time."""

    def time(self, call: Callable[[], Any]) -> Times:
        self._events = (self._device.Event(enable_timing=True), self._device.Event(enable_timing=True))
        return super().time(call)


class Mistaken(DeviceClock):
    """Planted mistakes: timestamps at the wrong moments, or a time on the device without events."""

    waits_before = waits_after = uses_events = True

    def time(self, call: Callable[[], Any]) -> Times:
        first, last = self._events
        if self.waits_before:
            self._device.synchronize()
        start = clock.perf_counter_ns()
        if self.uses_events:
            first.record()
        call()
        if self.uses_events:
            last.record()
        issued = end = clock.perf_counter_ns()
        self._device.synchronize()
        if self.waits_after:
            end = clock.perf_counter_ns()
        times = {"latency": (end - start) * 1e-9, "issue": (issued - start) * 1e-9}
        return {**times, "device": first.elapsed_time(last) * 1e-3 if self.uses_events else times["issue"]}


class NoWaitBefore(Mistaken):
    """The first timestamp is taken while earlier work is still running."""

    waits_before = False


class NoWaitAfter(Mistaken):
    """The last timestamp is taken when everything has been issued, not when it is done."""

    waits_after = False


class HostDifferenceInside(Mistaken):
    """The time on the device is the host's difference around the call."""

    uses_events = False


@pytest.mark.parametrize(
    ("mistake", "wrong"),
    [
        (NoWaitBefore, ["latency"]),
        (NoWaitAfter, ["latency"]),
        (NewEvents, ["latency", "issue"]),
        (HostDifferenceInside, ["device"]),
    ],
)
def test_planted_mistakes_are_caught(mistake: type[DeviceClock], wrong: list[str], device: SimulatedDevice) -> None:
    """A missing synchronization before the start or at the end, new events, and a device time without any, show."""
    assert [problem.partition(" ")[0] for problem in problems(mistake, device)] == wrong


def test_each_call_waits_for_the_device_twice(device: SimulatedDevice) -> None:
    """Once before the first timestamp and once before the last: more would stall what is measured."""
    DeviceClock(device).time(lambda: [device.launch() for _ in range(5)])
    assert device.synchronizations == 2


def test_a_device_without_timed_events_has_two_spans(device: SimulatedDevice) -> None:
    """The latency and the issue time are those of a device with events; there is no device time."""
    device.timed_events = False
    device.launch(takes=EARLIER_NS)
    sample = clock.clock_for(device).time(device.launch)
    assert sample == {"latency": pytest.approx(DEVICE), "issue": pytest.approx(ISSUE_NS * 1e-9)}
    assert isinstance(clock.clock_for(None), clock.HostClock)
