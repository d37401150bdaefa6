"""The stages of pipelines as a table and in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from modelzoo.document import Column
from modelzoo.formatting import apart, seconds, share
from modelzoo.records.timing import SYNCHRONIZED, Place
from modelzoo.results.pipeline import SUM_TOLERANCE, PipelineLevels, StageLevel
from modelzoo.views.results_table import interval

END_TO_END, SUM = "end to end", "sum of the stages"
CPU = "cpu"
CAPTION = (
    "stages of the pipeline: time per batch, the geometric mean of the processes' medians with its 95 % interval; "
    "share of the sum of the stages (in the row of that sum: of the end-to-end time)"
)
"""What the columns mean."""


def columns(found: Sequence[PipelineLevels]) -> list[Column]:
    """One row per stage, then their sum and the end-to-end time."""
    rows = [row for each in found for row in _rows(each)]
    first = [index == 0 or rows[index][:2] != rows[index - 1][:2] for index in range(len(rows))]
    names = [tuple(row[part] if new else "" for row, new in zip(rows, first)) for part in (0, 1)]
    return [
        *([Column("workload", names[0])] if len({each.workload for each in found}) > 1 else []),
        *([Column("setting", names[1])] if len({each.label for each in found}) > 1 else []),
        Column("stage", tuple(row[2] for row in rows)),
        Column("on", tuple(row[3] for row in rows)),
        Column("time", tuple(row[4] for row in rows), is_number=True),
        Column("share", tuple(row[5] for row in rows), is_number=True),
    ]


def _rows(each: PipelineLevels) -> list[tuple[str, ...]]:
    name = (each.workload, each.label)
    rows: list[tuple[str, ...]] = [
        (*name, level.stage.name, place_of(each, level), interval(level.seconds), share(level.share))
        for level in each.stages
    ]
    rows.append((*name, SUM, "", seconds(each.sum), share(each.sum / each.end_to_end.value)))
    rows.append((*name, END_TO_END, "", interval(each.end_to_end), ""))
    return rows


def place_of(each: PipelineLevels, level: StageLevel) -> str:
    """Where a stage ran: ``host``, or the device."""
    return each.device if level.stage.place is Place.DEVICE else str(level.stage.place)


def sentences(each: PipelineLevels) -> list[str]:
    """The bottleneck, whether the stages add up, and what timing them costs."""
    return [bottleneck(each), sum_text(each), *([cost_text(each)] if each.timing_cost is not None else [])]


def bottleneck(each: PipelineLevels) -> str:
    """Name the stage that takes most of the time, and say what the stages on the device take."""
    slowest = max(each.stages, key=lambda level: level.seconds.value)
    device = "the device (here the CPU)" if each.device == CPU else f"{each.device}, gaps between kernels included,"
    taken = f"the stages on {device} take {share(each.device_share)} of the time"
    rest = sum(level.share for level in each.stages if level.stage.place is Place.HOST)
    text = f"bottleneck: {slowest.stage.name}, {share(slowest.share)} of the stages' time"
    return f"{text}; {taken}, those on the host {share(rest)}"


def sum_text(each: PipelineLevels) -> str:
    """Say whether the stages add up to the end-to-end time, of the levels in the table and within each pass."""
    levels = each.sum / each.end_to_end.value
    if each.adds_up:
        return f"the stages add up to {share(levels)} of the end-to-end time"
    limit = share(SUM_TOLERANCE, 0)
    if abs(each.within_passes - 1) > SUM_TOLERANCE:
        nearest = 1 + math.copysign(SUM_TOLERANCE, each.within_passes - 1)
        within, _ = apart(each.within_passes, nearest, digits=1, show=share)
        return (
            f"the stages add up to {within} of the end-to-end time of a pass, which is more than "
            f"{limit} off: some work is in no stage, or a stage is declared in the wrong place"
        )
    return (
        f"the stages add up to {share(levels)} of the end-to-end time, although to {share(each.within_passes)} within "
        "each pass: the times scatter too much for medians to add up; measure longer"
    )


def cost_text(each: PipelineLevels) -> str:
    """Say what a synchronization after each stage costs; on a CPU, where there is none, what the timestamps cost."""
    assert each.timing_cost is not None
    low, value, high = (
        100 * (bound - 1) for bound in (each.timing_cost.low, each.timing_cost.value, each.timing_cost.high)
    )
    known = f"{value:+.1f} %"
    if each.timing_cost.half_width < 1:
        known += f" [{low:+.1f}, {high:+.1f}]"
    if each.other_series == SYNCHRONIZED:
        return f"a synchronization after each stage changes the end-to-end time by {known}"
    return f"timestamps between the stages change the end-to-end time by {known}"
