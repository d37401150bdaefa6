"""Read and preprocess items ahead of the model: in threads, in order, with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, TypeVar

from modelzoo.machine.linux import leave_bound_cpu

T = TypeVar("T")

ITEMS_PER_THREAD = 4
"""Items that each thread prepares before the model continues: enough to balance large and small pictures."""


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


def padded(items: Sequence[T], size: int) -> list[T]:
    """``items`` with the last one repeated up to ``size``."""
    return [*items, *[items[-1]] * (size - len(items))]
