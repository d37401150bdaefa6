"""Pipelines for tests: on the simulated device, with stages of known length, and as results store them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fake_runs import make
from simulated_device import OnDevice, SimulatedDevice

from modelzoo.frozen import replace
from modelzoo.measure.pipeline import Step, steps_of
from modelzoo.records.run import Run
from modelzoo.records.timing import LATENCY, MODEL, PipelineStage, Place, Series
from modelzoo.setting import Setting
from modelzoo.workload import ModelInput, ModelOutput, Stage, Stages


def simulated_steps(device: SimulatedDevice) -> tuple[Step, ...]:
    """Stages on the host of 2 and 3 ms around one on the device of 4 ms and a model of 20 ms, with copies between them.

    Issuing a stage of the device takes the host 1 ms. With a synchronization after each stage, the device is idle
    meanwhile; without one, it still works on what was issued before.
    """

    stages = Stages(
        source=5,
        items=("five",),
        before=(
            Stage("decode", device.on_host(2, lambda value: [OnDevice(device, value)])),
            Stage("resize", device.launching(4, lambda value: ModelInput((value[0],), "kept")), "device"),
        ),
        after=(Stage("answer", device.on_host(3, lambda made: (made.output.value, made.context))),),
    )
    model = device.launching(20, lambda made: ModelOutput(made.args[0], made.context))
    return steps_of(stages, model, device, "sim:0")


STAGES = (
    PipelineStage("decode", Place.HOST),
    PipelineStage(MODEL, Place.DEVICE),
    PipelineStage("answer", Place.HOST),
)


def pipeline_run(columns: dict[str, Sequence[float]], **more: Any) -> Run:
    """A run whose series are ``columns``; its pipeline has the stages decode, model and answer."""
    run = make(columns[LATENCY], setting=Setting(stages=True), **more)
    assert run.report is not None and run.report.timing is not None
    series = tuple(Series(name, tuple(values)) for name, values in columns.items())
    timing = replace(run.report.timing, series=series)
    return replace(run, report=replace(run.report, timing=timing, pipeline=STAGES))
