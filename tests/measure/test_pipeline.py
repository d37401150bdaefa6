"""Stages as steps, the copies between them, when each of them runs, and what a sample of a pipeline holds."""

from __future__ import annotations

from typing import Any

import pytest
from pipelines import MILLISECOND, simulated_steps
from simulated_device import SimulatedDevice

from modelzoo.measure.pipeline import PipelineClock, Step, events_of, steps_of, timed_pass
from modelzoo.records.timing import LATENCY, MODEL, SYNCHRONIZED, TO_DEVICE, TO_HOST, UNDIVIDED, Place
from modelzoo.workload import ModelOutput, Stage, Stages

EXPECTED = {"decode": 2, TO_DEVICE: 1, "resize": 4, MODEL: 20, TO_HOST: 1, "answer": 3}
"""Milliseconds of each stage of the simulated pipeline, apart from issuing."""


def test_stages_are_timed_by_events_that_are_read_at_the_end(device: SimulatedDevice) -> None:
    """Each stage has the time of its own work, all add up to the end-to-end time, and only the copy waits."""
    device.launch(takes=50 * MILLISECOND)
    whole, spans = timed_pass(simulated_steps(device), 5, device, events_of(device))
    # Issuing the first work of a run takes the host 1 ms, in which the device is idle.
    assert {span.step.name: pytest.approx(1e3 * span.seconds, abs=1.01) for span in spans} == EXPECTED
    assert sum(span.seconds for span in spans) == pytest.approx(whole, rel=0.02)
    assert device.synchronizations == 3  # before the first timestamp, in the copy to the host, at the end


def test_copies_stand_where_the_place_changes() -> None:
    """The first value and the last one are on the host; a second copy has a number."""
    before = Stage("a", abs), Stage("b", abs, "device"), Stage("c", abs)
    stages = Stages(None, (), before, (Stage("d", abs, "device"),))
    names = [step.name for step in steps_of(stages, lambda value: ModelOutput(value), SimulatedDevice(), "cuda:0")]
    assert names == ["a", TO_DEVICE, "b", TO_HOST, "c", f"{TO_DEVICE} 2", MODEL, "d", f"{TO_HOST} 2"]
    plain = steps_of(stages, lambda value: ModelOutput(value))
    assert [step.name for step in plain] == ["a", "b", "c", MODEL, "d"]
    assert not any(step.by_events for step in plain)


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
    assert not any(stage.timed_by_events for stage in clock.record())


def test_a_cpu_has_passes_without_time_stamps_in_alternating_order() -> None:
    """Every sample has both kinds of pass, and what runs first changes from sample to sample."""
    order: list[str] = []

    def first(value: Any) -> Any:
        order.append("stages")
        return value

    clock = PipelineClock([Step("before", first, Place.HOST), Step(MODEL, abs, Place.DEVICE)], 1)
    samples = [clock.time(lambda: order.append("undivided")) for _ in range(2)]
    assert order == ["stages", "undivided", "undivided", "stages"]
    assert [list(each) for each in samples] == [[LATENCY, "before", MODEL, UNDIVIDED]] * 2
