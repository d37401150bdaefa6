"""Where a series of levels changed for good.

Changes are searched for by PELT (Killick, Fearnhead and Eckley, 2012), by the package ``ruptures``, which is optional
(extra ``history``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec

LEAST_LEVELS = 10
"""A shorter series is not searched."""
SHORTEST_LEVEL = 3
"""Levels between two changes: one or two sessions that are off are no new level."""
PENALTY = 5.4
"""Cost of a change, in units of variance × log(length). With independent normal noise, at most 2 % of series of 10 to
100 levels get a change that is not there (1.6 % of 4,000 series of 10, fewer of longer ones); a change by 3 standard
deviations in the middle is found in 71 % of series of 10, in 81 % of 12 and in 97 % of 20, one by 5 in 98 % and more
(2,000 and 1,000 series of each length)."""


def can_find_changes() -> bool:
    """Whether ``ruptures`` is installed."""
    return find_spec("ruptures") is not None


def find_changes(levels: Sequence[float]) -> tuple[int, ...]:
    """Return the indices from which on the level is another one, in ascending order.

    The cost of a segment is the sum of squared distances of the logarithms from their mean. The variance of the noise
    comes from the differences of neighbours (von Neumann, 1941), which a change of the level hardly affects.

    Args:
        levels: positive, oldest first; fewer than ``LEAST_LEVELS`` have no changes.
    """
    if len(levels) < LEAST_LEVELS:
        return ()
    logs = [math.log(level) for level in levels]
    variance = sum((b - a) ** 2 for a, b in zip(logs, logs[1:])) / (2 * (len(logs) - 1))
    if variance == 0:
        return ()
    import numpy as np
    import ruptures

    search = ruptures.Pelt(model="l2", min_size=SHORTEST_LEVEL, jump=1).fit(np.array(logs).reshape(-1, 1))
    ends = search.predict(pen=PENALTY * variance * math.log(len(logs)))
    return tuple(int(end) for end in ends[:-1])
