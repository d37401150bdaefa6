"""Jittor as an engine: what it refuses, and, if its environment exists, a run and a judgement."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from toy_workloads import runs_of

from modelzoo.engines import create_engine
from modelzoo.engines.jittor import environment
from modelzoo.engines.jittor.engine import JittorEngine
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.measure import jobs
from modelzoo.measure.jobs import Request
from modelzoo.plan import Plan
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.validity import ValidityRequest, ValidityVerdict
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.discovery import load_workload


def test_it_is_created_without_jittor() -> None:
    """By its name; its module imports nothing of Jittor."""
    assert isinstance(create_engine("jittor"), JittorEngine)
    assert "jittor" not in sys.modules


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "cuda"},
        {"mode": "compile"},
        {"backend": "blas"},
        {"channels_last": True},
        {"precision": "bf16"},
        {"precision": "bf16", "bf16_method": "cast"},
    ],
)
def test_what_jittor_lacks_is_refused_in_one_line(changes: dict[str, Any]) -> None:
    """Nothing is silently run in another way."""
    with pytest.raises(UsageError, match="Jittor") as caught:
        JittorEngine().check(Setting(engine="jittor", **changes))
    assert "\n" not in str(caught.value)


def test_a_setting_is_resolved() -> None:
    """Batch and threads are the user's, or those of the workload and the machine."""
    engine = JittorEngine()
    setting = Setting(engine="jittor")
    engine.check(setting)
    found = engine.resolve(setting, batch=4, threads=2)
    assert (found.engine, found.batch, found.threads, found.bf16_method) == ("jittor", 4, 2, None)
    assert engine.resolve(setting.replace(batch=1, threads=1), batch=4, threads=2).threads == 1
    assert engine.variables(found)["OMP_NUM_THREADS"] == "2"
    assert engine.reference(found).engine == "torch"


def test_a_missing_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything else happens, with the command that makes it."""
    monkeypatch.setenv(environment.DIRECTORY_VARIABLE, str(tmp_path))
    engine = JittorEngine()
    for use in (engine.load, engine.interpreter):
        with pytest.raises(EnvironmentProblem, match=r"run scripts/setup-jittor$"):
            use()


def test_a_model_that_was_not_exported_is_refused() -> None:
    """There is nothing that Jittor could run."""
    session = JittorEngine().open(ResolvedSetting(engine="jittor"))
    with pytest.raises(UsageError, match="has not been exported for Jittor"):
        session.load(load_workload(ROOT / "resnet50"), None, None)  # type: ignore[arg-type]  # neither is used


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
    assert report is not None
    assert report.timing is not None
    assert len(report.timing.steady) == 2
    assert report.compile_seconds is not None
    assert report.observed.canary_verdict is CanaryVerdict.FP32
    assert report.observed.evidence is not None
    assert report.observed.evidence.verdict is ProofVerdict.FP32
    assert set(report.provenance.versions) >= {"jittor", "onednn", "numpy", "python"}
    assert "torch" not in report.provenance.versions
    assert report.observed.agreement is not None
    assert report.observed.agreement.worst is not None
    assert report.observed.agreement.worst.relative is not None
    assert report.observed.agreement.worst.relative < 1e-4


@pytest.mark.slow
def test_its_predictions_are_judged(request_: Request) -> None:
    """Jittor predicts in a process of its own, beside torch in the judging one."""
    report = jobs.validate(request_, ValidityRequest(limit=4), lambda event: None, lambda exhibit: None)
    assert report.validity.verdict in (ValidityVerdict.VALID, ValidityVerdict.NUMERIC_ONLY), report.validity.reason
    assert report.provenance.versions["jittor"]
