"""Work that is done ahead of the model: decode and prepare in threads, in order, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, Callable, TypeVar

T = TypeVar("T")

PER_WORKER = 4
"""Items that each thread prepares before the model goes on: enough to even out large and small pictures."""


def ahead(items: Iterable[Any], prepare: Callable[[Any], T], batch: int, workers: int) -> Iterator[T]:
    """Yield ``prepare(item)`` in order, prepared in ``workers`` threads, several batches at a time.

    The caller's model waits meanwhile. At the same time they would be slower: the model has a thread on every
    core, and one that shares its core holds all others up (ResNet50 on two cores: half the speed).
    Threads suffice: Pillow's decoding and resizing release the interpreter's lock. An exception of
    ``prepare`` is raised where its item would have come.
    """
    chunk = batch * -(-PER_WORKER * workers // batch)
    with ThreadPoolExecutor(workers, thread_name_prefix="prepare", initializer=_without_a_team) as pool:
        remaining = iter(items)
        while waiting := [pool.submit(prepare, item) for item in islice(remaining, chunk)]:
            wait(waiting)
            waiting.reverse()
            while waiting:
                yield waiting.pop().result()


def threads() -> int:
    """As many as the model has: they take turns on the same cores."""
    import torch

    return int(torch.get_num_threads())


def _without_a_team() -> None:
    """Keep torch's operators in this preparing thread from starting an OpenMP team of its own.

    With more OpenMP threads than cores alive, even idle ones, libgomp stops spinning at its barriers, and the
    model runs at half its speed.
    """
    import threadpoolctl
    import torch

    # A thread's first call into torch sets its number of threads; afterwards ours stays.
    torch.get_num_threads()
    threadpoolctl.threadpool_limits(1, user_api="openmp")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Group ``items`` by ``size``; the last group may be smaller."""
    group: list[T] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def padded(prepared: Sequence[T], size: int) -> list[T]:
    """Repeat the last item up to ``size``, so that traced and compiled models see one shape only."""
    return [*prepared, *[prepared[-1]] * (size - len(prepared))]
