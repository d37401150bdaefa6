"""What a worker reports of a judgement, made in this process by an engine that is not torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_runs import changed
from toy_workloads import numpy_classifier

from modelzoo.engines import create_engine
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.frozen import replace
from modelzoo.measure.judgement import Judging
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.protocol import Assignment, Message, Progress, Send
from modelzoo.records.run import Prepared, ValidityReport
from modelzoo.records.validity import ValidityRequest
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import Setting
from modelzoo.workload import Workload

ENGINE = "engines.fake_engine:FakeEngine"


def job_for(work: Workload, request: ValidityRequest) -> Assignment:
    """The job that judges bf16 on three crops."""
    path = str(work.directory / "weights.npz")
    requested = Setting("bf16", weights=path, engine=ENGINE)
    setting = create_engine(ENGINE).resolve(requested, batch=work.batch, threads=2)
    weights = Weights(WeightsKind.PATH, "weights.npz", path, "0" * 64)
    return Assignment(str(work.directory), requested, Prepared(setting, weights), 0, validity=request)


def judge(job: Assignment, send: Send = lambda message: None) -> ValidityReport:
    """What a worker reports of ``job``."""
    return Judging(job, send).judge()


def test_a_judgement_records_both_models_and_what_identifies_the_work(tmp_path: Path) -> None:
    """Settings and proof of both sides, versions, machine and the workload's digest; exhibits and progress go out."""
    sent: list[Message] = []
    job = job_for(numpy_classifier(tmp_path), ValidityRequest(limit=3))
    report = judge(job, sent.append)
    assert report.validity.counts["crops"] == 3
    assert report.reference is not None
    assert report.reference.setting is not None
    assert report.tested.setting is not None
    assert (report.reference.setting.precision, report.tested.setting.precision) == ("fp32", "bf16")
    assert (report.provenance.engine, set(report.provenance.versions)) == ("fake", {"python", "numpy"})
    assert report.provenance.digest
    assert report.provenance.machine is not None
    first, *_, last = [message for message in sent if isinstance(message, Progress)]
    assert first == Progress("load")
    assert last.judged is not None
    assert (last.judged.items, last.judged.total, last.judged.metric) == (3, 3, "top1_agreement")
    assert [message.name for message in sent if isinstance(message, Exhibit)] == ["top5.csv"]


def test_a_worker_that_would_judge_another_setting_fails(tmp_path: Path) -> None:
    """Settings are resolved once, here too."""
    job = job_for(numpy_classifier(tmp_path), ValidityRequest(limit=3))
    other = changed(job, setting=replace(job.setting, batch=7))
    with pytest.raises(EnvironmentProblem, match="with batch 2, but 7 was decided"):
        judge(other)


def test_a_wrong_tolerance_is_a_usage_error(tmp_path: Path) -> None:
    """It passes through with its class."""
    job = job_for(numpy_classifier(tmp_path), ValidityRequest(tolerance={"nosuch": 1.0}))
    with pytest.raises(UsageError, match="nosuch"):
        judge(job)


def test_an_audit_that_fails_does_not_lose_the_judgement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the reason why there is no evidence."""
    job = job_for(numpy_classifier(tmp_path), ValidityRequest(limit=3))

    def failing(*args: object, **options: object) -> None:
        raise RuntimeError("no profiler\nat all")

    monkeypatch.setattr("engines.fake_engine.FakeModel.audit", failing)
    report = judge(job)
    assert report.validity.counts["crops"] == 3
    assert report.tested.observed.evidence_problem == "the audit failed: RuntimeError: no profiler"


def test_the_tested_model_is_audited_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the judgement, which is not VALID here, so with replays; the reference also before it."""
    replays: list[object] = []

    def recording(*args: object, **options: object) -> None:
        replays.append(options["replay"])
        raise RuntimeError("no profiler")

    monkeypatch.setattr("engines.fake_engine.FakeModel.audit", recording)
    judge(job_for(numpy_classifier(tmp_path), ValidityRequest(limit=3)))
    assert replays == [False, True, True]
