"""Workers that judge shards, and one that merges them: the judgement of one pass, to the last digit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toy_workloads import numpy_classifier, numpy_setting
from validity import toys

from modelzoo.errors import InputError, WorkerError
from modelzoo.frozen import replace
from modelzoo.measure.jobs import Request, divided, validate
from modelzoo.plan import Plan
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.fleet import ShardResult
from modelzoo.records.validity import ValidityRequest

PICTURES = 7


@pytest.fixture
def requested(tmp_path: Path, numpy_engine: None) -> Iterator[tuple[Request, ValidityRequest]]:
    """bf16 by the numpy engine on seven pictures, in batches of two."""
    (tmp_path / "linear").mkdir()
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


def test_data_that_cannot_be_judged_is_an_error_before_anything_is_loaded(
    requested: tuple[Request, ValidityRequest],
) -> None:
    """As for a whole data set."""
    request, validity = requested
    missing = replace(validity, data=f"{validity.data}/missing")
    with pytest.raises(InputError, match="no such file or directory"), divided(request, missing, 2, nothing, nothing):
        pass


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
