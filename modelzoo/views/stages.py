"""The stages of pipelines as a table and in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from modelzoo.document import Column
from modelzoo.formatting import apart, seconds, share
from modelzoo.records.timing import SYNCHRONIZED, Place
from modelzoo.results.pipeline import SUM_TOLERANCE, PipelineLevels
from modelzoo.views.intervals import interval

END_TO_END, SUM = "end to end", "sum of the stages"
CPU = "cpu"
CAPTION = (
    "stages of the pipeline: time per batch, the geometric mean of the processes' medians with its 95 % interval; "
    "share of the sum of the stages (in the row of that sum: of the end-to-end time)"
)
"""What the columns mean."""


def columns(found: Sequence[PipelineLevels]) -> list[Column]:
    """One row per stage, then their sum and the end-to-end time."""
    rows: list[tuple[str, ...]] = []
    for each in found:
        name = (each.workload, each.label)
        for level in each.stages:
            place = each.device if level.stage.place is Place.DEVICE else str(level.stage.place)
            rows.append((*name, level.stage.name, place, interval(level.seconds), share(level.share)))
        rows.append((*name, SUM, "", seconds(each.sum), share(each.sum / each.end_to_end.value)))
        rows.append((*name, END_TO_END, "", interval(each.end_to_end), ""))
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


def sentences(each: PipelineLevels) -> list[str]:
    """The bottleneck, whether the stages add up, of the levels and within each pass, and what timing them costs."""
    slowest = max(each.stages, key=lambda level: level.seconds.value)
    device = "the device (here the CPU)" if each.device == CPU else f"{each.device}, gaps between kernels included,"
    rest = sum(level.share for level in each.stages if level.stage.place is Place.HOST)
    said = [
        f"bottleneck: {slowest.stage.name}, {share(slowest.share)} of the stages' time; the stages on {device} take "
        f"{share(each.device_share)} of the time, those on the host {share(rest)}"
    ]
    levels = f"the stages add up to {share(each.sum / each.end_to_end.value)} of the end-to-end time"
    if each.adds_up:
        said.append(levels)
    elif abs(each.within_passes - 1) > SUM_TOLERANCE:
        nearest = 1 + math.copysign(SUM_TOLERANCE, each.within_passes - 1)
        within, _ = apart(each.within_passes, nearest, digits=1, show=share)
        said.append(
            f"the stages add up to {within} of the end-to-end time of a pass, which is more than "
            f"{share(SUM_TOLERANCE, 0)} off: some work is in no stage, or a stage is declared in the wrong place"
        )
    else:
        said.append(
            f"{levels}, although to {share(each.within_passes)} within each pass: the times scatter too much for "
            "medians to add up; measure longer"
        )
    cost = each.timing_cost
    if cost is not None:
        low, value, high = (100 * (bound - 1) for bound in (cost.low, cost.value, cost.high))
        known = f"{value:+.1f} %" + (f" [{low:+.1f}, {high:+.1f}]" if cost.half_width < 1 else "")
        # On a CPU, there is nothing to synchronize.
        is_synchronized = each.other_series == SYNCHRONIZED
        what = (
            "a synchronization after each stage changes" if is_synchronized else "timestamps between the stages change"
        )
        said.append(f"{what} the end-to-end time by {known}")
    return said
