"""The time of each token of a generation over its position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

import msgspec

from modelzoo.document import Column, theme
from modelzoo.formatting import seconds, time_unit
from modelzoo.views.plots.plot import Plot, add_legend, captioned, few, height_of, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 64
"""Positions of one line at most; they lie at equal distances, the first and the last one among them."""


class TokenSeries(msgspec.Struct, frozen=True):
    """The tokens of one setting.

    Attributes:
        label: the setting.
        medians: seconds of the second token and of each one after it, the median over all generations.
    """

    label: str
    medians: tuple[float, ...]

    @property
    def points(self) -> list[tuple[int, float]]:
        """The number of a token, from 2 on, and its seconds."""
        count = len(self.medians)
        kept = min(count, MOST_POINTS)
        ranks = range(count) if kept == count else [round(i * (count - 1) / (kept - 1)) for i in range(kept)]
        return [(rank + 2, self.medians[rank]) for rank in ranks]


class Tokens(msgspec.Struct, frozen=True):
    """The settings of one workload."""

    workload: str
    series: tuple[TokenSeries, ...]


def columns(data: Tokens) -> list[Column]:
    """The points as a table."""
    rows = [(one.label, *point) for one in data.series for point in one.points]
    return [
        Column("setting", tuple(label for label, _, _ in rows)),
        Column("token", tuple(str(number) for _, number, _ in rows), is_number=True),
        Column("median time", tuple(seconds(value) for _, _, value in rows), is_number=True),
    ]


def plot(data: Tokens) -> Optional[Plot]:
    """Return the plot; ``None`` if nothing was generated."""
    if not data.series:
        return None
    caption = (
        "Time of each token after the first one, the median over all generations of all processes. A line that rises "
        "shows the cost of the cache, which grows by one position with each token."
    )
    drawn = few(data.series)
    height = 240 + height_of([wrapped(one.label) for one in drawn])
    title = f"{data.workload}: time of each token"
    return Plot(title, captioned(caption, data.series), columns(data), height, partial(_draw, drawn))


def _draw(drawn: Sequence[TokenSeries], figure: Figure) -> None:
    axes = figure.subplots()
    unit, scale = time_unit(max(max(one.medians) for one in drawn))
    for index, one in enumerate(drawn):
        style, points = theme.series_style(index), one.points
        xs, ys = [number for number, _ in points], [scale * value for _, value in points]
        axes.plot(xs, ys, color=style.colour, lw=2, ls=style.line, label=wrapped(one.label))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("number of the token")
    axes.set_ylabel(f"time in {unit}")
    add_legend(figure)
