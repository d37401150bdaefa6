"""Marks that are too many to be named in the plot: each has a number beside it, and the legend says what it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelzoo.report.plots.svg import HALO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OFFSET = 13.0
"""Distance of a number from its mark in CSS pixels."""


def write_number(axes: Axes, number: int, mark: tuple[float, float], offset: tuple[float, float]) -> None:
    """Write the number of a mark beside it.

    Args:
        axes: the mark's.
        number: the number.
        mark: its place in the units of the axes.
        offset: of the number from the mark, in CSS pixels; see ``number_offsets``.
    """
    axes.annotate(
        str(number),
        mark,
        xytext=offset,
        textcoords="offset points",
        ha="center",
        va="center",
        fontweight="bold",
        gid=HALO,
        zorder=5,
    )


def number_offsets(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Where the number of each mark stands beside it: on the side that is farthest from marks and other numbers.

    Args:
        places: of the marks, in CSS pixels.
    """
    taken, found = list(places), []
    for index, (x, y) in enumerate(places):
        others = [place for number, place in enumerate(taken) if number != index]
        sides = ((_OFFSET, 0.0), (-_OFFSET, 0.0), (0.0, _OFFSET), (0.0, -_OFFSET))
        best = max(sides, key=lambda side: min((math.dist((x + side[0], y + side[1]), o) for o in others), default=0.0))
        found.append(best)
        taken.append((x + best[0], y + best[1]))
    return found
