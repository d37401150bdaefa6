"""Judge a setting: run both models over the items of a data set, compare them, and conclude.

``bind`` a task to its data set, ``compare`` both models on its items, and ``conclude``. A data set may also be judged
in shards: ``compare`` each shard, store the ``PartialResult``s, ``merge`` them and ``conclude``. Merging gives exactly
the result of one pass over all items, if the shards are cut between batches; otherwise a kernel may round an item
differently in another batch. Shards are the same on every host that has the same data.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import msgspec

from modelzoo.errors import InputError, UsageError
from modelzoo.files import file_sha256
from modelzoo.records.exhibits import CsvRows, Exhibit
from modelzoo.records.fleet import Shard, ShardPlan
from modelzoo.records.partial import JudgedSoFar, PartialResult, PictureNote, Row
from modelzoo.records.validity import Validity
from modelzoo.validity import verdict
from modelzoo.validity.checks import check_tolerances
from modelzoo.validity.layers import compare_layers
from modelzoo.validity.layers import exhibits as layer_exhibits
from modelzoo.validity.prefetch import batches, padded, prefetch
from modelzoo.validity.protocol import (
    ExhibitSink,
    Predictor,
    PreparedItem,
    Progress,
    TaskContext,
    no_exhibit,
    no_progress,
)
from modelzoo.validity.task import Task
from modelzoo.workload.inputs import large_pictures_allowed

SHARDS = 100
"""How many shards a data set has at most, unless their size is given. A killed host loses one shard, and in the end the
hosts wait for the last one, so a shard should be a small part of the whole; each costs a file and a message."""
LEAST_ITEMS = 4
"""A shard of a small data set has so many items at least."""
CSV_CHUNK = 1000
"""Items per exhibit of the CSV file."""


def bind(task: Task | None, context: TaskContext) -> Task:
    """Return the task with the items of its data set.

    Raises:
        InputError: the data is missing, unreadable, empty or malformed.
        UsageError: no task of ``modelzoo.validity``, an unknown tolerance, a limit or batch below 1.
    """
    request = context.request
    check_tolerances(request.tolerance)
    for name, value in (("limit", request.limit), ("batch", request.batch)):
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be 1 or more, not {value}")
    if task is None:
        raise UsageError(
            f"workload {context.workload} does not say how its predictions are judged: set judge in workload.py"
        )
    if not isinstance(task, Task):
        kind = type(task).__name__
        raise UsageError(f"workload {context.workload}: judge must return a task of modelzoo.validity, not {kind}")
    bound = task.bind(context)
    if len(bound.items) == 0:
        raise InputError(f"{request.data or 'the built-in data set'} holds no items")
    return bound


def compare(
    task: Task,
    reference: Predictor,
    tested: Predictor,
    indices: Sequence[int] | None = None,
    *,
    progress: Progress = no_progress,
    exhibit: ExhibitSink = no_exhibit,
) -> PartialResult:
    """Compare both models' predictions for the items at ``indices`` (default: all).

    The shard that holds the first item also compares the layers. Every batch has the same shape, the last one
    padded, so that traced and compiled models see one shape only.
    """
    chosen = range(len(task.items)) if indices is None else indices
    rows: list[Row] = []
    notes: set[PictureNote] = set()
    sums = [0.0, 0.0]
    metric = task.metrics[0]
    with large_pictures_allowed():
        layers, unrepeatable = compare_layers(task, reference, tested) if 0 in chosen else ((), None)
        for done in _compared_batches(task, reference, tested, chosen, exhibit):
            for prepared, row in done:
                rows.append(row)
                notes.update(prepared.notes)
                sums = [a + b for a, (b,) in zip(sums, metric.sides([row]))]
            progress(JudgedSoFar(len(rows), len(chosen), metric.name, metric.so_far(sums, len(rows))))
    return PartialResult(task.name, tuple(rows), layers, unrepeatable, tuple(sorted(notes)))


def _compared_batches(
    task: Task, reference: Predictor, tested: Predictor, indices: Sequence[int], exhibit: ExhibitSink
) -> Iterator[list[tuple[PreparedItem, Row]]]:
    """Run both models batch by batch; yield the items that each batch completed."""
    import torch

    batch = task.context.request.batch
    waiting: deque[tuple[int, PreparedItem]] = deque()
    predictions: tuple[deque[Any], deque[Any]] = (deque(), deque())

    def prepare(index: int) -> tuple[int, PreparedItem]:
        return index, task.prepare(task.items[index])

    def rows() -> Iterator[Any]:
        for index, prepared in prefetch(indices, prepare, batch, task.preparing_threads()):
            waiting.append((index, prepared))
            yield from prepared.rows

    for group in batches(rows(), batch):
        full = padded(group, batch)
        args = task.batch_arguments(full)
        for predictor, collected in zip((reference, tested), predictions):
            with torch.no_grad(), predictor.active():
                found = task.predictions(predictor.call(*args), full)
            if len(found) != len(full):
                count = f"{len(found)} predictions of {len(full)} rows"
                raise UsageError(f"task {task.name} makes {count}; make one of each")
            collected.extend(found[: len(group)])
        completed = []
        while waiting and len(waiting[0][1].rows) <= len(predictions[0]):
            index, prepared = waiting.popleft()
            pair = [[collected.popleft() for _ in prepared.rows] for collected in predictions]
            completed.append((prepared, task.compare(index, prepared, *pair)))
            if (picture := task.drawn(index, prepared, *pair)) is not None:
                exhibit(picture)
        if completed:
            yield completed


def merge(results: Sequence[PartialResult]) -> PartialResult:
    """Merge the results of shards, in any order, into that of one pass over all their items.

    Raises:
        ValueError: nothing to merge, results of different tasks, or an item that two shards hold.
    """
    tasks = {result.task for result in results}
    if len(tasks) != 1:
        raise ValueError(f"cannot merge the results of {len(tasks)} tasks")
    rows = sorted((row for result in results for row in result.rows), key=lambda row: row.index)
    if len({row.index for row in rows}) < len(rows):
        raise ValueError("an item is in more than one shard")
    return PartialResult(
        tasks.pop(),
        tuple(rows),
        layers=next((result.layers for result in results if result.layers), ()),
        unrepeatable=next((result.unrepeatable for result in results if result.unrepeatable), None),
        notes=tuple(sorted({note for result in results for note in result.notes})),
    )


def conclude(task: Task, result: PartialResult, exhibit: ExhibitSink = no_exhibit) -> Validity:
    """Judge the results of all items, and hand over the files that list them."""
    name, columns = task.csv
    for chunk in batches(result.rows, CSV_CHUNK):
        if cells := tuple(chain.from_iterable(row.cells for row in chunk)):
            exhibit(Exhibit(name, csv=CsvRows(columns, cells)))
    for each in layer_exhibits(result.layers, task.context):
        exhibit(each)
    return verdict.conclude(task, result)


def plan_shards(task: Task, facts: Mapping[str, str], size: int | None = None) -> ShardPlan:
    """Divide the items of ``task`` into shards.

    The size must not depend on the hosts: a call with other hosts uses the finished shards of the one before.

    Args:
        facts: what all predictions depend on besides the items, by name.
        size: items per shard; by default a hundredth of them. A shard may be larger, because it ends between two
            batches.

    Raises:
        UsageError: ``size`` is below 1.
        InputError: an item cannot be read.
    """
    if size is not None and size < 1:
        raise UsageError(f"--shard-items must be 1 or more, not {size}")
    items = _sha256_of(*(task.identify(item) for item in task.items))
    # Not the size of the shards: a shard is identified by its first and last item.
    known = {**facts, "annotations": task.data_digest(), "items": f"{len(task.items)} ({items[:12]})"}
    common = _sha256_of(msgspec.json.encode(sorted(known.items())).decode(), items)
    bounds = list(_starts(task, size or max(LEAST_ITEMS, math.ceil(len(task.items) / SHARDS))))
    shards = tuple(
        Shard(number, start, stop, _sha256_of(common, str(start), str(stop)))
        for number, (start, stop) in enumerate(pairwise(bounds))
    )
    return ShardPlan(known, task.item_name, shards)


def _starts(task: Task, size: int) -> Iterator[int]:
    """The indices at which shards begin, and the end.

    Batches are made of rows, and an item may have several. A cut where a batch is not full would give its last rows
    another batch than one pass over all items does, and a kernel may round them differently there.
    """
    batch, rows, start = task.context.request.batch, 0, 0
    yield 0
    for index, item in enumerate(task.items):
        if index - start >= size and rows % batch == 0:
            start = index
            yield index
        if batch > 1:  # with a batch of one row, every cut is between batches
            rows += 1 if task.one_row else len(task.prepare(item).rows)
    yield len(task.items)


def shard_content(task: Task, shard: Shard) -> str:
    """Return the SHA-256 of the files that hold the items of ``shard``; empty if they have none.

    Raises:
        OSError: a file cannot be read.
    """
    paths = [task.file_of(task.items[index]) for index in range(shard.start, shard.stop)]
    files = [path for path in paths if path is not None]
    return _sha256_of(*map(file_sha256, files)) if files else ""


def _sha256_of(*texts: str) -> str:
    """SHA-256 of texts, which no other sequence of texts has."""
    return hashlib.sha256(msgspec.json.encode(texts)).hexdigest()
