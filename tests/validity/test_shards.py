"""How a data set is divided: the same on every host, between batches, and other shards for other data."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from validity import toys
from validity.toys import bind

from modelzoo.errors import InputError, UsageError
from modelzoo.frozen import replace
from modelzoo.records.fleet import ShardPlan
from modelzoo.validity import ScoredTask, Task, TaskContext, ValidityRequest, judging

FACTS = {"torch": "2.10.0"}


def task_of(kind: str, folder: Path, count: int = 9) -> Task:
    """The toy task of this kind."""
    declaration, reference, tested, request = toys.declared(kind, folder, count)
    return bind("toy", declaration, reference, tested, request)


def identities(plan: ShardPlan) -> list[str]:
    """What identifies the shards."""
    return [shard.identity for shard in plan.shards]


@pytest.mark.parametrize("kind", ["classification", "detection", "answers"])
def test_shards_hold_every_item_once_and_end_between_batches(kind: str, tmp_path: Path) -> None:
    """In order, none is empty, and all but the last have at least the size that was asked for.

    A question may have several rows, so that its batches do not end with every fourth question.
    """
    task = task_of(kind, tmp_path / "data")
    for size in (1, 3, 100):
        found = judging.plan_shards(task, FACTS, size).shards
        assert [index for shard in found for index in range(shard.start, shard.stop)] == list(range(len(task.items)))
        assert [shard.number for shard in found] == list(range(len(found)))
        assert all(shard.items >= size for shard in found[:-1])
        assert all(shard.items for shard in found)
        for shard in found[:-1]:
            assert sum(len(task.prepare(item).rows) for item in task.items[: shard.stop]) % task.context.request.batch == 0


class Numbers(ScoredTask):
    """Items that cost nothing."""

    def __init__(self, count: int) -> None:
        self.count = count

    def read(self, request: ValidityRequest) -> list[int]:
        return list(range(self.count))


@pytest.mark.parametrize(("count", "items"), [(9, 4), (400, 4), (401, 5)])
def test_a_shard_is_a_hundredth_of_the_data(count: int, items: int) -> None:
    """But four items at least; whole batches may make it larger."""
    task = Numbers(count).bind(TaskContext("toy", ValidityRequest(batch=2)))
    assert judging.plan_shards(task, FACTS).shards[0].items == math.ceil(items / 2) * 2


def test_the_plan_is_the_same_where_the_data_is_elsewhere(tmp_path: Path) -> None:
    """Hosts need not keep it in the same directory."""
    first = judging.plan_shards(task_of("detection", tmp_path / "one"), FACTS, 2)
    declaration, reference, tested, request = toys.detection(tmp_path / "two", 9)
    assert judging.plan_shards(bind("toy", declaration, reference, tested, request), FACTS, 2) == first


def test_whatever_changes_predictions_changes_every_identity(tmp_path: Path) -> None:
    """Facts, annotations, items; but not the size of the shards, as long as they have the same items."""
    folder = tmp_path / "one"
    task = task_of("detection", folder, 8)
    plan = judging.plan_shards(task, FACTS, 2)
    assert not set(identities(plan)) & set(identities(judging.plan_shards(task, {"torch": "2.9.1"}, 2)))
    assert identities(judging.plan_shards(task, FACTS, 4)) != identities(plan)
    assert identities(judging.plan_shards(task, FACTS, 7))[0] not in identities(plan)
    annotations = folder / "instances_val.json"
    annotations.write_text(annotations.read_text() + " ")
    assert not set(identities(plan)) & set(identities(judging.plan_shards(task, FACTS, 2)))
    fewer = task_of("classification", tmp_path / "pictures", 6)
    everything = judging.plan_shards(fewer, FACTS, 2)
    fewer.items = [*fewer.items[:-1], replace(fewer.items[-1], name="another")]
    assert not set(identities(everything)) & set(identities(judging.plan_shards(fewer, FACTS, 2)))


def test_the_contents_of_pictures_are_looked_at(tmp_path: Path) -> None:
    """A finished shard is used again only if its files are the same; questions have none."""
    task = task_of("classification", tmp_path / "data", 4)
    (shard,) = judging.plan_shards(task, FACTS).shards
    before = judging.shard_content(task, shard)
    assert before == judging.shard_content(task, shard)
    path = task.file_of(task.items[0])
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert judging.shard_content(task, shard) != before
    questions = task_of("answers", tmp_path)
    assert judging.shard_content(questions, judging.plan_shards(questions, FACTS).shards[0]) == ""


def test_wrong_sizes_and_missing_files_are_errors(tmp_path: Path) -> None:
    """With what to change."""
    task = task_of("classification", tmp_path / "data", 4)
    with pytest.raises(UsageError, match="--shard-items must be 1 or more, not 0"):
        judging.plan_shards(task, FACTS, 0)
    path = task.file_of(task.items[0])
    path.unlink()
    with pytest.raises(InputError, match="cannot be read: No such file"):
        judging.plan_shards(task, FACTS)
