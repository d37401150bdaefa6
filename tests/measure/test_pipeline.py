"""Stages as steps, the copies between them, and when each of them runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pipelines import MILLISECOND, OnDevice, simulated_stages, simulated_steps
from simulated_device import SimulatedDevice

from modelzoo.measure import pipeline
from modelzoo.measure.pipeline import PipelineClock, Step, events_of, moved, steps_of, timed_pass
from modelzoo.records.timing import MODEL, TO_DEVICE, TO_HOST, Place
from modelzoo.workload import ModelInput, ModelOutput, Stage, Stages

EXPECTED = {"decode": 2, TO_DEVICE: 1, "resize": 4, MODEL: 20, TO_HOST: 1, "answer": 3}
"""Milliseconds of each stage of the simulated pipeline, apart from issuing."""


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedDevice]:
    """A simulated device whose time is also that of the host."""
    simulated = SimulatedDevice()
    monkeypatch.setattr(pipeline, "perf_counter_ns", simulated.stamp)
    yield simulated


def problems(steps: tuple[Step, ...], device: SimulatedDevice) -> list[str]:
    """The stages whose time is not that of the simulated work, and ``sum`` if they do not add up."""
    whole, spans = timed_pass(steps, 5, device, events_of(device))
    found = {span.step.name: 1e3 * span.seconds for span in spans}
    # Issuing the first work of a run takes the host 1 ms, in which the device is idle.
    wrong = [name for name, value in found.items() if abs(value - EXPECTED[name]) > 1.01]
    return wrong + (["sum"] if abs(sum(found.values()) / (1e3 * whole) - 1) > 0.02 else [])


def test_stages_are_timed_by_events_that_are_read_at_the_end(device: SimulatedDevice) -> None:
    """Each stage has the time of its own work, all add up to the end-to-end time, and only the copy waits."""
    assert problems(simulated_steps(device), device) == []
    assert device.synchronizations == 3  # before the first timestamp, in the copy to the host, at the end


def test_earlier_work_belongs_to_no_stage(device: SimulatedDevice) -> None:
    """What was still queued when the pass began is waited for."""
    device.launch(takes=50 * MILLISECOND)
    assert problems(simulated_steps(device), device) == []


def test_a_stage_without_events_is_caught(device: SimulatedDevice) -> None:
    """Planted mistake: the host's clock gives the model the time of issuing it, and the copy the time of the model."""
    steps = tuple(Step(each.name, each.call, each.place) for each in simulated_steps(device))
    assert problems(steps, device) == ["resize", MODEL, TO_HOST]


def test_work_of_the_device_in_a_stage_of_the_host_is_caught(device: SimulatedDevice) -> None:
    """Planted mistake: the last stage, declared for the host, leaves work on the device behind."""

    def answer(value: object) -> object:
        device.launch(takes=10 * MILLISECOND)
        return 5, "kept"

    steps = (*simulated_steps(device)[:-1], Step("answer", answer, Place.HOST))
    assert "sum" in problems(steps, device)


def test_copies_stand_where_the_place_changes() -> None:
    """The first value and the last one are on the host; a second copy has a number."""
    stages = Stages(
        None,
        (),
        (Stage("a", abs), Stage("b", abs, "device"), Stage("c", abs)),
        (Stage("d", abs, "device"),),
    )
    names = [step.name for step in steps_of(stages, lambda value: ModelOutput(value), SimulatedDevice(), "cuda:0")]
    assert names == ["a", TO_DEVICE, "b", TO_HOST, "c", f"{TO_DEVICE} 2", MODEL, "d", f"{TO_HOST} 2"]
    plain = steps_of(stages, lambda value: ModelOutput(value))
    assert [step.name for step in plain] == ["a", "b", "c", MODEL, "d"]
    assert not any(step.by_events for step in plain)


def test_a_device_without_timed_events_is_timed_by_the_clock() -> None:
    """Its steps say so in the result."""
    device = SimulatedDevice()
    device.timed_events = False  # type: ignore[misc]
    stages, model = simulated_stages(device)
    clock = PipelineClock(steps_of(stages, model, device, "sim:0"), 5, device)
    assert not any(stage.timed_by_events for stage in clock.record())


def test_tensors_move_wherever_they_are() -> None:
    """In lists, tuples, mappings, arguments and outputs; contexts stay on the host."""
    device = SimulatedDevice()
    tensor = OnDevice(device, 1)

    def move(each: object) -> str:
        return "moved"

    assert moved({"a": [tensor, 3], "b": (tensor,)}, move) == {"a": ["moved", 3], "b": ("moved",)}
    assert moved(ModelInput(([tensor],), tensor), move) == ModelInput((["moved"],), tensor)
    assert moved(ModelOutput([{"x": tensor}], None), move) == ModelOutput([{"x": "moved"}], None)
