"""The stages of pipelines as a table and in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from modelzoo.document import Column, known
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
    several = [len(set(names)) > 1 for names in zip(*((each.workload, each.label) for each in found))]
    for each in found:
        names = [name if shown else "" for name, shown in zip((each.workload, each.label), several)]
        for level in each.stages:
            place = each.device if level.stage.place is Place.DEVICE else str(level.stage.place)
            rows.append((*names, level.stage.name, place, interval(level.seconds), share(level.share)))
            names = ["", ""]
        rows.append(("", "", SUM, "", seconds(each.sum), share(each.sum / each.end_to_end.value)))
        rows.append(("", "", END_TO_END, "", interval(each.end_to_end), ""))
    titles = ("workload", "setting", "stage", "on", "time", "share")
    return known(*(Column(title, cells, title in titles[-2:]) for title, cells in zip(titles, zip(*rows))))


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
        percent = f"{value:+.1f} %" + (f" [{low:+.1f}, {high:+.1f}]" if cost.half_width < 1 else "")
        # On a CPU, there is nothing to synchronize.
        is_synchronized = each.other_series == SYNCHRONIZED
        what = "a synchronization after each stage changes"
        what = what if is_synchronized else "timestamps between the stages change"
        said.append(f"{what} the end-to-end time by {percent}")
    return said
