"""Preparing items ahead of the model: order, bounds and errors."""

from __future__ import annotations

import os
import threading

import pytest
import torch

from modelzoo.validity.prefetch import prefetch


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
