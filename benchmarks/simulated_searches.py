"""Simulated searches of ``modelzoo tune`` among candidates that are all as fast as the default.

The search runs as the command does: the same stages, the same choice, and a confirmation with new processes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
from promises import Counted, share

from modelzoo import stats
from modelzoo.stats import race
from modelzoo.tuning import decisions
from modelzoo.tuning.search import BLOCK

CANDIDATES = 15
"""Besides the default."""
BUDGET, COST = 900.0, 6.0
"""Seconds of a search, and of one process."""
SPREAD = 0.03
"""Standard deviation of the logarithm of the time of a process."""


def false_winner(generator: np.random.Generator, count: int) -> Counted:
    """Searches among equals that confirm a winner."""
    source = random.Random(int(generator.integers(2**32)))
    pool = (SPREAD * generator.standard_normal(5000)).tolist()
    return share(has_winner(pool, source) for _ in range(count))


def has_winner(pool: Sequence[float], generator: random.Random) -> bool:
    """Search once, with the logarithms of times drawn from ``pool``; return whether a winner is confirmed."""
    logs: dict[int, dict[int, float]] = {group: {} for group in range(1, CANDIDATES + 1)}
    spent, number, kept = COST, 0, list(logs)
    sizes = race.sizes(CANDIDATES)
    for stage, size in enumerate(sizes):
        kept = race.ranked({group: logs[group] for group in kept})[:size] if stage else kept
        blocks = -(-len(kept) // BLOCK)
        costs = [COST] * (len(kept) + blocks)
        left = decisions.SEARCH_SHARE * BUDGET - spent
        rounds = decisions.stage_rounds(costs, len(sizes) - stage, left) if stage else 1
        for _ in range(rounds):
            for start in range(0, len(kept), BLOCK):
                default = generator.choice(pool)
                for group in kept[start : start + BLOCK]:
                    logs[group][number] = default - generator.choice(pool)
                number += 1
        spent += rounds * sum(costs)
    finalists = {group: logs[group] for group in kept}
    # Candidates in the order of the list change one or two options.
    picked = decisions.pick(finalists, {group: 1 + group % 2 for group in finalists})
    count = decisions.confirmation_rounds([COST] * 3, BUDGET - spent) if picked.winner else 0
    if not count:
        return False
    a, b = ([[math.exp(generator.choice(pool))] for _ in range(count)] for _ in range(2))
    return stats.verdicts([stats.ratio_test(a, b)])[0].outcome is stats.Outcome.FASTER
