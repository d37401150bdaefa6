"""Engines other than torch go through export, timing, comparison of outputs, proof and judgement."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fake_runs import make, shown
from measure.test_measurement import job_for, report_of
from toy_workloads import SHORT, numpy_setting, odd_numpy, runs_of

from modelzoo.frozen import replace
from modelzoo.measure.jobs import Request
from modelzoo.measure.judgement import Judging
from modelzoo.measure.preparation import prepare
from modelzoo.records.protocol import PrepareJob
from modelzoo.records.validity import ValidityRequest, ValidityVerdict
from modelzoo.results.refusals import OtherOutputs, other_outputs
from modelzoo.results.summary import is_unproven
from modelzoo.setting import Setting
from modelzoo.workload import Workload
from modelzoo.workload.discovery import load_workload

pytestmark = pytest.mark.usefixtures("restored")
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


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    """Linear layers in a directory."""
    (tmp_path / "workload.py").write_text(DECLARATION)
    return load_workload(tmp_path)


def setting(name: str) -> Setting:
    """fp32 by an engine of tests/engines."""
    return TORCH.replace(engine=f"engines.exported_engine:{name}")


@pytest.mark.usefixtures("numpy_engine", "prepared_here")
def test_an_exported_model_runs_without_torch_on_the_same_inputs(workload: Workload) -> None:
    """The measuring worker never imports torch; its inputs have the digest of the workload's own."""
    (run,) = runs_of(Request(workload, (setting("ExportedEngine"),), SHORT))
    assert run.report is not None, run.error
    assert run.report.provenance.versions["torch imported"] == "False"
    assert run.report.provenance.engine == "exported"
    assert run.report.items == ("row", "row")
    torch = report_of(TORCH, workload)
    assert run.report.inputs_digest == torch.inputs_digest is not None
    assert torch.prepared.export is None


def test_engines_that_convert_differently_have_files_of_their_own(workload: Workload) -> None:
    """Their outputs are compared: numpy rounds in another order than torch, no more."""
    exact, other = (report_of(setting(name), workload) for name in ("ExportedEngine", "PerturbedEngine"))
    made, changed = exact.prepared.export, other.prepared.export
    assert made is not None and changed is not None
    assert (made.conversion.exporter, made.parts) == ("numpy", ())
    assert made.state_sha256 == changed.state_sha256
    assert made.sha256 != changed.sha256
    assert exact.observed.agreement is not None
    assert exact.observed.agreement.is_same, exact.observed.agreement.outputs
    assert "OTHER_OUTPUTS" not in {each.code for each in exact.warnings}
    assert other_outputs([exact]) is None


def test_an_export_says_what_was_converted(tmp_path: Path) -> None:
    """The process that measures it has no torch module that could tell."""
    (tmp_path / "workload.py").write_text(DECLARATION.replace("torch.nn.ReLU())\n", "torch.nn.ReLU()).bfloat16()\n"))
    report = report_of(setting("ExportedEngine"), load_workload(tmp_path))
    assert report.prepared.export is not None and report.observed.agreement is not None
    assert report.prepared.export.converted == {"bfloat16": 1.0}
    assert "CONVERTED_WEIGHTS" in {each.code for each in report.warnings}
    assert report.observed.agreement.is_same


def test_outputs_that_are_off_by_one_percent_or_not_known_are_refused(workload: Workload) -> None:
    """Whatever its speed; the warning says what to do, and the engine why it has none."""
    report = report_of(setting("PerturbedEngine"), workload)
    found, export = report.observed.agreement, report.prepared.export
    assert found is not None and found.worst is not None and export is not None
    assert found.worst.relative == pytest.approx(0.01, rel=0.5)
    (warning,) = (each for each in report.warnings if each.code == "OTHER_OUTPUTS")
    assert export.path in warning.hint
    assert other_outputs([report]) == OtherOutputs("exported", found)
    silent = report_of(setting("NoOutputsEngine"), workload)
    assert other_outputs([silent]) == OtherOutputs("exported", None, "the engine returns no arrays")


def test_a_model_that_cannot_be_exported_says_why(workload: Workload) -> None:
    """The other settings can run all the same."""
    job = PrepareJob(str(workload.directory), (setting("BrokenEngine"), TORCH), 0)
    broken, torch = prepare(job, lambda message: None)
    message = "layers cannot be exported for exported: NotImplementedError: no operator aten::grumble; run it with "
    assert (broken.error, torch.error) == (message + "--engine torch", None)


def test_an_engine_is_judged_against_torch(workload: Workload) -> None:
    """The reference is torch in fp32, in the same process; both sides agree."""
    job = replace(job_for(setting("ExportedEngine"), workload), validity=ValidityRequest(limit=8))
    report = Judging(job, lambda message: None).judge()
    assert report.validity.verdict is not ValidityVerdict.NOT_VALID, report.validity.reason
    assert report.reference is not None and report.reference.setting is not None
    assert (report.reference.setting.engine, report.provenance.engine) == ("torch", "exported")
    assert report.reference.observed.canary is not None and report.prepared.export is not None


REASON = "the fake engine has no kernel log, so its precision cannot be verified"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_engine_without_a_kernel_log_is_timed_and_its_precision_cannot_be_proven(
    precision: str, tmp_path: Path
) -> None:
    """Times, versions and the reason why nothing is proven; the summary and ``--strict`` say so."""
    work = odd_numpy(tmp_path / "odd")
    requested = numpy_setting(work).replace(precision=precision)
    report = report_of(requested, work, audit=True)
    own, seen = report.provenance, report.observed
    assert report.timing is not None and len(report.timing.steady) == 3
    assert (own.engine, own.libraries, seen.canary, seen.evidence) == ("fake", None, None, None)
    assert (seen.evidence_problem, set(own.versions)) == (REASON, {"python", "numpy"})
    (row,) = shown(replace(make([0.1], setting=requested), report=report))
    assert (row.proof.verdict, row.proof.ground) == (None, REASON)
    assert is_unproven(row)


def test_what_an_engine_cannot_do_is_one_line(tmp_path: Path) -> None:
    """A mode that it lacks is refused by the engine, before anything is timed."""
    work = odd_numpy(tmp_path / "odd")
    job = PrepareJob(str(work.directory), (numpy_setting(work).replace(mode="compile"),), 0)
    (found,) = prepare(job, lambda message: None)
    assert (found.error, found.error_kind) == ("--mode compile: the fake engine does not compile", "UsageError")


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
