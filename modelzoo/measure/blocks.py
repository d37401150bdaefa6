"""Which settings of a workload are alive at the same time. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MEMORY_SHARE = 0.8
"""The workers that are alive at the same time may use this share of the memory that is available."""
FIRST_PEAK = 2 << 30
"""Bytes that each worker is taken to need before any has been measured."""


def capacity(available: int, largest: int) -> int:
    """Return how many workers fit into memory at the same time, at least two: a pair must share a round.

    Args:
        available: bytes that are available before any worker is started.
        largest: peak memory of the largest worker so far, in bytes; 0 before any has been measured.
    """
    return max(2, int(MEMORY_SHARE * available) // (largest or FIRST_PEAK))


def blocks(settings: Sequence[int], capacity: int, sweep: int) -> list[tuple[int, ...]]:
    """Divide the settings into blocks of at most ``capacity``, each with the first setting, the baseline.

    Each setting is compared with the baseline's process of its own block, so the blocks need not fit into memory
    together. The blocks are of nearly equal size; from sweep to sweep settings move on, so that each meets different
    neighbours, and every other block is started backwards (A B C, C B A).

    Args:
        settings: indices of the settings; the first is the baseline.
        capacity: number of workers that may be alive at the same time.
        sweep: number of the pass over all settings, from 0.
    """
    if len(settings) < 2:
        return [tuple(settings)] if settings else []
    baseline, *others = settings
    shift = sweep % len(others)
    others = others[shift:] + others[:shift]
    count = -(-len(others) // max(1, capacity - 1))
    edges = [round(i * len(others) / count) for i in range(count + 1)]
    found = [(baseline, *sorted(others[a:b])) for a, b in zip(edges, edges[1:])]
    return [block if (sweep + i) % 2 == 0 else block[::-1] for i, block in enumerate(found)]
