"""Ticks of logarithmic axes, in round numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

_LINEAR_UP_TO = 2.5
"""Ticks are multiples of one step, as on a linear axis, while the axis spans less than this factor."""


def log_ticks(low: float, high: float, length: float, apart: float) -> list[float]:
    """Return as many round numbers between ``low`` and ``high`` as a logarithmic axis has place for.

    Args:
        low: lower end of the axis, above 0.
        high: upper end.
        length: of the axis.
        apart: smallest distance between two ticks, in the unit of ``length``.
    """
    if not high > low > 0:
        return [low]
    for candidates in _candidates(low, high):
        ticks = [tick for tick in candidates if low <= tick <= high]
        if len(ticks) > 1 and _closest(ticks) * length >= apart * math.log(high / low):
            return ticks
    return [float(f"{math.sqrt(low * high):.2g}")]


def _candidates(low: float, high: float) -> Iterator[Sequence[float]]:
    """From many ticks to few."""
    from matplotlib.ticker import MaxNLocator

    if high / low <= _LINEAR_UP_TO:
        for count in range(9, 0, -1):
            ticks = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
            yield [float(f"{tick:.10g}") for tick in ticks]  # three times 0.1 is not 0.3
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        yield [float(f"{factor}e{power}") for power in powers for factor in factors]
    for every in (2, 3, 5, 10):
        yield [float(f"1e{power}") for power in powers if power % every == 0]


def _closest(ticks: Sequence[float]) -> float:
    return min((math.log(b / a) for a, b in zip(ticks, ticks[1:])), default=0.0)
