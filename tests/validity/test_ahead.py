"""Work ahead of the model: order, bounds and errors."""

from __future__ import annotations

import threading

import pytest

from modelzoo.validity.ahead import ahead, batches, padded


def test_order_is_kept() -> None:
    """Whatever finishes first, results come in the order of the items."""
    release = threading.Event()

    def prepare(item: int) -> int:
        if item == 0:
            release.wait(5)
        else:
            release.set()
        return item * 10

    assert list(ahead(range(20), prepare, depth=4)) == [item * 10 for item in range(20)]


def test_no_more_than_the_depth_is_prepared_ahead() -> None:
    """Memory is bounded: while item k is in use, at most depth + 1 later ones have been started."""
    started: list[int] = []
    for place, _ in enumerate(ahead(range(100), started.append, depth=3)):
        assert max(started, default=0) <= place + 4


def test_an_error_comes_where_its_item_would_have_come() -> None:
    """Items before it are delivered, and the threads end."""

    def prepare(item: int) -> int:
        if item == 3:
            raise ValueError("item 3")
        return item

    seen = []
    with pytest.raises(ValueError, match="item 3"):
        for value in ahead(range(100), prepare, depth=2):
            seen.append(value)
    assert seen == [0, 1, 2]
    assert not [t for t in threading.enumerate() if t.name.startswith("prepare")]


def test_batches_and_padding() -> None:
    """The last batch is smaller, and is filled up with its last item."""
    groups = list(batches(range(5), 2))
    assert groups == [[0, 1], [2, 3], [4]]
    assert padded(groups[-1], 2) == [4, 4]


def test_preparing_threads_start_no_openmp_team() -> None:
    """torch's operators in them run on one thread; the caller's number is left alone."""
    import torch

    before = torch.get_num_threads()
    assert list(ahead(range(3), lambda _: torch.get_num_threads(), depth=1)) == [1, 1, 1]
    assert torch.get_num_threads() == before
