"""What a worker reports of a judgement, by an engine that is not torch; workers that judge shards, and one that merges
them: the judgement of one pass, to the last digit."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from fake_runs import changed
from toy_workloads import NUMPY_ENGINE, numpy_classifier, numpy_setting
from validity import toys

from modelzoo.engines import create_engine
from modelzoo.errors import EnvironmentProblem, WorkerError
from modelzoo.files import files_sha256
from modelzoo.frozen import replace
from modelzoo.measure import judgement
from modelzoo.measure.jobs import Request, divided
from modelzoo.measure.judgement import Judging
from modelzoo.plan import Plan
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.protocol import Assignment, Message, Progress
from modelzoo.records.run import Prepared
from modelzoo.records.validity import Reason, ReasonKind, ValidityRequest, ValidityVerdict, WorstLayer
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.workload import Workload
from modelzoo.workload.discovery import load_workload


def job_for(work: Workload) -> Assignment:
    """The job that judges bf16 on three crops."""
    requested = numpy_setting(work).replace(precision="bf16")
    setting = create_engine(NUMPY_ENGINE).resolve(requested, batch=work.batch, threads=1)
    weights = Weights(WeightsKind.PATH, "weights.npz", requested.weights, "0" * 64)
    return Assignment(str(work.directory), requested, Prepared(setting, weights), 0, validity=ValidityRequest(limit=3))


def test_a_judgement_records_both_models_and_what_identifies_the_work(tmp_path: Path) -> None:
    """Settings and proof of both sides, versions, machine and the workload's digest; exhibits and progress go out."""
    sent: list[Message] = []
    job = job_for(numpy_classifier(tmp_path))
    report = Judging(job, sent.append).judge()
    assert report.validity.counts["crops"] == 3
    assert report.validity.verdict is ValidityVerdict.INCONCLUSIVE
    assert report.validity.reason == Reason(ReasonKind.UNKNOWN_ROUNDING)
    assert [each.about for each in report.validity.checks if each.undecided][-1] == WorstLayer("(output)")
    assert report.reference is not None and report.reference.setting is not None and report.tested.setting is not None
    assert (report.reference.setting.precision, report.tested.setting.precision) == ("fp32", "bf16")
    assert (report.provenance.engine, set(report.provenance.versions)) == ("fake", {"python", "numpy"})
    assert report.provenance.digest
    assert report.provenance.machine is not None
    first, *_, last = [message for message in sent if isinstance(message, Progress)]
    assert first == Progress("load")
    assert last.judged is not None
    assert (last.judged.items, last.judged.total, last.judged.metric) == (3, 3, "top1_agreement")
    assert [each.name for each in exhibits(sent)] == ["top5.csv"]


def test_a_worker_that_would_judge_another_setting_fails(tmp_path: Path) -> None:
    """Settings are resolved once, here too."""
    job = job_for(numpy_classifier(tmp_path))
    other = changed(job, setting=replace(job.setting, batch=7))
    with pytest.raises(EnvironmentProblem, match="with batch 2, but 7 was decided"):
        Judging(other, print)


def test_an_audit_that_fails_does_not_lose_the_judgement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the reason why there is no evidence."""
    replays: list[object] = []

    def failing(*args: object, **options: object) -> None:
        replays.append(options["replay"])
        raise RuntimeError("no profiler\nat all")

    monkeypatch.setattr("engines.fake_engine.FakeModel.audit", failing)
    report = Judging(job_for(numpy_classifier(tmp_path)), print).judge()
    assert report.validity.counts["crops"] == 3
    assert report.tested.observed.evidence_problem == "the audit failed: RuntimeError: no profiler"
    assert replays == [False, True, True]


@pytest.fixture
def job(tmp_path: Path) -> Assignment:
    """Judges bf16 by the numpy engine on seven pictures, in batches of two."""
    toys.classification(tmp_path / "pictures", 7)
    for folder in sorted((tmp_path / "pictures").iterdir()):
        folder.rename(folder.with_name(folder.name.replace("c", "class ")))
    work = numpy_classifier(tmp_path / "linear")
    return replace(job_for(work), validity=ValidityRequest(data=str(tmp_path / "pictures")))


def exhibits(sent: list[Message]) -> list[Exhibit]:
    """Those among the messages."""
    return [message for message in sent if isinstance(message, Exhibit)]


def test_merged_shards_give_the_judgement_of_one_pass(job: Assignment) -> None:
    """The same record, the same files; shards end between batches, and each is proven."""
    sent: tuple[list[Message], list[Message]] = ([], [])
    whole, own = Judging(job, sent[0].append).judge(), Judging(job, sent[1].append)
    first, second = own.divide(3).shards
    assert [(each.start, each.stop) for each in (first, second)] == [(0, 4), (4, 7)]
    results = [own.compare(second), own.compare(first)][::-1]
    assert own.content(first) == results[0].content
    for each in results:
        own.merge(each)
    assert own.conclude() == whole.validity
    assert whole.validity.counts == {"pictures": 7}
    assert exhibits(sent[0]) == exhibits(sent[1])
    assert results[0].by == results[1].by
    assert results[0].by.tested.observed.canary_verdict == whole.tested.observed.canary_verdict
    assert results[0].by.provenance.engine == whole.provenance.engine


def test_shards_depend_on_the_code_that_judges_and_on_every_file_of_the_workload(job: Assignment) -> None:
    """A module that the workload imports counts as well, and so do the sources of the suite."""
    plans = []
    for text in ("FACTOR = 1", "FACTOR = 2"):
        (Path(job.directory) / "factors.py").write_text(text)
        plans.append(Judging(job, print).divide(3))
    assert not {each.identity for each in plans[0].shards} & {each.identity for each in plans[1].shards}
    assert len(plans[0].facts["source code of modelzoo"]) == 12
    assert "files beside the weights" not in plans[0].facts


@pytest.mark.usefixtures("numpy_engine", "prepared_here")
def test_a_worker_that_answers_for_another_shard_or_dies_gives_no_result(
    job: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file would replace that of the other one; the answer to the turn before is not taken for that to this one."""
    request = Request(load_workload(Path(job.directory)), (job.requested,), Plan())
    assert job.validity is not None
    with divided(request, job.validity, 3, lambda event: None, lambda exhibit: None) as shards:
        first, second = shards.plan.shards
        honest = shards.judge(first)
        assert honest.shard.number == 0
        with monkeypatch.context() as patch, pytest.raises(WorkerError, match="for another shard than number 1"):
            patch.setattr(shards.worker, "call", lambda name, shard, result: honest)
            shards.judge(second)
        os.kill(shards.worker._worker.process.pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="SIGKILL"):
            shards.judge(second)


def test_the_packages_that_decide_what_a_shard_holds_exist() -> None:
    """One that is renamed must not drop out of the checksum."""
    suite = Path(judgement.__file__).parent.parent
    assert all((suite / name / "__init__.py").is_file() for name in judgement.JUDGING)


def test_names_contents_and_number_of_files_all_count(tmp_path: Path) -> None:
    """Where the directory is does not."""
    found = []
    for number, files in enumerate(("a1 z1", "a1 z1", "a2 z1", "b1 z1", "z1")):
        (tmp_path / str(number)).mkdir()
        for name, text in files.split():
            (tmp_path / str(number) / name).write_text(text)
        found.append(files_sha256(tmp_path / str(number), (tmp_path / str(number)).iterdir()))
    assert found[0] == found[1]
    assert len(set(found)) == 4
