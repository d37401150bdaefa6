"""The trace of a pipeline, as Perfetto reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pipelines import host_steps

from modelzoo.errors import UsageError
from modelzoo.measure.pipeline import InFlight, Span
from modelzoo.measure.pipeline_clock import (
    AFTER,
    BEFORE,
    DEVICE,
    PipelineClock,
    TracedBatch,
    events,
    of_flights,
    of_passes,
    write_trace,
)
from modelzoo.records.timing import MODEL

STEPS = host_steps(
    ("decode", "host", abs),
    ("resize", "device", abs),
    ("sort", "host", abs),
    (MODEL, "device", abs),
    ("answer", "host", abs),
)


def batch(began: int) -> TracedBatch:
    """Five stages of 1 ms, one after the other."""
    return TracedBatch(began, tuple(Span(step, 1e-3 * index, 1e-3 * (index + 1)) for index, step in enumerate(STEPS)))


def test_stages_lie_on_tracks_in_microseconds() -> None:
    """Complete events with start and length; a stage between two on the device is on the device's track."""
    found = events([batch(7_000_000), batch(17_000_000)], "toy fp32", "cuda:0")
    stages = [each for each in found if each["ph"] == "X"]
    assert [each["name"] for each in stages] == [step.name for step in STEPS] * 2
    assert [each["tid"] for each in stages[:5]] == [BEFORE, DEVICE, DEVICE, DEVICE, AFTER]
    assert [each["ts"] for each in stages[:2]] == pytest.approx([0, 1000])
    assert stages[5]["ts"] == pytest.approx(10_000)
    assert all(each["dur"] == pytest.approx(1000) for each in stages)
    assert [each["args"] for each in stages] == [{"batch": 0}] * 5 + [{"batch": 1}] * 5


def test_tracks_have_names() -> None:
    """The device's says which device it is; the process has the title."""
    names = {
        each["args"]["name"] for each in events([batch(0)], "toy fp32", "cuda:0") if "name" in each.get("args", {})
    }
    assert names == {"toy fp32", "host, before the device", "device (cuda:0)", "host, after the device"}
    assert events([], "toy", "cpu") == []


def test_both_kinds_of_timing_can_be_traced() -> None:
    """Passes one after the other, and the batches of a run in flight, all with every stage."""
    clock = PipelineClock(STEPS, 1)
    clock.time(clock.run)
    with InFlight(STEPS, 2) as flight:
        flights = flight.run([1, 2, 3])
    for batches, count in ((of_passes(clock.passes), 1), (of_flights(flights), 3)):
        assert len(batches) == count
        stages = [each for each in events(batches, "toy", "cpu") if each["ph"] == "X"]
        assert len(stages) == 5 * count
        assert all(float(str(each["ts"])) >= 0 for each in stages)


def test_the_file_is_json_or_the_error_says_what_to_do(tmp_path: Path) -> None:
    """A trace is written whole; a directory that does not exist ends in one line."""
    write_trace(tmp_path / "trace.json", [batch(0)], "toy", "cpu")
    stored = json.loads((tmp_path / "trace.json").read_text())
    assert (len(stored["traceEvents"]), stored["displayTimeUnit"]) == (12, "ms")
    with pytest.raises(UsageError, match="cannot write the trace .*; name another file with --trace"):
        write_trace(tmp_path / "missing" / "trace.json", [batch(0)], "toy", "cpu")
