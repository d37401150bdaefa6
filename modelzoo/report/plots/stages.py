"""The stages of pipelines, one bar per setting."""

from __future__ import annotations

from dataclasses import dataclass

from modelzoo.document import Column, theme
from modelzoo.formatting import MISSING, seconds
from modelzoo.records.pipeline import Place
from modelzoo.report import stages as texts
from modelzoo.report.plots import canvas, stacked
from modelzoo.report.plots.stacked import Key, Look, StackedBar
from modelzoo.results.pipeline import PipelineLevels

_STYLES = {Place.HOST.value: (theme.ORANGE, "////"), Place.DEVICE.value: (theme.SKY, "")}
_LOOK = Look("time per batch", style=lambda place: _STYLES[place], kind=lambda place: f"on the {place}")


@dataclass(frozen=True)
class StageBars:
    """The pipelines of one workload."""

    workload: str
    bars: tuple[PipelineLevels, ...]


def columns(data: StageBars) -> list[Column]:
    """The stages as a table: seconds per batch and share of their sum, for every setting."""
    keys = _keys(data)
    found = [Column("stage", tuple(name for name, _ in keys)), Column("on", tuple(place for _, place in keys))]
    for one in data.bars:
        levels = {_key(level.stage.name, level.stage.place): level for level in one.stages}
        cells = (
            f"{seconds(levels[key].seconds.value)} ({texts.share(levels[key].share)})" if key in levels else MISSING
            for key in keys
        )
        found.append(Column(one.label, tuple(cells), is_number=True))
    return found


def svg(data: StageBars, name: str, width: float = canvas.NARROW) -> str:
    """Draw the bars, with the stages as a numbered list below. Without pipelines the result is empty."""
    if not data.bars:
        return ""
    bars = [
        StackedBar(
            f"{one.label}: {seconds(one.sum)}",
            {_key(level.stage.name, level.stage.place): level.seconds.value for level in one.stages},
        )
        for one in data.bars
    ]
    with canvas.drawing():
        figure = stacked.draw(bars, _keys(data), _LOOK, width)
        return canvas.element(figure, name, f"{data.workload}: time by stage", _description(data))


def _key(name: str, place: Place) -> Key:
    return name, place.value


def _keys(data: StageBars) -> list[Key]:
    """All stages in the order in which they run."""
    found = [_key(level.stage.name, level.stage.place) for one in data.bars for level in one.stages]
    return list(dict.fromkeys(found))


def _description(data: StageBars) -> str:
    shown = "; ".join(f"{one.label}: {seconds(one.sum)}, {texts.bottleneck(one)}" for one in data.bars)
    return f"Stacked bars of the time by stage, numbered as in the list below them. {shown}"
