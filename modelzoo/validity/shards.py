"""Divide a data set into shards, and say what identifies each. The same on every host that has the same data."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Optional

import msgspec

from modelzoo.errors import UsageError
from modelzoo.files import file_sha256
from modelzoo.records.shards import Shard, ShardPlan
from modelzoo.validity.protocol import JudgingTask

SHARDS = 100
"""How many shards a data set has at most, unless their size is given. A killed host loses one shard, and in the end the
hosts wait for the last one, so a shard should be a small part of the whole; each costs a file and a message."""
LEAST_ITEMS = 4
"""A shard of a small data set has so many items at least."""


def plan(task: JudgingTask, facts: Mapping[str, str], size: Optional[int] = None) -> ShardPlan:
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
    items = _digest(*(task.identify(item) for item in task.items))
    # Not the size of the shards: a shard is identified by its first and last item.
    known = {**facts, "annotations": task.data_digest(), "items": f"{len(task.items)} ({items[:12]})"}
    common = _digest(msgspec.json.encode(sorted(known.items())).decode(), items)
    bounds = list(_bounds(task, size or max(LEAST_ITEMS, math.ceil(len(task.items) / SHARDS))))
    shards = tuple(
        Shard(number, start, stop, _digest(common, str(start), str(stop)))
        for number, (start, stop) in enumerate(zip(bounds, bounds[1:]))
    )
    return ShardPlan(known, task.item_name, shards)


def _bounds(task: JudgingTask, size: int) -> Iterator[int]:
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


def content(task: JudgingTask, shard: Shard) -> str:
    """Return the SHA-256 of the files that hold the items of ``shard``; empty if they have none.

    Raises:
        OSError: a file cannot be read.
    """
    paths = [task.file_of(task.items[index]) for index in range(shard.start, shard.stop)]
    files = [path for path in paths if path is not None]
    if not files:
        return ""
    whole = hashlib.sha256()
    for path in files:
        whole.update(file_sha256(path).encode())
    return whole.hexdigest()


def _digest(*texts: str) -> str:
    """SHA-256 of texts, which no other sequence of texts has."""
    return hashlib.sha256(msgspec.json.encode(texts)).hexdigest()
