"""The stages of pipelines, one bar per setting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from modelzoo.document import Column, theme
from modelzoo.formatting import MISSING, seconds
from modelzoo.records.timing import Place
from modelzoo.results.pipeline import PipelineLevels
from modelzoo.views import stages as texts
from modelzoo.views.plots import bars
from modelzoo.views.plots.bars import Key, Look, StackedBar
from modelzoo.views.plots.plot import Plot, captioned, few

_STYLES = {Place.HOST.value: (theme.ORANGE, "////"), Place.DEVICE.value: (theme.SKY, "")}
_LOOK = Look("time per batch", style=lambda place: _STYLES[place], kind=lambda place: f"on the {place}")


class StageBars(msgspec.Struct, frozen=True):
    """The pipelines of one workload."""

    workload: str
    bars: tuple[PipelineLevels, ...]


def columns(data: StageBars) -> list[Column]:
    """The stages as a table: seconds per batch and share of their sum, for every setting."""
    keys = _keys(data.bars)
    found = [Column("stage", tuple(name for name, _ in keys)), Column("on", tuple(place for _, place in keys))]
    for one in data.bars:
        levels = {_key(level.stage.name, level.stage.place): level for level in one.stages}
        cells = (
            f"{seconds(levels[key].seconds.value)} ({texts.share(levels[key].share)})" if key in levels else MISSING
            for key in keys
        )
        found.append(Column(one.label, tuple(cells), is_number=True))
    return found


def plot(data: StageBars) -> Plot:
    """Return the plot of the bars; there is at least one."""
    drawn = few(data.bars)
    keys = _keys(drawn)
    stacks = [
        StackedBar(
            f"{one.label}: {seconds(one.sum)}",
            {_key(level.stage.name, level.stage.place): level.seconds.value for level in one.stages},
        )
        for one in drawn
    ]
    caption = "Seconds of each stage per batch, the level of the processes' medians."
    draw, height = partial(bars.draw, stacks, keys, _LOOK), bars.height(stacks, keys, _LOOK)
    return Plot(f"{data.workload}: time by stage", captioned(caption, data.bars), columns(data), height, draw)


def _key(name: str, place: Place) -> Key:
    return name, place.value


def _keys(found: Sequence[PipelineLevels]) -> list[Key]:
    """All stages in the order in which they run."""
    return list(dict.fromkeys(_key(each.stage.name, each.stage.place) for one in found for each in one.stages))
