"""Engines that run exported models go through export, timing, comparison of outputs, and judgement, in processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from places import ROOT
from toy_workloads import SHORT, runs_of

from modelzoo.frozen import replace
from modelzoo.measure import jobs
from modelzoo.measure.jobs import Request
from modelzoo.records.run import Result, Run, RunReport, SettingRequest, now
from modelzoo.records.validity import ValidityRequest, ValidityVerdict
from modelzoo.results import summary
from modelzoo.results.refusals import OtherOutputs
from modelzoo.setting import Setting
from modelzoo.stats import Outcome
from modelzoo.workload import Workload
from modelzoo.workload.discovery import load_workload

TORCH = Setting(weights="random", threads=1)
DECLARATION = """
from modelzoo.validity import Classification
from modelzoo.workload import Inputs, Workload

def build(options):
    import torch
    return torch.nn.Sequential(torch.nn.Linear(48, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8), torch.nn.ReLU())

def inputs(request):
    import torch
    return Inputs((torch.linspace(-1, 1, request.batch * 48).reshape(-1, 48),), ("row",) * request.batch)

def preprocess(picture):
    import numpy as np
    import torch
    return torch.from_numpy(np.asarray(picture.resize((4, 4)), dtype="float32").reshape(-1) / 255)

WORKLOAD = Workload(
    name="layers",
    title="linear layers",
    unit="rows",
    build=build,
    inputs=inputs,
    batch=2,
    judge=lambda options: Classification(preprocess=preprocess, labels=lambda: [f"class {i}" for i in range(8)]),
    libraries=("torch",),
)
"""


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """Linear layers in a directory."""
    folder = tmp_path_factory.mktemp("layers")
    (folder / "workload.py").write_text(DECLARATION)
    return load_workload(folder)


@pytest.fixture(scope="module")
def runs(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Run]]:
    """Torch and all engines in turn, two processes each, by the name of the engine."""
    names = ["ExportedEngine", "PerturbedEngine", "NoOutputsEngine", "BrokenEngine"]
    settings = (TORCH, *(TORCH.replace(engine=f"engines.exported_engine:{name}") for name in names))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("MODELZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        found = runs_of(Request(workload, settings, SHORT), 2)
    return {
        name: [run for run in found if run.requested == setting] for name, setting in zip(["torch", *names], settings)
    }


def reports(runs: list[Run]) -> list[RunReport]:
    """The reports of runs that must not have failed."""
    assert [run.error for run in runs] == [None, None]
    return [run.report for run in runs if run.report is not None]


def verdict(runs: dict[str, list[Run]], name: str) -> tuple[Outcome, list[object]]:
    """What is found out about an engine compared with torch."""
    requested = tuple(SettingRequest(run.workload, run.requested) for run in (runs["torch"][0], runs[name][0]))
    both = [*runs["torch"], *runs[name]]
    numbered = tuple(replace(run, group=group) for run, group in zip(both, [0, 0, 1, 1]))
    _, row = summary.rows(Result(("run",), now(), requested, numbered))
    assert row.speed is not None
    return row.speed.verdict.outcome, [each.fact for each in row.speed.refused]


def test_an_exported_model_runs_without_torch_on_the_same_inputs(runs: dict[str, list[Run]]) -> None:
    """The measuring worker never imports torch; its inputs have the digest of the workload's own."""
    torch, exported = reports(runs["torch"]), reports(runs["ExportedEngine"])
    assert {report.provenance.versions["torch imported"] for report in exported} == {"False"}
    assert len({report.inputs_digest for report in (*torch, *exported)}) == 1
    assert torch[0].inputs_digest is not None
    assert [report.items for report in exported] == [("row", "row")] * 2
    assert {report.provenance.engine for report in exported} == {"exported"}
    assert all(report.prepared.export is None for report in torch)


def test_the_export_says_what_was_converted(runs: dict[str, list[Run]]) -> None:
    """All processes ran the same files; engines that convert differently have files of their own."""
    first, second = reports(runs["ExportedEngine"])
    assert first.prepared.export is not None
    assert first.prepared.export == second.prepared.export
    assert (first.prepared.export.conversion.exporter, first.prepared.export.parts) == ("numpy", ())
    perturbed = reports(runs["PerturbedEngine"])[0].prepared.export
    assert perturbed is not None
    assert perturbed.state_sha256 == first.prepared.export.state_sha256
    assert perturbed.sha256 != first.prepared.export.sha256


def test_the_first_process_compares_outputs_and_the_setting_is_compared(runs: dict[str, list[Run]]) -> None:
    """Numpy rounds in another order than torch, no more."""
    first, second = reports(runs["ExportedEngine"])
    assert first.observed.agreement is not None and second.observed.agreement is None
    assert first.observed.agreement.is_same, first.observed.agreement.outputs
    assert first.warnings == () or "OTHER_OUTPUTS" not in {each.code for each in first.warnings}
    assert verdict(runs, "ExportedEngine")[0] is not Outcome.NOT_COMPARABLE


def test_a_layer_that_is_off_by_one_percent_is_not_comparable(runs: dict[str, list[Run]]) -> None:
    """Whatever its speed; the warning says what to do."""
    first = reports(runs["PerturbedEngine"])[0]
    assert first.observed.agreement is not None and first.observed.agreement.worst is not None
    assert first.observed.agreement.worst.relative == pytest.approx(0.01, rel=0.5)
    warning = next(each for each in first.warnings if each.code == "OTHER_OUTPUTS")
    assert first.prepared.export is not None
    assert first.prepared.export.path in warning.hint
    refused = OtherOutputs("exported", first.observed.agreement)
    assert verdict(runs, "PerturbedEngine") == (Outcome.NOT_COMPARABLE, [refused])


def test_outputs_that_are_not_known_are_not_comparable(runs: dict[str, list[Run]]) -> None:
    """The reason is the engine's."""
    first = reports(runs["NoOutputsEngine"])[0]
    assert (first.observed.agreement, first.observed.agreement_problem) == (None, "the engine returns no arrays")
    assert verdict(runs, "NoOutputsEngine")[0] is Outcome.NOT_COMPARABLE


def test_a_model_that_cannot_be_exported_says_why(runs: dict[str, list[Run]]) -> None:
    """The other settings run all the same."""
    message = "layers cannot be exported for exported: NotImplementedError: no operator aten::grumble; run it with "
    errors = {run.error for run in runs["BrokenEngine"]}
    assert errors == {message + "--engine torch"}


def test_an_engine_is_judged_against_torch(workload: Workload, numpy_engine: None) -> None:
    """The reference is torch in fp32, in the same process; both sides agree."""
    request = Request(workload, (TORCH.replace(engine="engines.exported_engine:ExportedEngine"),), SHORT)
    report = jobs.validate(request, ValidityRequest(limit=8), lambda event: None, lambda exhibit: None)
    assert report.validity.verdict is not ValidityVerdict.NOT_VALID, report.validity.reason
    assert report.reference is not None and report.reference.setting is not None
    assert (report.reference.setting.engine, report.provenance.engine) == ("torch", "exported")
    assert report.reference.observed.canary is not None
    assert report.prepared.export is not None


def test_standard_workloads_are_declared_without_torch() -> None:
    """The measuring worker of another engine loads their declarations, in an environment that may lack all of these."""
    code = """
import sys
sys.modules.update(dict.fromkeys(("torch", "torchvision", "transformers", "pycocotools")))
import modelzoo.measure.instance
from modelzoo.workload.discovery import STANDARD_WORKLOADS, find_workload, load_workload
print(*(load_workload(find_workload(name)).name for name in STANDARD_WORKLOADS))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["resnet50", "ssd", "maskrcnn", "bert"]
