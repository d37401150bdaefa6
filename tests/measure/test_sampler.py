"""When timestamps are taken, on the host and around an asynchronous device, and how a device is watched meanwhile.

A call has a cold start, a warm-up and samples; what the garbage collector does meanwhile.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from simulated_device import ISSUE_NS, WORK_NS, SimulatedDevice
from toy_workloads import SHORT, numpy_classifier, numpy_setting, runs_of

from modelzoo.measure import sampler
from modelzoo.measure.jobs import Request
from modelzoo.measure.sampler import (
    Sampling,
    Times,
    Watch,
    clock_for,
    joules_per_call,
    throttled_samples,
    time_copies,
    watch,
)
from modelzoo.plan import Plan
from modelzoo.records.equipment import Reading
from modelzoo.records.timing import LATENCY, Timing
from modelzoo.results.summary import spans_of

EARLIER_NS = 3_000_000
"""Work that is still queued when a call is timed."""
DEVICE = (WORK_NS + ISSUE_NS) * 1e-9
"""E - D: the first event completes at once, the work begins when it has been issued."""


class Value:
    """An object that a weak reference can follow."""


def problems(tested: sampler.Clock, device: SimulatedDevice) -> list[str]:
    """Time one call while earlier work is queued, and name those of the three spans that are wrong."""
    device.launch(takes=EARLIER_NS)
    sample = tested(device.launch)
    expected = {"latency": DEVICE, "issue": ISSUE_NS * 1e-9, "device": DEVICE}
    return [name for name, value in expected.items() if sample.get(name) != pytest.approx(value, rel=0.01)]


def test_host_clock_times_the_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two timestamps around the call, in seconds; a CPU has neither issue nor device times."""
    stamps = iter([1_000, 2_501_000])
    monkeypatch.setattr(sampler, "perf_counter_ns", lambda: next(stamps))
    assert sampler.host_clock(lambda: None) == {"latency": pytest.approx(0.0025)}


@pytest.mark.parametrize("make", [lambda _: sampler.host_clock, clock_for])
def test_output_is_freed_after_the_last_stamp(
    make: Callable[[SimulatedDevice], sampler.Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Freeing the output is timed neither with its own call nor with the next one."""
    watched: list[Any] = []

    def stamp() -> int:
        if watched:
            assert watched[0]() is not None, "the output was freed before the last stamp"
        return 0

    monkeypatch.setattr(sampler, "perf_counter_ns", stamp)

    def call() -> Value:
        value = Value()
        watched.append(weakref.ref(value))
        return value

    make(SimulatedDevice())(call)
    assert watched[0]() is None


def test_the_three_spans_of_a_call(device: SimulatedDevice) -> None:
    """B - A is the issue time, C - A the latency and E - D the device time; earlier work counts in none of them."""
    assert problems(clock_for(device), device) == []
    assert device.synchronizations == 2, "before the first timestamp and before the last: more would stall the device"


def test_a_device_without_timed_events_has_two_spans(device: SimulatedDevice) -> None:
    """The latency and the issue time are those of a device with events; there is no device time."""
    device.timed_events = False
    assert problems(clock_for(device), device) == ["device"]
    assert clock_for(None) is sampler.host_clock


HOT = ("power cap",)


class FakeSensors:
    """Sensors that count up; the clock is held down from the seventh reading on."""

    source = "fake"
    is_fast = True
    reads = 0

    def read(self) -> Reading:
        self.reads += 1
        return Reading(
            "steady", 0, 1000.0 + self.reads, joules=2.0 * self.reads, throttled=HOT if self.reads > 6 else ()
        )


def test_readings_before_during_and_after(device: SimulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensors are read between calls only, and at the beginning of each turn; times are not affected."""
    monkeypatch.setattr(sampler, "INTERVAL", 0.0)
    watched = Watch(device, clock_for(device), FakeSensors())
    sampling = Sampling(device.launch, watched.time, Plan(warmup=2, iterations=3), lambda phase, count: None)
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
    used = watch(device, clock_for(device), locked_mhz=1200).result(None, None)
    assert used.problems == ("there is no tool to read the sensors of xpu devices",)
    assert (used.readings, used.sensors, used.locked_mhz) == ((), "", 1200)


def test_copies_are_timed_apart(device: SimulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """There and back, each between two points at which the device has finished; tensors anywhere in the output."""
    monkeypatch.setattr(sampler, "perf_counter", lambda: device.now * 1e-9)

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


class FakeClock:
    """Takes its samples from ``seconds(i)`` and advances simulated time by each of them."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.now = 100.0
        self.calls = 0
        self._seconds = seconds

    def __call__(self, call: Callable[[], Any]) -> Times:
        call()
        value = self._seconds(self.calls)
        self.calls += 1
        self.now += value
        return {LATENCY: value}


Make = Callable[[Callable[[int], float]], FakeClock]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Create the fake clock whose time the sampler reads."""

    def make(seconds: Callable[[int], float]) -> FakeClock:
        fake = FakeClock(seconds)
        monkeypatch.setattr(sampler, "perf_counter", lambda: fake.now)
        return fake

    return make


def nothing() -> None:
    """The call under test does nothing."""


def silent(phase: str, count: int) -> None:
    """Progress that nobody sees."""


def measured(call: Callable[[], Any], clock: FakeClock, plan: Plan, progress: sampler.Progress = silent) -> Timing:
    """Time ``call`` without waiting between turns."""
    sampling = Sampling(call, clock, plan, progress)
    sampling.warm_up()
    while sampling.turn():
        pass
    return sampling.timing()


def test_cold_start_warm_up_and_steady_state_are_separate(clock: Make) -> None:
    """The first call is the cold start, decreasing times are warm-up, and neither is in the steady-state samples."""
    fake, reported = clock(lambda i: 1.0 if i == 0 else 0.01 * (1 + 4 * 0.8**i)), list[tuple[str, int]]()
    timing = measured(nothing, fake, Plan(max_seconds=3), lambda *words: reported.append(words))
    assert timing.cold_start == 1.0
    assert timing.warmup_end == "settled"
    assert len(timing.warmup) > 5
    assert max(timing.steady) < 0.011
    assert 1 + len(timing.warmup) + len(timing.steady) == fake.calls
    assert list(dict.fromkeys(phase for phase, _ in reported)) == ["cold", "warm-up", "steady"]
    assert reported[-1] == ("steady", len(timing.steady))


@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_sampling_takes_the_time_that_was_given(jitter: float, clock: Make) -> None:
    """However narrow or wide the process's own interval is: another process would differ by more."""
    fake = clock(lambda i: 0.01 * (1 + jitter * (i * 2654435761 % 2**32) / 2**32))
    timing = measured(nothing, fake, Plan(max_seconds=2))
    assert (timing.warmup_end, timing.stop) == ("settled", "time limit")
    assert sum(timing.steady) == pytest.approx(2, abs=0.1)


def test_a_warm_up_has_limits(clock: Make) -> None:
    """It ends at its time limit if times never stabilize, and calls of microseconds are warmed up for a minimum time:
    threads and clock frequencies need longer than ten of them.
    """
    timing = measured(nothing, clock(lambda i: 0.001 * 1.02 ** min(i, 400)), Plan(max_seconds=1, iterations=5))
    assert timing.warmup_end == "cap"
    assert sampler.WARMUP_MAX_SECONDS <= sum(timing.warmup) <= 1.5 * sampler.WARMUP_MAX_SECONDS
    timing = measured(nothing, clock(lambda i: 5e-6), Plan(iterations=3))
    assert sum(timing.warmup) >= sampler.WARMUP_MIN_SECONDS


def test_slow_calls_are_warmed_up_once(clock: Make) -> None:
    """There are too few calls of several seconds to compare windows: one is made, and the reason is recorded."""
    timing = measured(nothing, clock(lambda i: 4.0), Plan(max_seconds=1))
    assert (len(timing.warmup), timing.warmup_end) == (1, "few")
    assert (len(timing.steady), timing.stop) == (sampler.MIN_SAMPLES, "time limit")


@pytest.mark.parametrize("warmup", [0, 3])
def test_fixed_counts_are_kept(warmup: int, clock: Make) -> None:
    """``--warmup`` and ``--iterations`` mean exactly that many calls, plus the cold start."""
    fake = clock(lambda i: 0.01 if i != warmup + 4 else 5.0)
    timing = measured(nothing, fake, Plan(warmup, 7))
    assert (len(timing.warmup), fake.calls) == (warmup, 1 + warmup + 7)
    assert timing.steady == (0.01, 0.01, 0.01, 5.0, 0.01, 0.01, 0.01)
    assert (timing.warmup_end, timing.stop) == ("fixed", "iterations")


def turns_of(call: Callable[[], Any], clock: FakeClock, plan: Plan) -> tuple[Sampling, list[int]]:
    """Sampling in turns, between which others have theirs, and the number of samples after each."""
    sampling, counts = Sampling(call, clock, plan, silent), []
    sampling.warm_up()
    has_more = True
    while has_more:
        clock.now += 100
        has_more = sampling.turn()
        counts.append(len(sampling.samples))
    return sampling, counts


@pytest.mark.parametrize(("seconds", "expected"), [(0.01, 3), (0.1, 0)])
def test_a_turn_of_short_calls_starts_with_an_untimed_call(seconds: float, expected: int, clock: Make) -> None:
    """Other workers have used the caches, and refilling them is not timed; for long calls it does not matter."""
    calls: list[int] = []
    sampling, _ = turns_of(lambda: calls.append(1), clock(lambda i: seconds), Plan(1, max_seconds=1.5))
    assert len(calls) - 2 - len(sampling.samples) == expected


def test_waiting_for_a_turn_is_not_counted(clock: Make) -> None:
    """Turns take half a second; only the worker's own count towards the time limit, and fixed counts stay exact."""
    assert turns_of(nothing, clock(lambda i: 0.06), Plan(1, max_seconds=1.5))[1] == [9, 18, 27]
    fake = clock(lambda i: 0.01 * (1 + (i // 40) % 2))
    timing = turns_of(nothing, fake, Plan(1, max_seconds=3))[0].timing()
    assert timing.stop == "time limit"
    assert sum(timing.steady) == pytest.approx(3, abs=0.6)
    timing = turns_of(nothing, fake, Plan(1, 77))[0].timing()
    assert (len(timing.steady), timing.stop) == (77, "iterations")


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_off_during_sampling_and_restored(enabled: bool, clock: Make) -> None:
    """The collector never runs while samples are taken, and is as before afterwards."""
    states: list[bool] = []
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        measured(lambda: states.append(gc.isenabled()), clock(lambda i: 0.01), Plan(2, 4))
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert states == [enabled] * 3 + [False] * 5
