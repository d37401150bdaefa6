"""What a sample of a pipeline holds."""

from __future__ import annotations

from typing import Any

import pytest
from pipelines import host_steps, simulated_steps
from simulated_device import SimulatedDevice

from modelzoo.measure import pipeline
from modelzoo.measure.pipeline import PipelineClock
from modelzoo.records.timing import LATENCY, MODEL, SYNCHRONIZED, UNDIVIDED


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimulatedDevice:
    """A simulated device whose time is also that of the host."""
    simulated = SimulatedDevice()
    monkeypatch.setattr(pipeline, "perf_counter_ns", simulated.stamp)
    return simulated


def test_synchronizing_after_each_stage_costs_what_issuing_takes(device: SimulatedDevice) -> None:
    """Without it the host issues the next stage while the device works: 1 ms less for each of two."""
    clock = PipelineClock(simulated_steps(device), 5, device)
    clock.time(clock.run)  # creates the events
    for _ in range(2):  # in both orders
        found = clock.time(clock.run)
        assert 1e3 * (found[SYNCHRONIZED] - found[LATENCY]) == pytest.approx(2, abs=0.05)
        assert 1e3 * found[MODEL] == pytest.approx(20, abs=0.05)
        assert sum(found[step.name] for step in simulated_steps(device)) == pytest.approx(found[LATENCY], rel=0.02)


def test_a_device_without_timed_events_is_waited_for_after_each_stage(device: SimulatedDevice) -> None:
    """The stages then have their times, at the price of the synchronizations, which the other passes show."""
    device.timed_events = False  # type: ignore[misc]
    clock = PipelineClock(simulated_steps(device), 5, device)
    found = clock.time(clock.run)
    assert 1e3 * found[MODEL] == pytest.approx(21, abs=0.05)
    assert found[UNDIVIDED] < found[LATENCY]
    assert SYNCHRONIZED not in found


def test_a_cpu_has_passes_without_time_stamps_in_alternating_order() -> None:
    """Every sample has both kinds of pass, and what runs first changes from sample to sample."""
    order: list[str] = []

    def first(value: Any) -> Any:
        order.append("stages")
        return value

    clock = PipelineClock(host_steps(("before", "host", first), (MODEL, "device", abs)), 1)

    def plain() -> None:
        order.append("undivided")

    samples = [clock.time(plain) for _ in range(2)]
    assert order == ["stages", "undivided", "undivided", "stages"]
    assert [list(each) for each in samples] == [[LATENCY, "before", MODEL, UNDIVIDED]] * 2
