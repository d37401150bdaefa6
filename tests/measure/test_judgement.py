"""What a worker reports of a judgement, by an engine that is not torch; workers that judge shards, and one that merges
them: the judgement of one pass, to the last digit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runs import changed
from toy_workloads import NUMPY_ENGINE, numpy_classifier, numpy_setting
from validity import toys

from modelzoo.engines import create_engine
from modelzoo.errors import EnvironmentProblem, WorkerError
from modelzoo.files import files_sha256
from modelzoo.frozen import replace
from modelzoo.measure import judgement
from modelzoo.measure.jobs import Request, divided, validate
from modelzoo.measure.judgement import Judging
from modelzoo.plan import Plan
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.fleet import ShardResult
from modelzoo.records.protocol import Assignment, Message, Progress
from modelzoo.records.run import Prepared
from modelzoo.records.validity import Reason, ReasonKind, ValidityRequest, ValidityVerdict, WorstLayer
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.workload import Workload


def job_for(work: Workload) -> Assignment:
    """The job that judges bf16 on three crops."""
    requested = numpy_setting(work).replace(precision="bf16")
    setting = create_engine(NUMPY_ENGINE).resolve(requested, batch=work.batch, threads=1)
    weights = Weights(WeightsKind.PATH, "weights.npz", requested.weights, "0" * 64)
    return Assignment(str(work.directory), requested, Prepared(setting, weights), 0, validity=ValidityRequest(limit=3))


def test_a_judgement_records_both_models_and_what_identifies_the_work(tmp_path: Path) -> None:
    """Settings and proof of both sides, versions, machine and the workload's digest; exhibits and progress go out.

    bf16, imitated by cutting off mantissa bits, agrees with fp32, but nothing says what its rounding may do.
    """
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
    assert [message.name for message in sent if isinstance(message, Exhibit)] == ["top5.csv"]


def test_a_worker_that_would_judge_another_setting_fails(tmp_path: Path) -> None:
    """Settings are resolved once, here too."""
    job = job_for(numpy_classifier(tmp_path))
    other = changed(job, setting=replace(job.setting, batch=7))
    with pytest.raises(EnvironmentProblem, match="with batch 2, but 7 was decided"):
        Judging(other, print)


def test_an_audit_that_fails_does_not_lose_the_judgement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the reason why there is no evidence.

    The tested model is audited once, after the judgement, which is not VALID here, so with replays; the reference also
    before it.
    """
    replays: list[object] = []

    def failing(*args: object, **options: object) -> None:
        replays.append(options["replay"])
        raise RuntimeError("no profiler\nat all")

    monkeypatch.setattr("engines.fake_engine.FakeModel.audit", failing)
    report = Judging(job_for(numpy_classifier(tmp_path)), print).judge()
    assert report.validity.counts["crops"] == 3
    assert report.tested.observed.evidence_problem == "the audit failed: RuntimeError: no profiler"
    assert replays == [False, True, True]


PICTURES = 7


@pytest.fixture
def requested(tmp_path: Path, numpy_engine: None) -> Iterator[tuple[Request, ValidityRequest]]:
    """bf16 by the numpy engine on seven pictures, in batches of two."""
    work = numpy_classifier(tmp_path / "linear")
    toys.classification(tmp_path / "pictures", PICTURES)
    for folder in sorted((tmp_path / "pictures").iterdir()):
        folder.rename(folder.with_name(folder.name.replace("c", "class ")))
    setting = numpy_setting(work).replace(precision="bf16")
    yield Request(work, (setting,), Plan()), ValidityRequest(data=str(tmp_path / "pictures"))


def nothing(*args: Any) -> None:
    """Ignore it."""


def test_merged_shards_give_the_judgement_of_one_process(requested: tuple[Request, ValidityRequest]) -> None:
    """The same record, the same files; shards end between batches, and each is proven."""
    written: dict[str, list[Exhibit]] = {"whole": [], "shards": []}
    whole = validate(*requested, nothing, written["whole"].append)
    with divided(*requested, 3, nothing, written["shards"].append) as shards:
        assert [(each.start, each.stop) for each in shards.plan.shards] == [(0, 4), (4, 7)]
        results = [shards.judge(shard) for shard in reversed(shards.plan.shards)]
        assert shards.content(shards.plan.shards[0]) == results[1].content
        validity = shards.conclude(results)
    assert validity == whole.validity
    assert validity.counts == {"pictures": PICTURES}
    assert written["shards"] == written["whole"]
    assert results[0].by == results[1].by
    assert (results[0].by.tested.observed.canary_verdict, results[0].by.provenance.engine) == (
        whole.tested.observed.canary_verdict,
        whole.provenance.engine,
    )


def test_an_answer_for_another_shard_is_no_result(
    requested: tuple[Request, ValidityRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file would replace that of the other one."""
    with divided(*requested, 3, nothing, nothing) as shards:
        first, second = shards.plan.shards
        honest = shards.judge(first)
        monkeypatch.setattr(shards.worker, "call", lambda name, shard, result: honest)
        with pytest.raises(WorkerError, match="the worker answered for another shard than number 1"):
            shards.judge(second)


def test_a_worker_that_dies_is_an_error_and_no_result(requested: tuple[Request, ValidityRequest]) -> None:
    """The answer to the turn before is not taken for that to this one."""
    with divided(*requested, 2, nothing, nothing) as shards:
        first: ShardResult = shards.judge(shards.plan.shards[0])
        assert first.shard.number == 0
        os.kill(shards.worker.pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="SIGKILL"):
            shards.judge(shards.plan.shards[1])


def test_shards_depend_on_the_code_that_judges_and_on_every_file_of_the_workload(
    requested: tuple[Request, ValidityRequest],
) -> None:
    """A module that the workload imports counts as well, and so do the sources of the suite."""
    request, validity = requested
    identities = []
    for text in ("FACTOR = 1", "FACTOR = 2"):
        (request.workload.directory / "factors.py").write_text(text)
        with divided(request, validity, 3, nothing, nothing) as shards:
            identities.append([each.identity for each in shards.plan.shards])
            facts = shards.plan.facts
    assert not set(identities[0]) & set(identities[1])
    assert len(facts["source code of modelzoo"]) == 12
    assert "files beside the weights" not in facts


def test_the_packages_that_decide_what_a_shard_holds_exist() -> None:
    """One that is renamed must not drop out of the checksum."""
    suite = Path(judgement.__file__).parent.parent
    assert all((suite / name / "__init__.py").is_file() for name in judgement.JUDGING)


def test_names_contents_and_number_of_files_all_count(tmp_path: Path) -> None:
    """Where the directory is does not."""
    contents = {"a": "1", "z": "1"}
    found = []
    for number, changes in enumerate(({}, {}, {"a": "2"}, {"b": "1"})):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in {**contents, **changes}.items():
            (folder / name).write_text(text)
        found.append(files_sha256(folder, folder.iterdir()))
    (folder / "a").unlink()
    found.append(files_sha256(folder, folder.iterdir()))
    assert found[0] == found[1]
    assert len(set(found)) == 4
