"""The driver: shards that merge into the result of one pass, what it asks of a task, and wrong calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from validity import toys
from validity.toys import bind, judge

from modelzoo.errors import UsageError
from modelzoo.records import codec
from modelzoo.records.partial import PartialResult, Row
from modelzoo.validity import Predictor, ValidityRequest, judging
from modelzoo.validity.judging import compare, conclude, merge


def stored(result: PartialResult) -> PartialResult:
    """A result that was written to JSON and read again."""
    return codec.decode(PartialResult, json.loads(codec.encode_json(result)))


@pytest.mark.parametrize("kind", ["classification", "detection", "answers"])
def test_shards_merge_into_the_result_of_one_pass(kind: str, tmp_path: Path) -> None:
    """Stored, in any order and of unequal size: the same record, and the same judgement to the last bit."""
    declaration, reference, tested, request = toys.declared(kind, tmp_path, 9)
    task = bind("toy", declaration, reference, tested, request)
    every = list(range(len(task.items)))
    whole = compare(task, reference, tested)
    shards = [compare(task, reference, tested, indices) for indices in (every[5:], every[:2], every[2:5])]
    assert stored(whole) == whole
    merged = merge([stored(shard) for shard in shards])
    assert merged == whole
    validity = conclude(task, merged)
    assert validity == conclude(task, whole) == judge("toy", declaration, reference, tested, request)
    assert len(validity.figures) > 5
    assert validity.changes
    assert validity.deciding_change
    assert 0 < (validity.tested or 0) < 1
    if kind == "detection":
        assert 0 < validity.figures["mask_ap_tested"] < 1


def test_only_the_first_shard_compares_the_layers(tmp_path: Path) -> None:
    """They are compared on the first items, whoever holds these."""
    declaration, reference, tested, request = toys.classification(tmp_path, 6)
    task = bind("toy", declaration, reference, tested, request)
    assert compare(task, reference, tested, [0, 1]).layers
    assert not compare(task, reference, tested, [2, 3]).layers


def test_what_does_not_belong_together_is_not_merged() -> None:
    """An item in two shards, results of different tasks, and nothing at all."""
    shard = PartialResult("classification", (Row(0, "", {}), Row(1, "", {})))
    for results, message in (
        ((shard, shard), "more than one shard"),
        ((shard, PartialResult("answers")), "2 tasks"),
        ((), "0 tasks"),
    ):
        with pytest.raises(ValueError, match=message):
            merge(results)


def test_csv_files_come_in_chunks_that_hold_every_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message between processes stays small however large the data set is."""
    monkeypatch.setattr(judging, "CSV_CHUNK", 3)
    recorder = toys.Recorder()
    judge("toy", *toys.classification(tmp_path, 8), exhibit=recorder)
    assert [len(each.csv.rows) for each in recorder.exhibits] == [15, 15, 10]
    assert len({row[0] for row in recorder.rows("top5.csv")}) == 8


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (object(), "workload toy: judge must return a task of modelzoo.validity, not object"),
        (None, "workload toy does not say how its predictions are judged: set judge in workload.py"),
    ],
)
def test_a_judge_that_returns_no_task_is_refused(task: Any, message: str) -> None:
    """An error of the workload's author, who is told what to add."""
    predictor = Predictor("fp32", lambda x: x)
    with pytest.raises(UsageError, match=f"^{message}$"):
        judge("toy", task, predictor, predictor, ValidityRequest())
