"""Jittor as an engine: what it refuses, and, if its environment exists, a run and a judgement."""

from __future__ import annotations

import pytest
from places import ROOT
from toy_workloads import runs_of

from modelzoo.engines import jittor as environment
from modelzoo.engines.jittor.engine import JittorEngine
from modelzoo.errors import UsageError
from modelzoo.measure import jobs
from modelzoo.measure.jobs import Request
from modelzoo.plan import Plan
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.validity import ValidityRequest, ValidityVerdict
from modelzoo.setting import Setting
from modelzoo.workload.discovery import load_workload


def test_other_precisions_are_refused() -> None:
    """Nothing is silently run in another way."""
    with pytest.raises(UsageError, match="^--precision bf16: Jittor computes in fp32; use fp32 or another --engine$"):
        JittorEngine().check(Setting(engine="jittor", precision="bf16"))


@pytest.fixture(scope="module")
def request_() -> Request:
    """ResNet50 with random weights, one warm-up and two samples."""
    if not (environment.directory() / environment.STAMP).is_file():
        pytest.skip(f"{environment.directory()} does not exist: run scripts/setup-jittor")
    setting = Setting(engine="jittor", weights="random", batch=1)
    return Request(load_workload(ROOT / "resnet50"), (setting,), Plan(warmup=1, iterations=2))


@pytest.mark.slow
def test_it_is_timed_proven_and_compared(request_: Request) -> None:
    """In its own environment, without torch; fp32 is proven by oneDNN's log and the canary."""
    (run,) = runs_of(request_)
    assert run.error is None
    report = run.report
    assert len(report.timing.steady) == 2
    assert report.compile_seconds is not None
    assert report.observed.canary_verdict is CanaryVerdict.FP32
    assert report.observed.evidence.verdict is ProofVerdict.FP32
    assert set(report.provenance.versions) >= {"jittor", "onednn", "numpy", "python"}
    assert "torch" not in report.provenance.versions
    assert report.observed.agreement.worst.relative < 1e-4


@pytest.mark.slow
def test_its_predictions_are_judged(request_: Request) -> None:
    """Jittor predicts in a process of its own, beside torch in the judging one."""
    report = jobs.validate(request_, ValidityRequest(limit=4), lambda event: None, lambda exhibit: None)
    assert report.validity.verdict in (ValidityVerdict.VALID, ValidityVerdict.NUMERIC_ONLY), report.validity.reason
    assert report.provenance.versions["jittor"]
