"""A workload's pipeline in a worker: ready to run, refused in one line, and timed."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
import torch
from fake_runs import WEIGHTS
from measure.test_measurement import report_of
from toy_workloads import MLP, RANDOM

from modelzoo.engines import create_engine
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.measure.loading import build, check_stages, require_stages
from modelzoo.measure.preparation import prepare
from modelzoo.records.protocol import Assignment, PrepareJob
from modelzoo.records.run import Prepared
from modelzoo.records.timing import LATENCY, MODEL, UNDIVIDED
from modelzoo.records.workload import Conversion, Export
from modelzoo.setting import ResolvedSetting
from modelzoo.workload import Workload
from modelzoo.workload.declaration import input_request
from modelzoo.workload.discovery import load_workload

pytestmark = pytest.mark.usefixtures("restored")
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
