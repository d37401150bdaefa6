"""When timestamps are taken, on the host and around an asynchronous device."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from simulated_device import ISSUE_NS, WORK_NS, SimulatedDevice

from modelzoo.measure import clock
from modelzoo.measure.clock import DeviceClock, Sample

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
        f"{name} is {sample.values().get(name)} s, not {value} s"
        for name, value in expected.items()
        if sample.values().get(name) != pytest.approx(value, rel=0.01)
    ]


def test_host_clock_times_the_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two timestamps around the call, in seconds; a CPU has neither issue nor device times."""
    stamps = iter([1_000, 2_501_000])
    monkeypatch.setattr(clock, "perf_counter_ns", lambda: next(stamps))
    sample = clock.HostClock().time(lambda: None)
    assert sample.latency == pytest.approx(0.0025)
    assert (sample.issue, sample.device) == (None, None)


@pytest.mark.parametrize("make", [lambda _: clock.HostClock(), DeviceClock, clock.SynchronizingClock])
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
    assert sample.issue is not None and sample.issue < 0.01 * sample.latency


class NoWaitBefore(DeviceClock):
    """Planted mistake: the first timestamp is taken while earlier work is still running."""

    def time(self, call: Callable[[], Any]) -> Sample:
        first, last = self._first, self._last
        start = clock.perf_counter_ns()
        first.record()
        call()
        last.record()
        issued = clock.perf_counter_ns()
        self._device.synchronize()
        end = clock.perf_counter_ns()
        return Sample((end - start) * 1e-9, (issued - start) * 1e-9, first.elapsed_time(last) * 1e-3)


class NoWaitAfter(DeviceClock):
    """Planted mistake: the last timestamp is taken when everything has been issued, not when it is done."""

    def time(self, call: Callable[[], Any]) -> Sample:
        first, last = self._first, self._last
        self._device.synchronize()
        start = clock.perf_counter_ns()
        first.record()
        call()
        last.record()
        issued = end = clock.perf_counter_ns()
        self._device.synchronize()
        return Sample((end - start) * 1e-9, (issued - start) * 1e-9, first.elapsed_time(last) * 1e-3)


class NewEvents(DeviceClock):
    """Planted mistake: events of each call are new, so that the driver creates them within what they time."""

    def time(self, call: Callable[[], Any]) -> Sample:
        self._first, self._last = self._device.Event(enable_timing=True), self._device.Event(enable_timing=True)
        return super().time(call)


class HostDifferenceInside(DeviceClock):
    """Planted mistake: the time on the device is the host's difference around the call, without events."""

    def time(self, call: Callable[[], Any]) -> Sample:
        self._device.synchronize()
        start = clock.perf_counter_ns()
        call()
        issued = clock.perf_counter_ns()
        self._device.synchronize()
        end = clock.perf_counter_ns()
        return Sample((end - start) * 1e-9, (issued - start) * 1e-9, (issued - start) * 1e-9)


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


def test_events_are_read_after_the_device_has_finished(device: SimulatedDevice) -> None:
    """Reading them earlier raises, as it does in torch, so a clock that did so would not work at all."""
    first, last = device.Event(enable_timing=True), device.Event(enable_timing=True)
    first.record()
    device.launch()
    last.record()
    with pytest.raises(RuntimeError, match="must be completed"):
        first.elapsed_time(last)
    device.synchronize()
    assert first.elapsed_time(last) * 1e-3 == pytest.approx(DEVICE)


def test_each_call_waits_for_the_device_twice(device: SimulatedDevice) -> None:
    """Once before the first timestamp and once before the last: more would stall what is measured."""
    DeviceClock(device).time(lambda: [device.launch() for _ in range(5)])
    assert device.synchronizations == 2


def test_a_device_without_timed_events_has_two_spans(device: SimulatedDevice) -> None:
    """The latency and the issue time are those of a device with events; there is no device time."""
    device.launch(takes=EARLIER_NS)
    sample = clock.SynchronizingClock(device).time(device.launch)
    assert sample.values() == {"latency": pytest.approx(DEVICE), "issue": pytest.approx(ISSUE_NS * 1e-9)}


def test_the_device_decides_the_clock(device: SimulatedDevice) -> None:
    """A session without an asynchronous device is timed on the host, one without timed events without them."""
    assert isinstance(clock.clock_for(None), clock.HostClock)
    assert isinstance(clock.clock_for(device), DeviceClock)
    device.timed_events = False
    assert isinstance(clock.clock_for(device), clock.SynchronizingClock)
