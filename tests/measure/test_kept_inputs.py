"""Models that are not as they seem: they change their inputs, are random, or were not built in fp32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from measure.test_instance import served
from measure.test_measurement import job_for, measured

from modelzoo.evidence import probes
from modelzoo.measure.preparation import KeptInputs
from modelzoo.plan import Plan
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.protocol import Assignment
from modelzoo.records.run import RunReport
from modelzoo.results.proof import merged_proof
from modelzoo.setting import Setting
from modelzoo.views.proof import sentence
from modelzoo.workload import Workload
from modelzoo.workload.declaration import inputs_digest
from modelzoo.workload.discovery import load_workload

pytestmark = pytest.mark.usefixtures("restored")
FP32 = Setting(weights="random", threads=1)
DECLARATION = """
import torch
from modelzoo.workload import Inputs, Workload

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = torch.nn.Linear(64, 64), torch.nn.Dropout()
        self.register_buffer("ignore", torch.full((2,), -float("inf")))

    def forward(self, x):
        {forward}
        return self.layer(x)

def inputs(request):
    return Inputs((torch.ones(request.batch, 64, dtype={kind}),), ("ones",))

WORKLOAD = Workload("toy", "a toy", "rows", lambda options: Net().to({kind}), inputs)
"""
CHANGING = """with open(__file__ + ".seen", "a") as file: print(float(x.sum()), file=file)
        x.sub_(.5).mul_(3)"""
"""Notes the sum of its inputs, and changes them."""


def written(folder: Path, forward: str = "pass", kind: str = "torch.float32") -> Workload:
    """A workload whose model does ``forward`` first."""
    (folder / "workload.py").write_text(DECLARATION.format(forward=forward, kind=kind))
    return load_workload(folder)


def seen(work: Workload) -> list[float]:
    """The sums of the inputs that a ``CHANGING`` model got."""
    return [float(line) for line in (work.directory / "workload.py.seen").read_text().splitlines()]


def prepared(work: Workload, setting: Setting = FP32) -> Assignment:
    """What measures ``setting``; nothing is noted yet."""
    job = job_for(setting, work)
    (work.directory / "workload.py.seen").unlink(missing_ok=True)
    return job


def report_of(work: Workload, setting: Setting = FP32) -> RunReport:
    """The report of an audited measurement in this process."""
    return measured(prepared(work, setting), Plan(2, 3), audit=True, profiling=True)


def said(report: RunReport, code: str) -> list[str]:
    """The warnings with this code."""
    return [each.message for each in report.warnings if each.code == code]


@pytest.mark.parametrize("mode", ["eager", "script"])
def test_every_call_gets_the_inputs_as_they_were(tmp_path: Path, mode: str) -> None:
    """Timed and looked at: a model that changes them in place is warned of, and computes the same each time."""
    work = written(tmp_path, CHANGING)
    report = report_of(work, FP32.replace(mode=mode))
    assert len(said(report, "CHANGED_INPUTS")) == 1
    assert said(report, "NOT_REPEATABLE") == []
    assert len(seen(work)) > (5 if mode == "eager" else 0)
    assert {round(each, 3) for each in seen(work)} == {64.0}
    assert report.inputs_digest == inputs_digest((torch.ones(1, 64),))
    assert report.observed.evidence is not None
    assert report.observed.evidence.verdict is ProofVerdict.FP32
    assert report.observed.evidence.problems == ()
    if mode != "eager":
        assert report.observed.agreement is not None and report.observed.agreement.is_same


def test_a_model_that_leaves_its_inputs_alone_gets_no_copies(tmp_path: Path) -> None:
    """Its calls are the model's own."""
    inputs = KeptInputs(({"a": [torch.tensor([1.0, torch.nan])], "b": np.ones(2)}, 3))
    inputs.look()
    assert not inputs.changed
    report = report_of(written(tmp_path))
    assert not [code for code in ("CONVERTED_WEIGHTS", "CHANGED_INPUTS", "NOT_REPEATABLE") if said(report, code)]


def test_instances_restore_their_inputs(tmp_path: Path) -> None:
    """Before every batch that they serve."""
    work = written(tmp_path, CHANGING)
    report = served(prepared(work), lambda own: (own.batch(1), own.batch(1)), extras=True)
    assert set(seen(work)) == {64.0}
    assert report.context is not None
    assert len(said(report.context, "CHANGED_INPUTS")) == 1


@pytest.mark.parametrize(
    ("forward", "details"),
    [
        ("x = torch.nn.functional.dropout(x)", ["its outputs differ although its inputs are equal"]),
        (
            "self.train(); x = self.drop(x)",
            ["layer (Linear), drop (Dropout) in training mode", "its outputs differ although its inputs are equal"],
        ),
        ("self.train()", ["layer (Linear), drop (Dropout) in training mode"]),
    ],
)
def test_a_model_that_is_random_is_warned_of(tmp_path: Path, forward: str, details: list[str]) -> None:
    """Its modules in training mode are named, which nobody asked for."""
    found = said(report_of(written(tmp_path, forward)), "NOT_REPEATABLE")
    assert len(found) == len(details)
    assert all(detail in message for detail, message in zip(details, found))


def test_random_outputs_are_no_fault_of_the_mode(tmp_path: Path) -> None:
    """They are not compared with those of eager mode."""
    report = report_of(written(tmp_path, "x = torch.nn.functional.dropout(x)"), FP32.replace(mode="script"))
    assert (report.observed.agreement, said(report, "OTHER_OUTPUTS")) == (None, [])
    assert report.observed.agreement_problem is not None


ROUNDED = "x = 1.001 * x if not torch.jit.is_tracing() else (1.001 * x).bfloat16().float()"
COARSE = "x = 1.06 * x if not torch.is_autocast_enabled('cpu') else (1.06 * x).to(torch.float8_e4m3fn).float()"
UNUSED = """for _ in range(20): self.layer(x)
        with torch.autocast("cpu", enabled=False): return self.layer(1.001 * x)"""
AUTOCAST = FP32.replace(precision="bf16", bf16_method="autocast")


@pytest.mark.parametrize(
    ("setting", "forward", "verdict"),
    [
        (FP32.replace(mode="script"), "x = 1.001 * x", ProofVerdict.FP32),
        (FP32.replace(mode="script"), ROUNDED, ProofVerdict.UNKNOWN),
        (AUTOCAST, "x = 1.001 * x", ProofVerdict.ACTIVE),
        (AUTOCAST, COARSE, ProofVerdict.UNKNOWN),
        (AUTOCAST, UNUSED, ProofVerdict.UNKNOWN),
    ],
    ids=["fp32", "fp32 that rounds", "bf16", "bf16 that rounds more", "bf16 that computes in fp32"],
)
def test_the_outputs_of_the_whole_model_must_be_off_as_its_precision_explains(
    setting: Setting, forward: str, verdict: ProofVerdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every product has the precision that was asked for, but what is planted lies between them."""
    monkeypatch.setattr(probes, "every_bf16_instruction_flushes", lambda: False)  # as on an Arm CPU
    report = report_of(written(tmp_path, forward), setting)
    evidence, found = report.observed.evidence, merged_proof([report])
    assert evidence is not None
    assert evidence.verdict is (ProofVerdict.FP32 if setting.precision == "fp32" else ProofVerdict.ACTIVE)
    assert found.verdict is verdict
    contradicts = "the outputs do not confirm what the products show: mean error ÷ mean |output| "
    assert (contradicts in str(sentence(found))) is (verdict is ProofVerdict.UNKNOWN)


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float64"])
def test_a_model_of_another_type_runs_in_fp32_and_says_so(tmp_path: Path, kind: str) -> None:
    """Which is what was asked for, with inputs of that type; a buffer of -inf is no reason to refuse it."""
    report = report_of(written(tmp_path, kind=f"torch.{kind}"))
    (message,) = said(report, "CONVERTED_WEIGHTS")
    assert f"(100 % {kind})" in message
    assert report.observed.evidence is not None
    assert report.observed.evidence.verdict is ProofVerdict.FP32
    assert {each.operands for each in report.observed.evidence.products} == {"fp32"}
    assert report.weight_bytes == 4 * (64 * 64 + 64 + 2)


def test_a_product_in_fp64_is_not_fp32(tmp_path: Path) -> None:
    """It is more, and takes longer: another precision than was asked for."""
    report = report_of(written(tmp_path, "x = (x.double() @ self.layer.weight.double()).float()"))
    found = report.observed.evidence
    assert found is not None
    assert found.verdict is ProofVerdict.NOT_FP32
    assert getattr(found.reason, "precisions", ()) == ("fp64",)
