"""The driver: shards that merge into the result of one pass, and items that are prepared ahead of the model."""

from __future__ import annotations

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from validity import toys
from validity.toys import bind, judge

from modelzoo.errors import InputError, UsageError
from modelzoo.frozen import replace
from modelzoo.records import codec
from modelzoo.records.fleet import ShardPlan
from modelzoo.records.partial import LayerError, PartialResult, Row
from modelzoo.records.validity import Check, Reason, ReasonKind, WorstLayer
from modelzoo.validity import Predictor, Task, ValidityRequest, judging
from modelzoo.validity.checks import LIMITS, check_value
from modelzoo.validity.judging import compare, conclude, decide, merge, of_few_clusters, prefetch
from modelzoo.validity.layers import drift_check, finite_check, layer_checks


def stored(result: PartialResult) -> PartialResult:
    """A result that was written to JSON and read again."""
    return codec.decode(PartialResult, json.loads(codec.encode_json(result)))


@pytest.mark.parametrize("kind", ["classification", "detection", "answers"])
def test_shards_merge_into_the_result_of_one_pass(kind: str, tmp_path: Path) -> None:
    """Stored, in any order and of unequal size: the same record, and the same judgement to the last bit."""
    declaration, reference, tested, request = toys.declared(kind, tmp_path, 9)
    task = bind("toy", declaration, tested, request)
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
    task = bind("toy", declaration, tested, request)
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
    predictor = Predictor(lambda x: x)
    with pytest.raises(UsageError, match=f"^{message}$"):
        judge("toy", task, predictor, predictor, ValidityRequest())


FACTS = {"torch": "2.10.0"}


def task_of(kind: str, folder: Path, count: int = 9) -> Task:
    """The toy task of this kind."""
    declaration, _, tested, request = toys.declared(kind, folder, count)
    return bind("toy", declaration, tested, request)


def identities(plan: ShardPlan) -> list[str]:
    """What identifies the shards."""
    return [shard.identity for shard in plan.shards]


@pytest.mark.parametrize("kind", ["classification", "detection", "answers"])
def test_shards_hold_every_item_once_and_end_between_batches(kind: str, tmp_path: Path) -> None:
    """In order, with at least the size that was asked for; batches of questions may not end with every fourth one."""
    task = task_of(kind, tmp_path / "data")
    for size in (1, 3, 100):
        found = judging.plan_shards(task, FACTS, size).shards
        assert [index for shard in found for index in range(shard.start, shard.stop)] == list(range(len(task.items)))
        assert [shard.number for shard in found] == list(range(len(found)))
        assert all(shard.items >= size for shard in found[:-1])
        assert all(shard.items for shard in found)
        for shard in found[:-1]:
            rows = sum(len(task.prepare(item).rows) for item in task.items[: shard.stop])
            assert rows % task.context.request.batch == 0


def test_the_plan_is_the_same_where_the_data_is_elsewhere(tmp_path: Path) -> None:
    """Hosts need not keep it in the same directory."""
    first = judging.plan_shards(task_of("detection", tmp_path / "one"), FACTS, 2)
    assert judging.plan_shards(task_of("detection", tmp_path / "two"), FACTS, 2) == first


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


@pytest.mark.parametrize(("batch", "workers", "chunk"), [(1, 2, 8), (3, 2, 9), (32, 4, 32)])
def test_no_more_than_a_chunk_is_prepared_ahead(batch: int, workers: int, chunk: int) -> None:
    """Memory is bounded: whole batches, at least four items per thread, and nothing while the caller works."""
    started: list[int] = []
    for place, _ in enumerate(prefetch(range(100), started.append, batch, workers)):
        assert len(started) == min(100, chunk * (place // chunk + 1))


def test_an_error_is_raised_when_its_item_is_due() -> None:
    """Items before it are delivered in their order, whichever is finished first, and the threads end."""
    release, seen = threading.Event(), []

    def prepare(item: int) -> int:
        release.wait(5) if item == 0 else release.set()
        if item == 3:
            raise ValueError("item 3")
        return item

    with pytest.raises(ValueError, match="item 3"):
        for value in prefetch(range(100), prepare, 2, 2):
            seen.append(value)
    assert seen == [0, 1, 2]
    assert not [t for t in threading.enumerate() if t.name.startswith("prepare")]


def test_preparing_threads_leave_the_cpu_that_the_caller_is_bound_to(bound: frozenset[int]) -> None:
    """Also after an OpenMP library has bound one of them in its first item."""

    def prepare(item: int) -> set[int]:
        found = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(bound)})
        return found

    assert list(prefetch(range(4), prepare, 1, 1)) == [bound] * 4
    assert os.sched_getaffinity(0) == {min(bound)}, "the caller stays where it is bound"


def test_preparing_threads_start_no_openmp_team() -> None:
    """torch's operators in them run on one thread; the caller's number is left alone."""
    before = torch.get_num_threads()
    torch.set_num_threads(before)  # as a worker does: from then on torch gives every new thread so many
    assert list(prefetch(range(3), lambda _: torch.get_num_threads(), 1, 2)) == [1, 1, 1]
    assert torch.get_num_threads() == before


BROKEN_REFERENCE = Reason(ReasonKind.REFERENCE_NOT_FINITE)
GOOD = check_value("accuracy", 1.0, {})
BAD = check_value("accuracy", 0.5, {})
LAYER = LayerError("conv", "Conv2d", 0.004, 0.0, 0.001, 0.004, 0.0, True)
BROKEN = replace(LAYER, name="broken", error=None, scale=None, finite=False)
UNKNOWN = replace(LAYER, name="unknown", error=0.5, baseline=None)
OPEN = replace(check_value("accuracy", 0.995, {}), passed=False, undecided=True, bound=0.97, more_items=1117)


TENSOR = check_value("tensor_error", 1.0, {})
DATA, NUMBERS = None, ReasonKind.BUILT_IN_DATA


@pytest.mark.parametrize(
    ("checks", "broken", "numbers", "word", "code"),
    [
        ([GOOD], None, DATA, "VALID", 0),
        ([GOOD, BAD], None, DATA, "NOT VALID", 1),
        ([GOOD, OPEN], None, DATA, "INCONCLUSIVE", 2),
        ([BAD, OPEN], None, DATA, "NOT VALID", 1),
        ([GOOD], BROKEN_REFERENCE, DATA, "CANNOT JUDGE", 2),
        ([GOOD, finite_check(1, ())], None, DATA, "NOT VALID", 1),
        ([GOOD, finite_check(1, ())], BROKEN_REFERENCE, DATA, "CANNOT JUDGE", 2),
        ([GOOD, Check("in_common", 0.0, ">=", 1.0, False, None)], None, DATA, "NOT VALID", 1),
        ([check_value("published", 5.0, {}), BAD], None, DATA, "CANNOT JUDGE", 2),
        # Of built-in inputs and random weights, what is undecided about accuracy changes nothing; nothing is VALID.
        ([TENSOR], None, NUMBERS, "NUMERIC ONLY", 0),
        ([check_value("tensor_error", 9.0, {})], None, NUMBERS, "NOT VALID", 1),
        ([finite_check(3, ())], None, NUMBERS, "NOT VALID", 1),
        ([TENSOR], BROKEN_REFERENCE, NUMBERS, "CANNOT JUDGE", 2),
        ([OPEN, check_value("layer_drift", 1.0, {})], None, NUMBERS, "NUMERIC ONLY", 0),
        ([BAD, check_value("layer_drift", 1.0, {})], None, NUMBERS, "NOT VALID", 1),
        ([drift_check("tensor_error", (), {})], None, NUMBERS, "INCONCLUSIVE", 2),
    ],
)
def test_checks_decide(
    checks: list[Check], broken: Reason | None, numbers: ReasonKind | None, word: str, code: int
) -> None:
    """VALID takes every check; a broken reference, NaN and what is not certain are never VALID."""
    verdict, exit_code, reason = decide(checks, broken, items=100, clusters=100, numbers=numbers)
    assert (verdict, exit_code, reason is None) == (word, code, word == "VALID")


def test_an_inconclusive_verdict_says_what_would_decide() -> None:
    """How many more items; on few pictures, how many a verdict requires; one picture is never enough."""

    def reason(check: Check, clusters: int = 100) -> Reason | None:
        return decide([check], None, items=100, clusters=clusters, numbers=None)[2]

    assert reason(OPEN) == Reason(ReasonKind.UNDECIDED_CHECKS, None, 1117)
    assert reason(replace(OPEN, more_items=None)) == Reason(ReasonKind.UNDECIDED_CHECKS)
    assert reason(OPEN, clusters=12) == Reason(ReasonKind.FEW_CLUSTERS, 20, 1117)
    assert decide([TENSOR], None, items=1, clusters=1, numbers=NUMBERS)[:2] == ("INCONCLUSIVE", 2)


def test_few_clusters_decide_nothing_but_whether_the_reference_is_broken() -> None:
    """However good or bad 19 pictures look."""
    published = check_value("published", 5.0, {})
    first, second, third = of_few_clusters([GOOD, BAD, published], 19, 19)
    assert (first.undecided, first.would_pass_at, first.more_items) == (True, None, 1)
    assert (second.undecided, third) == (True, published)


def test_a_layer_with_nan_never_passes() -> None:
    """It is named as the first, and its error has no value whatever the tolerance."""
    check = finite_check(0, (LAYER, BROKEN))
    assert not check.passed
    assert check.about == WorstLayer("broken")
    tolerant = layer_checks((LAYER, BROKEN), {"layer_drift": 1e9}, numeric_only=False)
    for found in (tolerant[1], drift_check("tensor_error", (LAYER, BROKEN), {})):
        assert (found.seen, found.passed, found.undecided) == (None, False, False)
    assert all(found.passed for found in layer_checks((LAYER,), {}, numeric_only=False))


@pytest.mark.parametrize("layers", [(), (UNKNOWN,), (LAYER, UNKNOWN)])
def test_without_a_baseline_numbers_are_not_judged(layers: tuple[LayerError, ...]) -> None:
    """Where numbers are all that is judged: undecided. On the user's data those layers are left out."""
    for found in (drift_check("tensor_error", layers, {}), layer_checks(layers, {}, numeric_only=True)[-1]):
        assert (found.passed, found.undecided) == (False, True)
        assert (found.about.name, found.about.explained) == (layers[-1].name if layers else None, None)
    assert all(found.passed for found in layer_checks(layers, {}, numeric_only=False))
    assert not drift_check("tensor_error", (*layers, replace(LAYER, error=0.1)), {}).undecided


@given(st.sampled_from(sorted(LIMITS)), st.floats(1e-6, 1e6))
def test_the_tolerance_that_would_have_passed_passes(name: str, seen: float) -> None:
    """Giving would_pass_at back as --tolerance makes the check pass."""
    first = check_value(name, seen, {})
    second = check_value(name, seen, {name: first.would_pass_at})
    assert (second.passed, second.required, second.is_own) == (True, first.would_pass_at, True)


@given(st.sampled_from(sorted(LIMITS)), st.sampled_from([None, math.nan, math.inf]))
def test_nothing_and_nan_pass_no_tolerance(name: str, seen: float | None) -> None:
    """A value that could not be computed never passes."""
    assert not check_value(name, seen, {name: -1e9}).passed
    assert not check_value(name, seen, {name: 1e9}).passed
