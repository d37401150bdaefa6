"""Work that runs ahead of the model: decode and prepare in threads, in order, with bounded memory."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, TypeVar

T = TypeVar("T")


def ahead(items: Iterable[Any], prepare: Callable[[Any], T], depth: int, workers: int = 2) -> Iterator[T]:
    """Yield ``prepare(item)`` in order while up to ``depth`` later items are prepared in ``workers`` threads.

    Threads suffice: Pillow's decoding and resizing release the interpreter's lock. An exception of
    ``prepare`` is raised where its item would have come.
    """
    waiting: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="prepare", initializer=_modest)
    try:
        for item in items:
            waiting.append(pool.submit(prepare, item))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        pool.shutdown(wait=True)


def _modest() -> None:
    """Keep a preparing thread out of the model's way: no OpenMP team of its own, and low priority.

    Both are per thread: torch's operators in it would start (and spin) a second team beside the model's.
    """
    import threadpoolctl

    threadpoolctl.threadpool_limits(1, user_api="openmp")
    if sys.platform == "linux":  # elsewhere a priority belongs to a process
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)


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
