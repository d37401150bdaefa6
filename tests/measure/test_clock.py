"""When time stamps are taken, on the host and around an asynchronous device."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from modelzoo.measure import clock


class Value:
    """An object that a weak reference can follow."""


class FakeDevice:
    """A device with a simulated time in ns: issuing takes 1 µs, the work 500 µs. ``log`` has every step."""

    def __init__(self) -> None:
        self.now = 0
        self.busy_until = 0
        self.log: list[str] = []
        device = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                assert enable_timing, "an event without timing has no elapsed_time"
                self.at = 0

            def record(self) -> None:
                device.log.append("record")
                self.at = max(device.now, device.busy_until)

            def elapsed_time(self, other: Event) -> float:
                device.log.append("elapsed")
                return (other.at - self.at) * 1e-6  # milliseconds

        self.Event = Event

    def synchronize(self) -> None:
        self.log.append("synchronize")
        self.now = max(self.now, self.busy_until)

    def stamp(self) -> int:
        self.log.append("stamp")
        return self.now

    def work(self) -> None:
        self.log.append("call")
        self.now += 1_000
        self.busy_until = max(self.now, self.busy_until) + 500_000


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDevice]:
    """A fake device whose simulated time is also that of the host."""
    fake = FakeDevice()
    monkeypatch.setattr(clock, "perf_counter_ns", fake.stamp)
    yield fake


def test_host_clock_times_the_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two time stamps around the call, in seconds; a CPU has neither issue nor device times."""
    stamps = iter([1_000, 2_501_000])
    monkeypatch.setattr(clock, "perf_counter_ns", lambda: next(stamps))
    sample = clock.HostClock().time(lambda: None)
    assert sample.latency == pytest.approx(0.0025)
    assert (sample.issue, sample.device) == (None, None)


@pytest.mark.parametrize("kind", ["host", "device"])
def test_output_is_freed_after_the_last_stamp(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Freeing the output is timed neither with its own call nor with the next one."""
    fake = FakeDevice()
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

    (clock.HostClock() if kind == "host" else clock.DeviceClock(fake)).time(call)
    assert watched[0]() is None


def test_device_clock_synchronizes_before_the_first_stamp_and_the_last(device: FakeDevice) -> None:
    """The order is: wait for earlier work, A, D, work, E, B, wait, C; the events are read afterwards."""
    clock.DeviceClock(device).time(device.work)
    expected = "synchronize stamp record call record stamp synchronize stamp elapsed"
    assert device.log == expected.split()


def test_issue_time_is_not_latency(device: FakeDevice) -> None:
    """B - A is the issue time, C - A the latency, and E - D, in milliseconds, the device time."""
    sample = clock.DeviceClock(device).time(device.work)
    assert sample.issue == pytest.approx(1e-6)
    assert sample.latency == pytest.approx(501e-6)
    assert sample.device == pytest.approx(501e-6)


def test_earlier_work_is_not_counted(device: FakeDevice) -> None:
    """The clock waits for work that is still queued before it takes the first time stamp."""
    device.work()
    device.work()
    assert clock.DeviceClock(device).time(device.work).latency == pytest.approx(501e-6)


def test_the_device_decides_the_clock(device: FakeDevice) -> None:
    """A session without an asynchronous device is timed on the host."""
    assert isinstance(clock.clock_for(None), clock.HostClock)
    assert isinstance(clock.clock_for(device), clock.DeviceClock)
