"""Several batches in a pipeline at the same time: in order, with equal outputs, and not too many."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pipelines import host_steps, simulated_steps
from simulated_device import SimulatedDevice

from modelzoo.measure import pipeline
from modelzoo.measure.pipeline import InFlight
from modelzoo.measure.pipeline_clock import run_all
from modelzoo.records.timing import MODEL


def uneven(value: int) -> int:
    """Takes longer for some batches than for others."""
    time.sleep(0.004 * (value % 3))
    return value + 1


STEPS = host_steps(
    ("before", "host", uneven),
    ("resize", "device", lambda value: value * 10),
    (MODEL, "device", uneven),
    ("after", "host", uneven),
    ("last", "host", str),
)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_outputs_are_those_of_the_plain_pipeline_in_order(limit: int) -> None:
    """Whatever the stages take, batch k comes out as the k-th, and as it does on its own."""
    with InFlight(STEPS, limit) as flight:
        found = [flight.run(range(first, first + 12)) for first in (0, 100)]
    for first, flights in zip((0, 100), found):
        assert [each.output for each in flights] == [run_all(STEPS, value) for value in range(first, first + 12)]
        assert [each.left for each in flights] == sorted(each.left for each in flights)


def test_stages_of_the_host_leave_the_cpu_that_the_model_is_bound_to(bound: frozenset[int]) -> None:
    """They run in threads of their own; on one CPU they would delay the model, and each other."""

    def cpus(value: Any) -> Any:
        return (*value, os.sched_getaffinity(0))

    steps = host_steps(("before", "host", cpus), (MODEL, "device", cpus), ("after", "host", cpus))
    with InFlight(steps, 2) as flight:
        found = flight.run([(), ()])
    assert [each.output for each in found] == [(bound, {min(bound)}, bound)] * 2


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_no_more_batches_are_in_flight_than_the_limit(limit: int) -> None:
    """Counted from the begin of the first stage to the end of the last one, and the limit is reached."""
    lock, inside, most = threading.Lock(), [0], [0]

    def enter(value: Any) -> Any:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        return value

    def leave(value: Any) -> Any:
        time.sleep(0.003)
        with lock:
            inside[0] -= 1
        return value

    steps = host_steps(("enter", "host", enter), (MODEL, "device", lambda value: value), ("leave", "host", leave))
    with InFlight(steps, limit) as flight:
        flights = flight.run(range(10))
    assert most[0] == limit
    for index, each in enumerate(flights[limit:], limit):
        assert each.entered >= flights[index - limit].left


@pytest.mark.parametrize("failing", ["before", MODEL, "after"])
def test_an_error_of_any_stage_reaches_the_caller(failing: str) -> None:
    """The first one, as it was raised; no thread hangs."""

    def step(name: str) -> Any:
        def run(value: int) -> int:
            if name == failing and value == 2:
                raise ValueError(f"stage {name} fails")
            return value

        return run

    steps = host_steps(
        ("before", "host", step("before")), (MODEL, "device", step(MODEL)), ("after", "host", step("after"))
    )
    with pytest.raises(ValueError, match=f"stage {failing} fails"), InFlight(steps, 2) as flight:
        flight.run(range(6))


def test_outputs_need_not_be_kept() -> None:
    """A timed run of large batches keeps none of their outputs."""
    with InFlight(STEPS, 2) as flight:
        assert {each.output for each in flight.run(range(4), keep_outputs=False)} == {None}


def test_the_other_threads_have_their_context_and_end() -> None:
    """Stages of the host run in what ``entered`` makes, and both threads have ended afterwards."""
    names: list[str] = []

    @contextmanager
    def entered() -> Iterator[None]:
        names.append("entered")
        yield
        names.append("left")

    before = threading.active_count()
    with InFlight(STEPS, 2, entered=entered) as flight:
        flight.run([1])
    assert sorted(names) == ["entered", "entered", "left", "left"]
    assert threading.active_count() == before


def test_stages_of_a_device_are_timed_by_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with several batches in flight, on the simulated device."""
    device = SimulatedDevice()
    for module in (pipeline, pipeline):
        monkeypatch.setattr(module, "perf_counter_ns", device.stamp)
    with InFlight(simulated_steps(device), 2, device) as flight:
        flights = flight.run([5, 6, 7])
    assert [each.output for each in flights] == [(5, "kept"), (6, "kept"), (7, "kept")]
    for each in flights:
        (model,) = [span for span in each.spans if span.step.name == MODEL]
        assert 1e3 * model.seconds == pytest.approx(20, abs=1.01)
