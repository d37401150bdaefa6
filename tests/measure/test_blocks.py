"""Which settings run side by side."""

from __future__ import annotations

import pytest

from modelzoo.measure.rounds import blocks, capacity


@pytest.mark.parametrize(
    ("settings", "fit", "sweeps", "expected"),
    [
        (1, 9, 2, [[(0,)], [(0,)]]),
        (2, 9, 3, [[(0, 1)], [(1, 0)], [(0, 1)]]),
        (3, 9, 2, [[(0, 1, 2)], [(2, 1, 0)]]),
        (4, 2, 1, [[(0, 1), (2, 0), (0, 3)]]),
        (5, 3, 2, [[(0, 1, 2), (4, 3, 0)], [(3, 2, 0), (0, 1, 4)]]),
    ],
)
def test_settings_are_interleaved(settings: int, fit: int, sweeps: int, expected: list[list[tuple[int, ...]]]) -> None:
    """A B, B A, A B …: never all of one setting after the other; more than fit are divided, each with the baseline."""
    assert [blocks(range(settings), fit, sweep) for sweep in range(sweeps)] == expected


@pytest.mark.parametrize("fit", [2, 3, 4, 7, 20])
def test_every_setting_meets_the_baseline_once_per_sweep(fit: int) -> None:
    """No block is larger than fits, none is empty, and their sizes differ by at most one."""
    for sweep in range(5):
        found = blocks(range(20), fit, sweep)
        assert all(0 in block and len(block) <= fit for block in found)
        assert sorted(index for block in found for index in block if index) == list(range(1, 20))
        assert max(map(len, found)) - min(map(len, found)) <= 1


def test_without_settings_there_is_no_block() -> None:
    """All of them turned out to be impossible."""
    assert blocks([], 4, 0) == []


@pytest.mark.parametrize(
    ("available", "largest", "expected"), [(10 << 30, 1 << 30, 8), (1 << 30, 1 << 30, 2), (10 << 30, 0, 4)]
)
def test_memory_limits_how_many_run_side_by_side(available: int, largest: int, expected: int) -> None:
    """A fifth of the memory stays free; a pair must fit; before anything is known, 2 GiB each are assumed."""
    assert capacity(available, largest) == expected
