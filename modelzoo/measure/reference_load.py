"""The ``reference`` job: a fixed computation that takes short turns between the workers' turns.

The load is one layer of a transformer as numpy computes it: the product of a 384 × 768 and a 768 × 3072 matrix by
numpy's BLAS with the workers' threads, then two passes over the 4.7 MB of the result by one thread. So it depends on
the speed of the vector units, on the caches and on the memory, as the workloads do. It is the same code whatever
engine, release or image is measured. Shapes and operations are frozen: ``VERSION`` changes with any of them, and turns
of different versions are never compared.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter, time
from typing import Callable, Optional

from modelzoo.frozen import replace
from modelzoo.records.protocol import Message, Paused, ReferenceJob, ReferenceTaken
from modelzoo.records.timing import ReferenceTurn

VERSION = 1
TURN_SECONDS = 0.1
"""Length of a turn. Long enough for several passes, and short beside the workers' turns of 0.5 s."""
MIN_PASSES = 3
"""A turn takes at least this many passes, however slow the machine is."""


def run(job: ReferenceJob, send: Callable[[Message], None], take_turn: Callable[[], None]) -> Message:
    """Take turns until the parent ends this process; never returns."""
    once = load()
    once()
    threads = blas_threads()
    while True:
        send(Paused())
        take_turn()
        send(ReferenceTaken(replace(take(once), threads=threads)))


def blas_threads() -> Optional[int]:
    """Return the threads of numpy's BLAS, whose build limits them; ``None`` if it does not tell."""
    import threadpoolctl

    counts = [entry["num_threads"] for entry in threadpoolctl.threadpool_info() if entry["user_api"] == "blas"]
    return max(counts, default=None)


def load() -> Callable[[], None]:
    """Return the load; a call of it is one pass."""
    import numpy as np

    generator = np.random.default_rng(0)
    left = generator.standard_normal((384, 768), dtype=np.float32)
    right = generator.standard_normal((768, 3072), dtype=np.float32)
    product = np.empty((384, 3072), np.float32)
    result = np.empty_like(product)

    def once() -> None:
        np.matmul(left, right, out=product)
        np.maximum(product, 0, out=result)
        np.add(result, product, out=result)

    return once


def take(once: Callable[[], None]) -> ReferenceTurn:
    """Take one turn. An untimed pass comes first: the workers have used the caches in the meantime."""
    once()
    seconds: list[float] = []
    epoch, started = time(), perf_counter()
    before = started
    while before - started < TURN_SECONDS or len(seconds) < MIN_PASSES:
        once()
        now = perf_counter()
        seconds.append(now - before)
        before = now
    return ReferenceTurn(epoch, epoch + before - started, median(seconds), VERSION)
