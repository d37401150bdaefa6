"""Divide the time of a call among its workloads. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

MINIMUM = 8
"""Processes per setting before the data may end the rounds: with fewer, the estimated spread is itself too uncertain
(its own standard error is 1 / sqrt(2 (n - 1)): 27 % with 8 processes, 50 % with 3)."""
FEWEST = 4
"""Processes per setting of a workload whose processes are so expensive that the budget does not allow 8. With 3, the
interval is half as wide again: Student's t falls from 4.30 to 3.18, and the standard error with it."""
SECONDS_PER_SETTING = 70.0
"""Default budget per workload and setting. The default call has 8 of these: 560 s, so that it is done within
about 10 minutes."""


@dataclass(frozen=True)
class State:
    """What decides whether a workload gets another round.

    Attributes:
        rounds: number of finished rounds.
        cost: seconds that the next round is expected to take.
        needed: number of rounds before the data may end them; ``fixed`` says whether it is also the last.
        fixed: the number of rounds was fixed before anything was timed, or because the processes are expensive.
        half_width: relative half width of the setting whose interval is widest; infinite if unknown.
        decided: every comparison has a verdict.
        can_run: at least one setting can run.
    """

    rounds: int
    cost: float
    needed: int
    fixed: bool
    half_width: float
    decided: bool
    can_run: bool = True

    def need(self, margin: float) -> float:
        """How badly it needs another round: 0 if it needs none; infinite below the minimum."""
        if not self.can_run:
            return 0.0
        if self.rounds < self.needed:
            return math.inf
        if self.fixed:
            return 0.0
        wide = self.half_width / margin
        return wide if wide > 1 else 0.0 if self.decided else 1.0


def needed_rounds(costs: Sequence[float], seconds: float) -> list[int]:
    """Return how many rounds each workload gets before the data may end them, ``MINIMUM`` if there is time for it.

    If there is not, the workloads with the most expensive rounds get fewer, by equal shares of the time, and not less
    than ``FEWEST``.

    Args:
        costs: seconds that a round of each workload takes.
        seconds: the time for all of these rounds.
    """
    found = [MINIMUM] * len(costs)
    left, open_ = seconds, sorted(range(len(costs)), key=lambda i: costs[i])
    while open_:
        cheapest = open_[0]
        if MINIMUM * costs[cheapest] > left / len(open_):
            break
        left -= MINIMUM * costs[cheapest]
        open_ = open_[1:]
    for index in open_:
        found[index] = min(MINIMUM, max(FEWEST, int(left / len(open_) / costs[index])))
    return found


def next_workload(states: Sequence[State], margin: float, remaining: float, *, hard: bool) -> Optional[int]:
    """Return the index of the workload that gets the next round; ``None`` if none needs one or can afford one.

    Rounds that are needed in any case come first, the workloads in turn. Then the workload whose interval is widest,
    compared with ``margin``, among those whose round fits into the time.

    Args:
        remaining: seconds left of the budget.
        hard: the budget was given by the user; otherwise the rounds that are needed are run even if the time is up.
    """
    required = [i for i, state in enumerate(states) if state.need(margin) == math.inf and state.rounds < state.needed]
    affordable = [i for i, state in enumerate(states) if state.cost <= remaining]
    if hard:
        required = [i for i in required if i in affordable]
    if required:
        return min(required, key=lambda i: (states[i].rounds / states[i].needed, i))
    needy = [i for i in affordable if states[i].need(margin) > 0]
    return max(needy, key=lambda i: (states[i].need(margin), -i), default=None)
