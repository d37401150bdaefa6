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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from copy import copy
from itertools import chain, islice, pairwise
from typing import Any, TypeVar

import msgspec

from modelzoo.errors import InputError, UsageError
from modelzoo.files import file_sha256
from modelzoo.frozen import replace
from modelzoo.machine.linux import leave_bound_cpu
from modelzoo.records.exhibits import CsvRows, Exhibit
from modelzoo.records.fleet import Shard, ShardPlan
from modelzoo.records.partial import JudgedSoFar, PartialResult, PictureNote, Row
from modelzoo.records.validity import Check, Reason, ReasonKind, Validity, ValidityVerdict
from modelzoo.validity.checks import (
    MINIMUM_CLUSTERS,
    class_changes,
    class_checks,
    class_losses,
    items_of,
    limit,
    more_items,
    with_allowed_losses,
)
from modelzoo.validity.layers import compare_layers, drift_check, explained, finite_check, layer_checks, padded
from modelzoo.validity.layers import exhibits as layer_exhibits
from modelzoo.validity.rows import clusters
from modelzoo.validity.task import ExhibitSink, Predictor, PreparedItem, Progress, Task, TaskContext
from modelzoo.workload.inputs import large_pictures_allowed

T = TypeVar("T")
SHARDS = 100
"""How many shards a data set has at most, unless their size is given. A killed host loses one shard, and in the end the
hosts wait for the last one, so a shard should be a small part of the whole; each costs a file and a message."""
LEAST_ITEMS = 4
"""A shard of a small data set has so many items at least."""
ITEMS_PER_THREAD = 4
"""Items that each thread prepares before the model continues: enough to balance large and small pictures."""
CSV_CHUNK = 1000
"""Items per exhibit of the CSV file."""


def bind(task: Task | None, context: TaskContext) -> Task:
    """Return the task with the items of its data set.

    Raises:
        InputError: the data is missing, unreadable, empty or malformed.
        UsageError: no task of ``modelzoo.validity``.
    """
    request = context.request
    if task is None:
        raise UsageError(
            f"workload {context.workload} does not say how its predictions are judged: set judge in workload.py"
        )
    if not isinstance(task, Task):
        kind = type(task).__name__
        raise UsageError(f"workload {context.workload}: judge must return a task of modelzoo.validity, not {kind}")
    bound = copy(task)
    bound.context = context
    bound.items = bound.read(request)
    if len(bound.items) == 0:
        raise InputError(f"{request.data or 'the built-in data set'} holds no items")
    return bound


def compare(
    task: Task,
    reference: Predictor,
    tested: Predictor,
    indices: Sequence[int] | None = None,
    *,
    progress: Progress = lambda judged: None,
    exhibit: ExhibitSink = lambda exhibit: None,
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


def prefetch(items: Iterable[Any], prepare: Callable[[Any], T], batch: int, threads: int) -> Iterator[T]:
    """Yield ``prepare(item)`` in order, prepared by ``threads`` threads, several batches at a time.

    Preparation and model alternate; they do not overlap. The model runs one thread per core, and a thread that has
    to share its core delays all others (ResNet50 on two cores then runs at half its speed). Threads are sufficient
    because Pillow releases the interpreter lock while it decodes and resizes. An exception raised by ``prepare``
    is raised when its item is due.
    """

    def prepared(item: Any) -> T:
        leave_bound_cpu()
        return prepare(item)

    chunk = batch * -(-ITEMS_PER_THREAD * threads // batch)
    with ThreadPoolExecutor(threads, thread_name_prefix="prepare", initializer=limit_openmp_to_one_thread) as pool:
        remaining = iter(items)
        while pending := [pool.submit(prepared, item) for item in islice(remaining, chunk)]:
            wait(pending)
            pending.reverse()
            while pending:
                yield pending.pop().result()


def limit_openmp_to_one_thread() -> None:
    """Keep torch's operators in a preparing thread from starting OpenMP threads of their own.

    If more OpenMP threads than cores exist, even idle ones, libgomp stops spinning at its barriers, and the model
    runs at half its speed.
    """
    import threadpoolctl
    import torch

    # The first call into torch sets the thread's number of OpenMP threads, and later ones keep it.
    torch.get_num_threads()
    threadpoolctl.threadpool_limits(1, user_api="openmp")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Group ``items`` by ``size``; the last group may be smaller."""
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group


MINIMUM_ITEMS = 2
"""Items that any pass requires: one picture is never enough."""


def conclude(task: Task, result: PartialResult, exhibit: ExhibitSink = lambda exhibit: None) -> Validity:
    """Judge the results of all items: complete the checks, decide, and hand over the files that list the items."""
    name, columns = task.csv
    for chunk in batches(result.rows, CSV_CHUNK):
        if cells := tuple(chain.from_iterable(row.cells for row in chunk)):
            exhibit(Exhibit(name, csv=CsvRows(columns, cells)))
    for each in layer_exhibits(result.layers, task.context):
        exhibit(each)
    context, request, rows = task.context, task.context.request, result.rows
    random, tolerance = request.weights_are_random, request.tolerance
    groups, problem = len(set(clusters(rows))), task.reference_problem(rows)
    if result.unrepeatable is not None:
        problem = Reason(ReasonKind.REFERENCE_NOT_REPEATABLE, unrepeatable=result.unrepeatable)
    findings, classes = task.findings(rows), class_changes(rows, limit("class_loss", tolerance))
    figures, metric = findings.figures, task.metric
    reference = figures.get(f"{metric}_reference", 1.0 if metric in figures else None)
    tested = figures.get(f"{metric}_tested", figures.get(metric))
    numbers = ReasonKind.BUILT_IN_DATA if request.data is None else None
    checks = [finite_check(sum(not row.tested_finite for row in rows), result.layers)]
    if random:  # there is no quality that could change
        checks.append(drift_check("tensor_error", result.layers, tolerance))
        metric, reference, tested, numbers = "tensor_error", None, checks[-1].seen, ReasonKind.RANDOM_WEIGHTS
    else:
        in_common = task.in_common(rows)  # there is no tolerance for it
        checks.append(Check("in_common", float(in_common), ">=", 1.0, in_common, None))
        sampled = [*findings.checks, *class_checks(classes, tolerance)]
        checks += sampled if numbers or groups >= MINIMUM_CLUSTERS else of_few_clusters(sampled, groups, len(rows))
        checks += layer_checks(result.layers, tolerance, numeric_only=numbers is not None)
    verdict, exit_code, reason = decide(checks, problem, items=len(rows), clusters=groups, numbers=numbers)
    changes = [each for each in findings.changes if each is not None and not random]
    return Validity(
        workload=context.workload,
        task=task.name,
        metric=metric,
        reference=reference,
        tested=tested,
        verdict=verdict,
        exit_code=exit_code,
        item=task.item_name,
        items=len(rows),
        cluster=task.cluster_name or task.item_name,
        clusters=groups,
        labelled=task.labelled,
        small=request.data is None,
        reason=reason,
        checks=tuple(checks),
        changes=with_allowed_losses(changes, checks, metric),
        classes=None if random else class_losses(classes, limit("class_loss", tolerance)),
        shown=findings.shown,
        layers=explained(result.layers, tolerance) if request.explain else None,
        counts=task.counts(rows),
        figures={name: value for name, value in figures.items() if math.isfinite(value)},
        notes=result.notes,
        data_notes=tuple(task.data_notes),
        tested_name=context.tested_name,
    )


def of_few_clusters(checks: Sequence[Check], clusters: int, items: int) -> list[Check]:
    """The checks of a sample on fewer pictures or passages of the user's than a verdict requires.

    They are undecided, and no tolerance lets them pass; but the reference may be shown to be broken.
    """
    least = items_of(MINIMUM_CLUSTERS - clusters, clusters, items)

    def undecided(check: Check) -> Check:
        more = max(least, check.more_items or 0)
        return replace(check, passed=False, undecided=True, would_pass_at=None, more_items=more)

    return [each if each.name == "published" else undecided(each) for each in checks]


Decision = tuple[ValidityVerdict, int, Reason | None]
"""Verdict, exit code, reason."""


def decide(
    checks: Sequence[Check], problem: Reason | None, *, items: int, clusters: int, numbers: ReasonKind | None
) -> Decision:
    """Decide about predictions, or, with ``numbers``, about numbers alone: with random weights, or built-in inputs.

    A failed check of the tested model gives NOT VALID. VALID requires that all have passed; if some are undecided, the
    verdict is INCONCLUSIVE. A reference that is itself broken (NaN, not repeatable, nothing detected, far from the
    published quality) gives CANNOT JUDGE.

    Of numbers, an error beyond the expected rounding error is a fault, whatever the weights and inputs. If that error
    is unknown, the verdict is INCONCLUSIVE. The built-in inputs pass no check of quality, but a loss that is certain on
    them is a fault.

    Args:
        problem: why the reference cannot serve as one; ``None`` if it can.
        numbers: why numbers alone are judged; ``None`` if predictions are.
    """
    failed = {check.name for check in checks if not check.passed and not check.undecided}
    undecided = [check for check in checks if check.undecided]
    if problem is None and "published" in failed and "finite" not in failed:
        problem = Reason(ReasonKind.FAR_FROM_PUBLISHED)
    if problem is not None:
        return ValidityVerdict.CANNOT_JUDGE, 2, problem
    if failed:
        return ValidityVerdict.NOT_VALID, 1, Reason(ReasonKind.FAILED_CHECKS)
    if numbers is not None:
        if items < MINIMUM_ITEMS:
            return ValidityVerdict.INCONCLUSIVE, 2, Reason(ReasonKind.FEW_ITEMS, MINIMUM_ITEMS)
        if any(check.name in ("layer_drift", "tensor_error") for check in undecided):
            return ValidityVerdict.INCONCLUSIVE, 2, Reason(ReasonKind.UNKNOWN_ROUNDING)
        return ValidityVerdict.NUMERIC_ONLY, 0, Reason(numbers)
    if not undecided:
        return ValidityVerdict.VALID, 0, None
    few = clusters < MINIMUM_CLUSTERS
    kind = ReasonKind.FEW_CLUSTERS if few else ReasonKind.UNDECIDED_CHECKS
    reason = Reason(kind, MINIMUM_CLUSTERS if few else None, more_items(undecided))
    return ValidityVerdict.INCONCLUSIVE, 2, reason
