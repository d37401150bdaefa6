"""When timestamps are taken, on the host and around an asynchronous device, and how a device is watched meanwhile."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from simulated_device import ISSUE_NS, WORK_NS, SimulatedDevice
from toy_workloads import SHORT, numpy_classifier, numpy_setting, runs_of

from modelzoo.machine.sensors import SensorValues
from modelzoo.measure import clock
from modelzoo.measure.clock import DeviceClock, Watch, joules_per_call, throttled_samples, time_copies, watch
from modelzoo.measure.jobs import Request
from modelzoo.measure.sampler import Sampling
from modelzoo.plan import Plan
from modelzoo.records.equipment import Reading
from modelzoo.results.summary import spans_of

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
    assert device.synchronizations == 2, "before the first timestamp and before the last: more would stall the device"


def test_a_device_without_timed_events_has_two_spans(device: SimulatedDevice) -> None:
    """The latency and the issue time are those of a device with events; there is no device time."""
    device.timed_events = False
    assert problems(clock.clock_for(device), device) == ["device"]
    assert isinstance(clock.clock_for(None), clock.HostClock)


HOT = ("power cap",)


class FakeSensors:
    """Sensors that count up; the clock is held down from the seventh reading on."""

    source = "fake"
    is_fast = True
    reads = 0

    def read(self) -> SensorValues:
        self.reads += 1
        return SensorValues(1000.0 + self.reads, joules=2.0 * self.reads, throttled=HOT if self.reads > 6 else ())


def test_readings_before_during_and_after(device: SimulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensors are read between calls only, and at the beginning of each turn; times are not affected."""
    monkeypatch.setattr(clock, "INTERVAL", 0.0)
    watched = Watch(device, clock.DeviceClock(device), FakeSensors())
    sampling = Sampling(device.launch, watched, Plan(warmup=2, iterations=3))
    sampling.warm_up()
    watched.begin_turn()
    assert not sampling.turn()
    timing = sampling.timing()
    used = watched.result(timing, None)
    found = [(each.phase, each.calls, each.begins_turn) for each in used.readings]
    assert found == [
        ("before", 0, False),
        *(("warm-up", calls, False) for calls in (1, 2, 3)),
        ("steady", 3, True),
        *(("steady", calls, False) for calls in (4, 5, 6)),
        ("after", 6, False),
    ]
    assert used.sensors == "fake" and used.device.name == "Simulated GPU"
    assert used.joules_per_call == 2.0
    assert used.throttled_samples == (1, 2)
    assert timing.steady == pytest.approx([(ISSUE_NS + WORK_NS) * 1e-9] * 3)


def test_a_reading_stands_for_the_calls_before_it() -> None:
    """Throttling in the warm-up marks no sample, and what happened before a turn began is another process's."""
    readings = [
        Reading("warm-up", 10, throttled=HOT),
        Reading("steady", 11, throttled=HOT, begins_turn=True),
        Reading("steady", 15),
        Reading("steady", 20, throttled=HOT),
        Reading("steady", 25, throttled=HOT, begins_turn=True),
    ]
    assert throttled_samples(readings, untimed=11) == (4, 5, 6, 7, 8)


def test_energy_is_counted_within_turns() -> None:
    """What the device did while this process waited is not its own; without a counter there is no energy."""
    readings = [
        Reading("steady", 3, joules=100.0, begins_turn=True),
        Reading("steady", 8, joules=110.0),
        Reading("steady", 8, joules=500.0, begins_turn=True),
        Reading("steady", 13, joules=520.0),
        Reading("after", 13, joules=900.0),
    ]
    assert joules_per_call(readings) == 3.0
    assert joules_per_call([Reading("steady", 3), Reading("steady", 9)]) is None


def test_sensors_that_cannot_be_read_are_said(device: SimulatedDevice) -> None:
    """A run without them is a run: the record says why there are none."""
    device.kind = "xpu"
    used = watch(device, clock.DeviceClock(device), locked_mhz=1200).result(None, None)
    assert used.problems == ("there is no tool to read the sensors of xpu devices",)
    assert (used.readings, used.sensors, used.locked_mhz) == ((), "", 1200)


def test_copies_are_timed_apart(device: SimulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """There and back, each between two points at which the device has finished; tensors anywhere in the output."""
    monkeypatch.setattr(clock, "perf_counter", lambda: device.now * 1e-9)

    class Tensor:
        def cpu(self) -> str:
            device.launch(takes=3_000_000)
            device.synchronize()
            return "host"

    def prepare(args: Any) -> Any:
        device.launch(takes=2_000_000)
        return args

    def call(batch: Tensor) -> Any:
        device.launch()
        return {"outputs": [(batch, 3)]}

    found = time_copies(SimpleNamespace(prepare=prepare, call=call), (Tensor(),), device, included=True)  # type: ignore[arg-type]
    assert (found.to_device, found.to_host, found.included) == (pytest.approx(2.001e-3), pytest.approx(3.001e-3), True)


@pytest.mark.usefixtures("numpy_engine", "prepared_here")
def test_runs_on_an_accelerator(tmp_path: Path) -> None:
    """In worker processes: three spans and the device in the record; a lost device and too little memory are one line
    each, and the finished run is kept."""
    work = numpy_classifier(tmp_path)
    fine = numpy_setting(work).replace(engine="engines.simulated_engine:SimulatedEngine", device="cuda")
    lost, large = fine.replace(seed=4), fine.replace(batch=65)
    runs = {run.group: run for run in runs_of(Request(work, (fine, lost, large), SHORT))}
    report, spans = runs[0].report, spans_of([runs[0]])
    assert report is not None and report.timing is not None, runs[0].error
    assert {each.name for each in report.timing.series} == {"latency", "issue", "device"}
    assert spans is not None and spans.issue == pytest.approx(ISSUE_NS * 1e-9)
    assert not spans.bound_by_launching
    used = report.accelerator
    assert used is not None and used.device.name == "Simulated GPU"
    assert used.peak_memory is not None and used.copies is not None and not used.copies.included
    assert runs[1].error == (
        "cuda failed while the model ran: CUDA error: unspecified launch failure; check the driver's log (dmesg)"
    )
    assert runs[2].error is not None and runs[2].error.startswith("out of memory on cuda")
    assert {runs[1].error_kind, runs[2].error_kind} == {"EnvironmentProblem"}
