"""Pipelines: stages as steps, the copies between them, what a sample holds, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from fake_runs import WEIGHTS
from measure.test_measurement import report_of
from pipelines import simulated_steps
from simulated_device import MILLISECOND, OnDevice, SimulatedDevice
from toy_workloads import MLP, RANDOM

from modelzoo.engines import create_engine
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.measure.pipeline import PipelineClock, Step, events_for, moved, steps_of, timed_pass
from modelzoo.measure.preparation import build, check_stages, prepare, require_stages
from modelzoo.records.protocol import Assignment, PrepareJob
from modelzoo.records.run import Prepared
from modelzoo.records.timing import LATENCY, MODEL, SYNCHRONIZED, TO_DEVICE, TO_HOST, UNDIVIDED, Place
from modelzoo.records.workload import Conversion, Export
from modelzoo.setting import ResolvedSetting
from modelzoo.workload import ModelInput, ModelOutput, Stage, Stages, Workload
from modelzoo.workload.declaration import input_request
from modelzoo.workload.discovery import load_workload

pytestmark = pytest.mark.usefixtures("restored")

EXPECTED = {"decode": 2, TO_DEVICE: 1, "resize": 4, MODEL: 20, TO_HOST: 1, "answer": 3}
"""Milliseconds of each stage of the simulated pipeline, apart from issuing."""


def test_stages_are_timed_by_events_that_are_read_at_the_end(device: SimulatedDevice) -> None:
    """Each stage has the time of its own work, all add up to the end-to-end time, and only the copy waits."""
    device.launch(takes=50 * MILLISECOND)
    steps = simulated_steps(device)
    whole, spans = timed_pass(steps, 5, device, events_for(steps, device))
    # Issuing the first work of a run takes the host 1 ms, in which the device is idle.
    assert {step.name: pytest.approx(1e3 * (end - start), abs=1.01) for step, start, end in spans} == EXPECTED
    assert sum(end - start for _, start, end in spans) == pytest.approx(whole, rel=0.02)
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


def test_tensors_move_wherever_they_are() -> None:
    """In lists, tuples, mappings, arguments and outputs; contexts stay on the host."""
    tensor = OnDevice(SimulatedDevice(), 1)
    for wrapped in (lambda each: ModelInput(([each],), tensor), lambda each: ModelOutput([{"x": (each, 3)}], tensor)):
        assert moved(wrapped(tensor), lambda each: "moved") == wrapped("moved")


def test_synchronizing_after_each_stage_costs_what_issuing_takes(device: SimulatedDevice) -> None:
    """Without it the host issues the next stage while the device works: 1 ms less for each of two."""
    clock = PipelineClock(simulated_steps(device), 5, device)
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


RESOLVED = ResolvedSetting(batch=4, stages=True)
SOURCE = '''
"""Stages around a linear layer; the second one takes over half of the module's work."""

from modelzoo.workload import Inputs, ModelInput, Stage, Stages, Workload


def build(options):
    import torch

    return torch.nn.Sequential(torch.nn.Softplus(), torch.nn.Linear(64, 64))


def inputs(request):
    import torch

    return Inputs((torch.ones(request.batch, 64),), ("ones",) * request.batch)


def stages(request):
    import torch

    def without_softplus(module):
        module[0] = torch.nn.Identity()
        return module

    return Stages(
        source=[1.0] * request.batch,
        items=("ones",) * request.batch,
        before=(
            Stage("decode", lambda rows: torch.tensor(rows)[:, None].expand(-1, 64).clone()),
            Stage("soften", lambda rows: ModelInput((torch.nn.functional.softplus(rows),), len(rows)), "device"),
        ),
        after=(Stage("pick", lambda made: made.output.argmax(1).tolist()[: made.context]),),
        part=without_softplus,
    )


WORKLOAD = Workload("staged", "a layer with stages", "rows", build, inputs, stages=stages, batch=4)
'''


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """A workload with stages."""
    folder = tmp_path_factory.mktemp("staged")
    (folder / "workload.py").write_text(SOURCE)
    return load_workload(folder)


def test_a_process_reports_the_stages_and_the_whole(staged: Workload) -> None:
    """A series for each stage, the end-to-end time, and that of passes without timestamps, all of one length."""
    report = report_of(RANDOM.replace(stages=True), staged)
    assert report.timing is not None and report.pipeline is not None
    assert [stage.name for stage in report.pipeline] == ["decode", "soften", MODEL, "pick"]
    assert [each.name for each in report.timing.series] == [LATENCY, "decode", "soften", MODEL, "pick", UNDIVIDED]
    assert {len(each.values) for each in report.timing.series} == {3}
    whole = [sum(report.timing.values(stage.name)[i] for stage in report.pipeline) for i in range(3)]
    assert all(part <= latency for part, latency in zip(whole, report.timing.values(LATENCY)))
    assert report.items == ("ones",) * 4
    assert report.inputs_digest is not None


def test_a_loaded_model_loses_the_part_too(staged: Workload) -> None:
    """A workload that loads checkpoints itself is treated alike."""
    session = mock.Mock()
    session.load.side_effect = UsageError("asked")
    loading = replace(staged, load=lambda options, path: staged.build(options))
    job = Assignment("", RANDOM, Prepared(RESOLVED, WEIGHTS), None)
    with pytest.raises(UsageError, match="asked"):
        build(create_engine("torch"), session, loading, job)
    found = session.load.call_args.args[0]
    assert isinstance(found.load({}, Path())[0], torch.nn.Identity)
    assert isinstance(found.build({})[0], torch.nn.Identity)


def test_a_workload_without_stages_is_refused_before_anything_is_made() -> None:
    """One line that names the page."""
    (found,) = prepare(PrepareJob(str(MLP), (RANDOM.replace(stages=True),), 0), lambda message: None)
    message = "workload mlp declares no stages; see docs/workload.md"
    assert (found.error, found.error_kind) == (message, "UsageError")


def test_engines_that_cannot_run_the_stages_are_refused(staged: Workload) -> None:
    """One with an environment of its own, and one that runs the whole model although stages take a part of it over."""
    setting = replace(RESOLVED, engine="onnxruntime")
    export = Export("directory", "batch", Conversion("exporter", "1"), "", "")
    with pytest.raises(UsageError, match="engine onnxruntime runs in an environment of its own"):
        check_stages(staged, setting, WEIGHTS, export, "/env/bin/python")
    with pytest.raises(UsageError, match="engine onnxruntime runs the whole model; leave --stages out"):
        check_stages(staged, setting, WEIGHTS, export, None)
    whole = replace(require_stages(staged)(input_request(RESOLVED, WEIGHTS)), part=lambda module: module)
    check_stages(replace(staged, stages=lambda request: whole), RESOLVED, WEIGHTS, None, None)
